"""An optimistic first multicast (bimodal): the network sends to everybody, pulling mends the rest.

Where one datagram reaches many members, a message goes to all of them at once and nobody relays it.
Whoever missed it gets it by pulling, from the neighbours that the inner targets know.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import EVERYBODY, Source
from semcast.protocol.epidemic.targets import Targets
from semcast.protocol.membership.view import View
from semcast.protocol.outbox import Outbox
from semcast.wire.frames import ControlFrame


@final
class OptimisticMulticast(Targets):
    """Everybody for a member's own messages, nobody for those of others."""

    def __init__(self, inner: Targets) -> None:
        """`inner` knows single members, and keeps that up to date."""
        self._inner: Final = inner

    def draw(self, count: i64, came_from: i64) -> list[int]:  # noqa: ARG002
        return [EVERYBODY] if came_from == EVERYBODY else []

    def links(self) -> int:
        return 1

    def accepts(self, source: Source) -> bool:
        return self._inner.accepts(source)

    def heard(self, source: Source, now_ns: i64) -> None:
        self._inner.heard(source, now_ns)

    def take_gone(self) -> list[int]:
        return self._inner.take_gone()

    def kinds(self) -> tuple[int, ...]:
        return self._inner.kinds()

    def install(self, view: View, now_ns: i64) -> None:
        self._inner.install(view, now_ns)

    def on_frame(self, frame: ControlFrame, source: Source, now_ns: i64) -> None:
        self._inner.on_frame(frame, source, now_ns)

    def next_deadline_ns(self) -> i64:
        return self._inner.next_deadline_ns()

    def on_timer(self, now_ns: i64) -> None:
        self._inner.on_timer(now_ns)

    def pack(self, outbox: Outbox, now_ns: i64) -> None:
        self._inner.pack(outbox, now_ns)
