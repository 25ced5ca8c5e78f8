"""Puts traces and journals into partitioned Parquet, each file once, and reads their rows in order.

`inputs` finds files, `read` turns them into rows, `blocks` and `number` give every row its place,
`lake` knows the folders and `traces` and `journals` fill them. Nothing is imported here.
"""
