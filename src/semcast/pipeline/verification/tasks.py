"""What tasks of Spark do: rows, shares of files or findings in, findings out, in Arrow's form."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from semcast.check.facts import Facts
from semcast.check.files import judge_file
from semcast.check.kernel import Finding, Makers, standing
from semcast.check.tally import summed
from semcast.journal.schema import require_pyarrow


def judge_files(
    batches: Iterator[Any], files: list[str], facts: Facts, sorting: str, makers: Makers
) -> Iterator[list[Finding]]:
    """What a task does with a run in a file: shares in, findings out."""
    for batch in batches:
        for row in batch.to_pylist():
            no = row["run_no"]
            yield from judge_file(Path(files[no]), facts, no, sorting, row["groups"], makers)


def findings(
    batches: Iterator[Any],
    judge: Callable[[Iterator[Any]], Iterator[list[Finding]]],
    arrow_schema: Any,
) -> Iterator[Any]:
    """What a task does: batches in, what is found in them out."""
    for found in judge(batches):
        yield require_pyarrow().RecordBatch.from_arrays(
            _columns(found, arrow_schema), schema=arrow_schema
        )


def _columns(found: list[Finding], arrow_schema: Any) -> list[Any]:
    columns = zip(*found, strict=True) if found else [[] for _ in arrow_schema]
    return [
        require_pyarrow().array(column, field.type)
        for column, field in zip(columns, arrow_schema, strict=True)
    ]


def those_that_stand(table: Any) -> Any:
    """What a task does: the findings of some cells in, those that stand out."""
    pyarrow = require_pyarrow()
    names = ["run_no", "property", "n", "at", "precedence", "key", "place"]
    found = [
        Finding(**{**row, "place": None if row["place"] is None else tuple(row["place"].values())})
        for row in table.select(names).to_pylist()
    ]
    return table.drop_columns(["cell"]).filter(pyarrow.array(standing(found), pyarrow.bool_()))


def tallies_summed(table: Any) -> Any:
    """What a task does: the tallies of one run in, what they break out."""
    found = [
        Finding(
            **{
                **row,
                "messages": [tuple(one.values()) for one in row["messages"]],
                "tally": tuple(row["tally"].values()),
            }
        )
        for row in table.to_pylist()
    ]
    columns = _columns(summed(found), table.schema)
    return require_pyarrow().Table.from_arrays(columns, schema=table.schema)
