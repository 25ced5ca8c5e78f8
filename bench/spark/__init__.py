"""`make bench-spark`: what verifying, analysing and profiling cost on Spark, beside DuckDB.

`data` makes a journal and a trace, `jobs` asks Spark about them in a process of its own
(`worker`), `meter` measures, `queries` are the same questions in SQL and `duck` has DuckDB answer
them, `show` makes tables and JSON. Nothing here is part of semcast, and DuckDB is no dependency of
it.
"""
