"""Key Order, which stands for FIFO Order where the order is "key": if a process multicasts m before
m', and both are of one sequence (about one key, alone or with others, or both unmarked) or m' names
m, no process delivers m after delivering m'. Nothing is said of other messages. Holds on every
prefix.

So a newer value may overtake what was multicast before it, but never what is about its own key, and
what is never replaced comes as it was sent.

A process that comes back is another sender, and its messages replace nothing of its former life. So
a node may have values of one key of both. If m of the former life had come to the node (`receive`)
before it delivered m' of a later one about the same key, it does not deliver m after m'. What comes
only afterwards, because others send it again, is delivered all the same.
"""

from collections.abc import Iterable
from typing import Final, final

from semcast.check.facts import source_of
from semcast.check.kernel import BY_LIVES, BY_SENDER, Group, Kernel
from semcast.check.property import Property
from semcast.check.rows import DELIVER, MULTICAST, RECEIVE, TAKEN, Row
from semcast.journal import keys_in


@final
class KeyOrderKernel(Kernel):
    """Each delivery must come later in its sequence than all before it, and before its covers."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        # By node and sequence: of what it delivered, the message that was multicast last.
        self._latest: Final[dict[tuple[int, int], int]] = {}
        # By node: what it must not deliver any more, and the message that named it.
        self._named: Final[list[dict[int, int]]] = [{} for _ in self.run.nodes]

    def feed_each(self, rows: Iterable[Row]) -> None:
        """Look at every delivery."""
        sent = self.group.sent
        assert sent.sequences is not None
        for row in rows:
            message = sent.index[row[3]] if row[0] in TAKEN else -1
            if message < 0:
                continue
            n, other = row[1], -1
            for sequence, _ in sent.sequences.of(message):
                last = self._latest.get((n, sequence), -1)
                if last <= message:
                    self._latest[n, sequence] = message
                elif other < 0:
                    other = last
            if other < 0:
                other = self._named[n].get(message, -1)
            for older in sent.names(message):
                self._named[n].setdefault(older, message)
            if other >= 0:
                self._late(row, sent.seqs[other])

    def _late(self, row: Row, other: int) -> None:
        sender, seq = self.group.sender, row[3]
        text = (
            f"delivers {sender}#{seq} after {sender}#{other}, which was multicast later and "
            "is of the same key, names it, or is unmarked as well"
        )
        self.report(PROPERTY.name, row[1], [(sender, seq), (sender, other)], row[7], text)


@final
class KeyLivesKernel(Kernel):
    """All lives of one sender: what it multicast, then what nodes received and delivered of it."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        facts = group.facts
        self._life: Final = {
            sid: source_of(facts.senders[sid][1])[1]
            for sid, first in facts.lives.items()
            if first == group.number
        }
        # By message (the number of its sender, and its own): its keys; and where nodes received it.
        self._keys: Final[dict[tuple[int, int], list[str]]] = {}
        self._received: Final[dict[tuple[int, int, int], int]] = {}
        # By node and key: of each life, the last delivery, and the message.
        self._last: Final[dict[tuple[int, str], dict[int, tuple[int, int, int]]]] = {}

    def feed_each(self, rows: Iterable[Row]) -> None:
        """What came before something newer of its key must be delivered before it."""
        for row in rows:
            kind, n, sid, seq, _, _, at, _, _, _, key, rank, *_ = row
            if kind == MULTICAST:
                several = keys_in(key) if key and rank is None else []
                self._keys.setdefault((sid, seq), several)
            elif kind == RECEIVE:
                self._received.setdefault((n, sid, seq), at)
            elif kind == DELIVER:
                self._on_delivery(row)

    def _on_delivery(self, row: Row) -> None:
        _, n, sid, seq, _, _, at, time_ns, *_ = row
        life = self._life[sid]
        latest = (-1, -1, -1)
        for key in self._keys.get((sid, seq), ()):
            of_key = self._last.setdefault((n, key), {})
            latest = max([latest, *(one for other, one in of_key.items() if other > life)])
            of_key[life] = (at, sid, seq)
        came = self._received.get((n, sid, seq))
        if came is not None and latest[0] > came:
            late, before = self.message(sid, seq), self.message(*latest[1:])
            text = (
                f"delivers {late} after {before}, which is about the same key and of a later life "
                "of its sender, although it had come before"
            )
            self.report(PROPERTY.name, n, [late, before], time_ns, text)


PROPERTY: Final = Property(
    "Key Order",
    {BY_SENDER: KeyOrderKernel, BY_LIVES: KeyLivesKernel},
    ("deliver", "state"),
    order=("key",),
)
