"""Runs in .venv-bench: statements as JSON on stdin, the last one's rows and costs as JSON out.

Knows nothing but DuckDB: it is started as a file, so that nothing of semcast is imported.
"""

import json
import resource
import sys
import time
from typing import Any


def main() -> None:
    import duckdb  # type: ignore[import-not-found, unused-ignore]

    order: dict[str, Any] = json.load(sys.stdin)
    database = duckdb.connect()
    try:
        for statement in order["before"]:
            database.execute(statement)
        started_s = time.perf_counter()
        answer = database.execute(order["query"])
        rows = answer.fetchall()
    except duckdb.Error as error:
        sys.exit(str(error).splitlines()[0])
    seconds = time.perf_counter() - started_s
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    names = [column[0] for column in answer.description]
    found = [dict(zip(names, row, strict=True)) for row in rows]
    print(json.dumps({"seconds": seconds, "peak_bytes": peak_bytes, "rows": found}, default=str))


if __name__ == "__main__":
    main()
