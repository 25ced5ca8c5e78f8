"""Key Order across the lives of a sender, as `check._lives` has it: a kernel for all of them."""

from typing import Any, Final, final

from semcast.check.key_order import PROPERTY, late_life_text
from semcast.journal import keys_in
from semcast.pipeline.verify.columns import Columns
from semcast.pipeline.verify.facts import Facts, source_of
from semcast.pipeline.verify.frames import MULTICAST, RECEIVE


def kernel(facts: Facts, lid: int) -> "LivesKernel | None":
    """Follows a sender through its lives, if it has several and the order is by key."""
    return LivesKernel(facts, lid) if lid in facts.lives.values() else None


@final
class LivesKernel:
    """The messages of one sender: all multicasts first, then what nodes received and delivered."""

    def __init__(self, facts: Facts, lid: int) -> None:
        self._facts: Final = facts
        self._run: Final = facts.runs[facts.senders[lid][0]]
        self._life: Final = {
            sid: source_of(facts.senders[sid][1])[1] for sid, of in facts.lives.items() if of == lid
        }
        # By message (the number of its sender, and its own): its keys; and where nodes received it.
        self._keys: Final[dict[tuple[int, int], list[str]]] = {}
        self._received: Final[dict[tuple[int, int, int], int]] = {}
        # By node and key: of each life, the last delivery, and the message.
        self._last: Final[dict[tuple[int, str], dict[int, tuple[int, int, int]]]] = {}
        self.found: list[tuple[Any, ...]] = []

    def feed(self, rows: Columns) -> None:
        """What came before something newer of its key must be delivered before it."""
        for at, kind in enumerate(rows["kind"]):
            sid, seq, n = rows["sid"][at], rows["seq"][at], rows["n"][at]
            if kind == MULTICAST:
                key = rows["key"][at]
                several = keys_in(key) if key and rows["rank"][at] is None else []
                self._keys.setdefault((sid, seq), several)
            elif kind == RECEIVE:
                self._received.setdefault((n, sid, seq), rows["at"][at])
            else:
                self._on_delivery(n, sid, seq, rows["at"][at], rows["time_ns"][at])

    def _on_delivery(self, n: int, sid: int, seq: int, at: int, time_ns: int) -> None:
        life = self._life[sid]
        latest = (-1, -1, -1)
        for key in self._keys.get((sid, seq), ()):
            of_key = self._last.setdefault((n, key), {})
            latest = max([latest, *(one for other, one in of_key.items() if other > life)])
            of_key[life] = (at, sid, seq)
        came = self._received.get((n, sid, seq))
        if came is not None and latest[0] > came:
            late, before = (self._facts.message(*one) for one in ((sid, seq), latest[1:]))
            node = self._run.nodes[n]
            text = late_life_text(node, str(late), str(before))
            about = [tuple(late), tuple(before)]
            self.found.append((self._run.header.run, PROPERTY, node, about, time_ns, text))

    def end(self) -> None:
        """Everything was said."""
