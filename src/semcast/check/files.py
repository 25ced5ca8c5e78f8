"""The file of a whole run in, findings out: rows by group, read as often as it takes, never sorted.

Events lie in a file in the order in which they happened, so those of one node or one sender do too.
Whoever judges some groups reads all of the file and takes what is theirs: reading costs a tenth of
a microsecond for an event, far less than to bring it to somebody else. Where what was multicast
goes first, the file is read twice. Knows nothing of Spark, whose tasks call it, nor of the
properties.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from semcast.check.facts import Facts
from semcast.check.kernel import (
    BY_LIVES,
    BY_NODE,
    BY_SENDER,
    FLUSH_FINDINGS,
    IN_ORDER,
    KINDS_OF,
    OF_RUN,
    SENT_FIRST,
    Finding,
    GroupJudge,
    Makers,
)
from semcast.check.rows import (
    KINDS,
    MULTICAST,
    OTHER,
    PURGE_DELIVERY,
    PURGE_OTHER,
    PURGED_FROM,
    SKIP,
    Longs,
    Rows,
    slices_of,
)
from semcast.journal.schema import require_pyarrow

_BATCH_ROWS: Final = 1 << 16
_NAMES: Final = ("node", "event", "sender", "where", "by_sender")
_NUMBERS: Final = ("time_ns", "seq", "size", "by_seq")
# What was said of messages when they were multicast; only those that judge by sender ask.
_SAID: Final = ("obsoletes", "key", "rank")
# Of a federation only.
_OF_GROUPS: Final = ("group", "view")


def judge_file(
    path: Path, facts: Facts, run_no: int, sorting: str, groups: Sequence[int], makers: Makers
) -> Iterator[list[Finding]]:
    """What the kernels of these groups find in the file of their run."""
    reader = _Reader(path, facts, run_no, sorting, groups)
    judges = {number: GroupJudge(facts, sorting, number, makers) for number in groups}
    kinds = KINDS_OF[sorting]
    passes = [(MULTICAST,), kinds[1:]] if sorting in SENT_FIRST else [kinds]
    found: list[Finding] = []
    for some in passes:
        for number, rows in reader.read(some):
            judges[number].feed(rows)
            found += judges[number].taken()
            if len(found) >= FLUSH_FINDINGS:
                yield found
                found = []
    for judge in judges.values():
        found += judge.end()
    if found:
        yield found


@final
class _Reader:
    """Reads the rows of some groups from a file."""

    def __init__(
        self, path: Path, facts: Facts, run_no: int, sorting: str, groups: Sequence[int]
    ) -> None:
        self._arrow: Final = require_pyarrow()
        self._path: Final = path
        self._sorting: Final = sorting
        run = facts.runs[run_no]
        self._nodes: Final = run.numbers
        self._senders: Final = {
            name: sid for sid, (number, name) in enumerate(facts.senders) if number == run_no
        }
        self._crash_at: Final = np.array(run.crash_at)
        self._gids: Final = (
            {} if run.sites is None else {name: gid for gid, name in enumerate(run.sites.groups)}
        )
        # By node or sender: its group, or -1 if that is not among these.
        self._first_nid: Final = facts.nodes.index((run_no, 0))
        of = {BY_LIVES: facts.lives, IN_ORDER: facts.group_of}.get(sorting)
        count = len(facts.nodes if sorting == BY_NODE else facts.senders)
        wanted = set(groups)
        numbers = (number if of is None else of.get(number, -1) for number in range(count))
        if sorting == OF_RUN:
            numbers = (run_no for _ in range(count))
        self._group: Final = np.array([one if one in wanted else -1 for one in numbers] + [-1])

    def read(self, kinds: Sequence[int]) -> Iterator[tuple[int, Rows]]:
        """Rows of these kinds, by group, batch by batch."""
        wanted = np.zeros(OTHER + 2, bool)
        wanted[list(kinds)] = True
        said = _SAID if MULTICAST in kinds and self._sorting in SENT_FIRST else ()
        of_groups = _OF_GROUPS if self._gids else ()
        columns = [*_NAMES, *_NUMBERS, *said, *of_groups]
        events = None
        if OTHER not in kinds:
            events = {
                name: 1 for name, kind in KINDS.items() if wanted[kind] or kind == PURGE_OTHER
            }
        at = 0
        file = self._arrow.parquet.ParquetFile(self._path, read_dictionary=[*_NAMES, "group"])
        with file:
            for batch in file.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
                places = np.flatnonzero(self._may_be_wanted(batch, events))
                if len(places):
                    some = batch.take(self._arrow.array(places))
                    yield from self._groups_of(some, at + places, wanted, said)
                at += batch.num_rows

    def _may_be_wanted(self, batch: Any, events: dict[str, int] | None) -> NDArray[np.bool_]:
        """Which rows to look at: those of these groups and, if given, of these events."""
        if self._sorting == BY_NODE:
            may = self._group[_coded(batch, "node", self._nodes) + self._first_nid] >= 0
        else:
            may = self._group[_coded(batch, "sender", self._senders)] >= 0
        if self._sorting == BY_SENDER:
            may |= self._group[_coded(batch, "by_sender", self._senders)] >= 0
        return may if events is None else may & (_coded(batch, "event", events) == 1)

    def _groups_of(
        self, batch: Any, places: Longs, wanted: NDArray[np.bool_], said: Sequence[str]
    ) -> Iterator[tuple[int, Rows]]:
        rows = self._numbered(batch, places)
        group = self._group_of(rows)
        taken = np.flatnonzero(wanted[rows["kind"]] & (group >= 0))
        # Stable: rows of a group stay in their order.
        taken = taken[np.argsort(group[taken], kind="stable")]
        columns = {name: self._arrow.array(column[taken]) for name, column in rows.items()}
        for name in said:
            columns[name] = batch.column(name).take(self._arrow.array(taken))
        if wanted[OTHER]:
            columns["event"] = batch.column("event").take(self._arrow.array(taken)).cast("string")
        made = self._arrow.RecordBatch.from_pydict(columns)
        for number, part in slices_of(group[taken]):
            yield number, Rows(batch=made.slice(part.start, part.stop - part.start))

    def _numbered(self, batch: Any, places: Longs) -> dict[str, Longs]:
        """Names as numbers, -1 where there is none."""
        seq, by_seq = _longs(batch, "seq", -1), _longs(batch, "by_seq", -1)
        sid, bsid = (
            _coded(batch, "sender", self._senders),
            _coded(batch, "by_sender", self._senders),
        )
        kind = _coded(batch, "event", KINDS, -1)
        purges = np.flatnonzero(kind == PURGE_OTHER)
        kind[purges] = _coded(batch, "where", PURGED_FROM, PURGE_OTHER)[purges]
        kind = np.where((sid < 0) | batch.column("seq").is_null().to_numpy(False), -1, kind)
        n = _coded(batch, "node", self._nodes)
        kind = np.where((kind < 0) & (places > self._crash_at[n]), OTHER, kind)
        covered = ~batch.column("by_seq").is_null().to_numpy(False)
        found = {
            "kind": kind,
            "n": n,
            "sid": sid,
            "seq": seq,
            "bsid": np.where(covered, bsid, -1),
            "bseq": by_seq,
            "at": places,
            "time_ns": _longs(batch, "time_ns", 0),
            "size": _longs(batch, "size", 0),
        }
        if self._gids:
            found["gid"] = _coded(batch, "group", self._gids)
            found["graph"] = _longs(batch, "view", -1)
        return found

    def _group_of(self, rows: dict[str, Longs]) -> Longs:
        if self._sorting == BY_NODE:
            return self._group[rows["n"] + self._first_nid]
        if self._sorting == BY_SENDER:
            kind = rows["kind"]
            purged = (kind >= PURGE_DELIVERY) & (kind <= SKIP)
            return self._group[np.where(purged, rows["bsid"], rows["sid"])]
        return self._group[rows["sid"]]


def _coded(batch: Any, name: str, numbers: dict[str, int], other: int = -1) -> Longs:
    """A column of names as numbers; `other` for what has none, and -1 for null.

    A purge that says not where it was is one elsewhere.
    """
    column = batch.column(name)
    codes = column.indices.fill_null(len(column.dictionary)).to_numpy()
    known = [numbers.get(value, other) for value in column.dictionary.to_pylist()]
    found: Longs = np.array([*known, other if name == "where" else -1], np.int64)[codes]
    return found


def _longs(batch: Any, name: str, null: int) -> Longs:
    found: Longs = batch.column(name).fill_null(null).to_numpy().astype(np.int64)
    return found
