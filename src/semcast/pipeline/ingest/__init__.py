"""Traces and journals into partitioned Parquet, once each; and their rows, in order.

`inputs` finds files, `read` turns them into rows, `blocks` and `number` give every row its place,
`lake` knows the folders and `traces` and `journals` fill them. Nothing is imported here.
"""
