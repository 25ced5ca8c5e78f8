"""What made up for a message, by the covers that purges name: one member's messages in and out.

Covers point from message to message until one was delivered. All pointers are followed at once,
each time twice as far as before, so that a chain of a million takes twenty steps. Runs in Python,
on a table of all messages of one member: some hundred bytes for each.
"""

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semcast.journal.schema import ArrowTable, require_pyarrow

Numbers: TypeAlias = NDArray[np.int64]
_NOT_YET: Final = np.iinfo(np.int64).max


def by_cover(table: ArrowTable) -> ArrowTable:
    """REPLACEMENTS of one member in; the same, with the covers of purges and skips followed, out.

    How many values such a message was behind is not known, unless keys say so.
    """
    arrow = require_pyarrow()
    here = np.arange(table.num_rows)
    pointer = _covers(table)
    made_up_ns = _numbers(table["made_up_ns"], _NOT_YET)
    best = here
    while True:
        there = best[pointer]
        best = np.where(made_up_ns[there] < made_up_ns[best], there, best)
        further = pointer[pointer]
        if np.array_equal(further, pointer):
            break
        pointer = further
    for name in ("made_up_ns", "made_up_sent_ns"):
        table = _with(table, name, table[name].take(arrow.array(best)))
    behind = _numbers(table["values_behind"], -1)
    unknown = (best != here) | (behind < 0)
    return _with(table, "values_behind", arrow.array(behind, mask=unknown))


def _with(table: ArrowTable, name: str, column: Any) -> ArrowTable:
    return table.set_column(table.schema.get_field_index(name), name, column)


def _numbers(column: Any, null: int) -> Numbers:
    return np.asarray(column.fill_null(null).to_numpy(), dtype=np.int64)


def _covers(table: ArrowTable) -> Numbers:
    """Where the cover of each message stands; its own place if it has none, or none is there."""
    arrow = require_pyarrow()
    count = table.num_rows
    names = arrow.chunked_array([*table["sender"].chunks, *table["by_sender"].chunks])
    encoded = names.combine_chunks().dictionary_encode()
    senders = _numbers(encoded.indices, -1)
    pair = np.dtype([("sender", np.int64), ("seq", np.int64)])
    own, wanted = np.empty(count, pair), np.empty(count, pair)
    own["sender"], own["seq"] = senders[:count], _numbers(table["seq"], -1)
    wanted["sender"], wanted["seq"] = senders[count:], _numbers(table["by_seq"], -1)
    order = np.lexsort((own["seq"], own["sender"]))
    place = np.minimum(np.searchsorted(own[order], wanted), count - 1)
    there: Numbers = order[place]
    return np.where(own[there] == wanted, there, np.arange(count))
