"""A journal in memory, read once for all kernels: what is known of the run, and rows by group.

A `Journal` goes in. Nodes and senders become numbers, events rows (`rows`), each put where kernels
want it (`kernel`). Knows nothing of the properties. `pipeline.verification` does the same for
journals that do not fit into memory.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cached_property
from operator import itemgetter
from typing import Final, final

from semcast.check.facts import NEVER, Facts, RunFacts, Seen, Waiting, run_facts, source_of
from semcast.check.kernel import (
    BY_LIVES,
    BY_NODE,
    BY_SENDER,
    BY_STREAM,
    IN_ORDER,
    KINDS_OF,
    OF_RUN,
)
from semcast.check.rows import (
    ABOUT_MESSAGES,
    DELIVER,
    IGNORE,
    JOIN,
    KINDS,
    MULTICAST,
    OTHER,
    PURGE_DELIVERY,
    PURGE_OTHER,
    PURGED_FROM,
    RECEIVE,
    SKIP,
    STABLE,
    STATE,
    UNDO,
    VIEW,
    Row,
)
from semcast.check.sites import OF_SITES
from semcast.errors import InputError
from semcast.journal import Event, Header, Journal, parse_node

Groups = dict[int, list[Row]]
# Where there are no groups, and no graph.
_NO_GROUP: Final = (-1, -1)


@final
class History:
    """What kernels need to know of a journal."""

    def __init__(self, journal: Journal) -> None:
        self.journal: Final = journal
        self.header: Final[Header] = journal.header
        self.rows: Final[list[Row]] = []
        self._crosses = False
        self.counts: Final = Counter(map(itemgetter(3), journal.events))
        nodes = {name: n for n, name in enumerate(self.header.members)}
        senders: dict[str, int] = {}
        self._gids: Final[dict[str, int]] = {}
        seen = Seen(self.counts, end_ns=journal.events[-1].time_ns if journal.events else 0)
        self._read(nodes, senders, seen)
        seen.sites.groups.extend(self._gids)
        run = run_facts(self.header, seen)
        # What an event does not name was not seen, so the numbers given here are those of `run`.
        assert run.nodes == list(nodes)
        self.run: Final[RunFacts] = run
        self.facts: Final = Facts(
            [run],
            [(0, n) for n in range(len(nodes))],
            [(0, name) for name in senders],
            any(row[0] == MULTICAST and row[11] is not None for row in self.rows),
            frozenset((0,) if self._crosses else ()),
        )

    @staticmethod
    def of(log: "Journal | History") -> "History":
        """The history of a journal, unless it is one already."""
        return log if isinstance(log, History) else History(log)

    def _read(self, nodes: dict[str, int], senders: dict[str, int], seen: Seen) -> None:
        first_at, append = seen.first_at, self.rows.append
        federated = self.header.federated
        for at, event in enumerate(self.journal.events):
            (
                time_ns, _, node, name, sender, seq, obsoletes, key, rank, _, size, where,
                by_sender, by_seq, view, group,
            ) = event  # fmt: skip
            if node not in first_at:
                parse_node(node)
                first_at[node] = at
                nodes.setdefault(node, len(nodes))
            kind = KINDS.get(name, OTHER)
            if sender is None or seq is None or (by_seq is not None and by_sender is None):
                kind = _unnamed(event)
            if kind in (MULTICAST, VIEW):
                seen.note_one(event, at)
            elif kind == PURGE_OTHER:
                kind = PURGED_FROM.get(where or "", PURGE_OTHER)
            elif kind == OTHER:
                # After a crash there should be nothing, so that everything counts.
                counts = node in seen.crash_at
                self._note(seen, event, at)
                if not counts:
                    continue
                if name not in ABOUT_MESSAGES:
                    sender = by_seq = None
            sid = bsid = bseq = -1
            if sender is not None:
                sid = senders.get(sender, -1)
                if sid < 0:
                    sid = senders[sender] = len(senders)
            if by_seq is not None:
                bsid, bseq = senders.setdefault(by_sender or "", len(senders)), by_seq
                self._crosses |= bsid != sid
            grouped = self._grouped(view, group) if federated else _NO_GROUP
            append(
                (kind, nodes[node], sid, -1 if seq is None else seq, bsid, bseq, at, time_ns,
                 size or 0, obsoletes, key, rank, None, name, *grouped)
            )  # fmt: skip

    def _note(self, seen: Seen, event: Event, at: int) -> None:
        """Note an event that is no message's."""
        seen.note(event.node, event.event, at, at, event.seq)
        if self.header.federated and event.event in OF_SITES:
            seen.sites.note(
                event.node, event.event, at, event.time_ns, event.sender, event.seq, event.key
            )

    def _grouped(self, view: int | None, group: str | None) -> tuple[int, int]:
        """The number of a message's group, and of the graph in force."""
        name = self.header.group if group is None else group
        return self._gids.setdefault(name, len(self._gids)), -1 if view is None else view

    # -- groups ------------------------------------------------------------------------------------

    def groups(self, sorting: str) -> Iterator[tuple[int, list[list[Row]]]]:
        """Each group of a sorting by its number: its rows in order, in one list or several."""
        if sorting == BY_NODE:
            yield from ((n, [rows]) for n, rows in self._by_node.items())
        elif sorting == BY_SENDER:
            for sid in range(len(self.facts.senders)):
                yield sid, [self._sent[sid], self._responses[sid]]
        elif sorting == IN_ORDER:
            yield from ((gid, [rows]) for gid, rows in self._in_order.items())
        elif sorting == OF_RUN and self.header.federated:
            yield 0, [[row for row in self.rows if row[0] in (DELIVER, UNDO)]]
        elif sorting == BY_STREAM and self.header.federated:
            yield from ((sid, parts) for sid, parts in enumerate(self._by_stream()))
        elif sorting == BY_LIVES and self.facts.lives:
            yield from ((lid, parts) for lid, parts in self._by_lives().items())

    @cached_property
    def _by_node(self) -> Groups:
        found: Groups = defaultdict(list)
        for row in self.rows:
            if row[0] in _BY_NODE:
                found[row[1]].append(row)
        return found

    @cached_property
    def _in_order(self) -> Groups:
        found: Groups = defaultdict(list)
        if self._crosses:
            found[0] = [row for row in self.rows if row[0] in _IN_ORDER]
        else:
            for row in self.rows:
                if row[0] in _IN_ORDER:
                    found[row[2]].append(row)
        return found

    @cached_property
    def _sent(self) -> Groups:
        """By sender: its multicasts, with `chain_at`."""
        found: Groups = defaultdict(list)
        for row in self.rows:
            if row[0] == MULTICAST:
                if self._chains:
                    row = (*row[:12], self._chains.get((row[2], row[3]), (None,))[0], *row[13:])
                found[row[2]].append(row)
        return found

    @cached_property
    def _responses(self) -> Groups:
        """By sender: what was delivered of it, who joined it, and what was purged for its messages;
        by origin, the views.

        What is asked of a purged message is what its sender said of it, not what others did.
        """
        found: Groups = defaultdict(list)
        for row in self.rows:
            kind = row[0]
            if kind in _OF_SENDER:
                found[row[2]].append(row)
            elif PURGE_DELIVERY <= kind <= SKIP and row[4] >= 0:
                _, key, rank = self._chains.get((row[2], row[3]), (None, None, None))
                found[row[4]].append((*row[:10], key, rank, None, *row[13:]))
        return found

    def _by_stream(self) -> list[list[list[Row]]]:
        found: list[list[list[Row]]] = [[[], []] for _ in self.facts.senders]
        for row in self.rows:
            if row[0] in _BY_STREAM and row[2] >= 0:
                found[row[2]][row[0] != MULTICAST].append(row)
        return found

    def _by_lives(self) -> dict[int, list[list[Row]]]:
        lives = self.facts.lives
        found: dict[int, list[list[Row]]] = {}
        for row in self.rows:
            if row[0] in (MULTICAST, RECEIVE, DELIVER) and row[2] in lives:
                found.setdefault(lives[row[2]], [[], []])[row[0] != MULTICAST].append(row)
        return found

    @cached_property
    def _chains(self) -> dict[tuple[int, int], tuple[int, str, int]]:
        """By ranked message: where the first message stands that replaces it by its rank, its key
        and its rank (PSRM §2.4).
        """
        if not self.facts.ranked or not self.header.purging:
            return {}
        first: dict[tuple[int, int], Row] = {}
        for row in self.rows:
            if row[0] == MULTICAST:
                first.setdefault((row[2], row[3]), row)
        keys: dict[str, list[Row]] = defaultdict(list)
        for row in first.values():
            if row[11] is not None:
                keys[row[10] or ""].append(row)
        found = {}
        for key, rows in keys.items():
            source = {row[2]: source_of(self.facts.senders[row[2]][1]) for row in rows}
            at = NEVER
            for row in sorted(
                rows, key=lambda row: (row[11], source[row[2]], row[3]), reverse=True
            ):
                found[row[2], row[3]] = (at, key, row[11])
                at = min(at, row[6])
        return found

    # -- at rest? ----------------------------------------------------------------------------------

    def waiting(self) -> list[Waiting]:
        """By node and sender: what was done, from which follows what may be left to do."""
        found: dict[tuple[int, int], list[int]] = {}
        for kind, n, sid, seq, *_ in self.rows:
            one = found.setdefault((n, sid), [0] * 5)
            if kind == RECEIVE:
                one[0] += 1
                one[3] = max(seq, one[3])
            elif kind in (DELIVER, PURGE_DELIVERY):
                one[1] += 1
            elif kind == MULTICAST:
                one[2] = max(seq, one[2])
            elif kind == STABLE:
                one[4] = max(seq, one[4])
        senders = self.facts.senders
        return [
            Waiting(self.run.nodes[n], senders[sid][1], *one)
            for (n, sid), one in found.items()
            if sid >= 0
        ]


_IN_ORDER: Final = frozenset(KINDS_OF[IN_ORDER])
_BY_NODE: Final = frozenset(KINDS_OF[BY_NODE])
_BY_STREAM: Final = frozenset(KINDS_OF[BY_STREAM])
_OF_SENDER: Final = frozenset((DELIVER, STATE, IGNORE, JOIN, VIEW, UNDO))


def _unnamed(event: Event) -> int:
    """The kind of an event that does not say which message; of some it must."""
    if event.event not in ABOUT_MESSAGES:
        return OTHER
    raise InputError(
        f"event {event.lsn} ({event.event}) of {event.node} does not say which message; "
        "sender and seq are needed, and both of the cover if there is one"
    )
