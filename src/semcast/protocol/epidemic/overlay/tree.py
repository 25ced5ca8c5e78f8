"""A spanning tree with lazy links (Plumtree): each message comes once, and is only told of else.

Every link begins eager: messages go over it as they come. One that brings a copy of what is here
already becomes lazy (WANT with LAZY): over it goes only IHAVE, some time later. So the eager links
become a tree. If an IHAVE names a message that does not come in time, the link that told of it
becomes eager again and brings the message (WANT with EAGER): that mends a torn tree.

The tree stands between the gossip tier and the overlay, whose neighbours are its links; messages
that are asked for come out of the store of `Pull`.
"""

from dataclasses import dataclass
from typing import Final, final

from mypy_extensions import i64

from semcast.errors import ConfigError
from semcast.ids import NEVER, Source
from semcast.protocol.epidemic.delivery import Delivery
from semcast.protocol.epidemic.inbox import Inbox
from semcast.protocol.epidemic.overlay.overlay import Overlay
from semcast.protocol.epidemic.overlay.pull import Pull
from semcast.protocol.epidemic.targets import Targets
from semcast.protocol.membership.view import View
from semcast.protocol.outbox import Outbox
from semcast.wire.families.epidemic import ROUND_MAX
from semcast.wire.families.pull import (
    EAGER,
    IHAVE,
    LAZY,
    SUMMARY,
    TOLD_MAX,
    WANT,
    IHave,
    Told,
    Want,
)
from semcast.wire.families.repair import COVERED
from semcast.wire.frames import ControlFrame
from semcast.wire.message import Message

_MS_NS: Final = 1_000_000
# Members that told of a missing message and may be asked for it.
_TELLERS_MAX: Final = 4


@dataclass(frozen=True)
class TreeConfig:
    """How long things wait."""

    # For how long messages are collected that neighbours are told of.
    tell_ns: int = 20 * _MS_NS
    # How long a message that was told of may take to come by itself, and from one who was asked.
    wait_ns: int = 150 * _MS_NS
    again_ns: int = 100 * _MS_NS
    # Messages that were told of and did not come.
    missing_max: int = 1_024

    def __post_init__(self) -> None:
        for name in ("tell_ns", "wait_ns", "again_ns", "missing_max"):
            if not 1 <= getattr(self, name) <= 1 << 50:
                raise ConfigError(f"tree {name} is {getattr(self, name)}; it goes from 1 to 2^50")


@final
class Missing:
    """A message that others have."""

    def __init__(self, teller: int, due_ns: i64) -> None:
        self.tellers: Final = [teller]
        self.due_ns: i64 = due_ns


@final
class Tree(Targets):
    """Sends over eager links, and tells over lazy ones."""

    def __init__(self, config: TreeConfig, overlay: Overlay, pull: Pull) -> None:
        self.config: Final = config
        self._overlay: Final = overlay
        self._pull: Final = pull
        self._inbox: Inbox | None = None
        # Neighbours over whose links messages are told of, and do not go.
        self.lazy: Final[dict[int, None]] = {}
        self._telling: Final[dict[int, list[Told]]] = {}
        self._tell_ns: i64 = NEVER
        self._missing: Final[dict[tuple[Source, int], Missing]] = {}
        self._due_ns: i64 = NEVER
        self._out: list[tuple[int, ControlFrame]] = []
        self.grafts: i64 = 0
        self.prunes: i64 = 0

    # -- targets -----------------------------------------------------------------------------------

    def draw(self, count: i64, came_from: i64) -> list[int]:  # noqa: ARG002
        """All eager links, whatever the fan-out."""
        return [to for to in self._overlay.neighbours() if to != came_from and to not in self.lazy]

    def links(self) -> int:
        return self._overlay.links()

    def accepts(self, source: Source) -> bool:
        return self._overlay.accepts(source)

    def heard(self, source: Source, now_ns: i64) -> None:
        self._overlay.heard(source, now_ns)

    def take_gone(self) -> list[int]:
        """A link that is made anew begins eager."""
        gone = self._overlay.take_gone()
        for sender in gone:
            self.lazy.pop(sender, None)
            self._telling.pop(sender, None)
        return gone

    # -- messages ----------------------------------------------------------------------------------

    def follows(self) -> bool:
        return True

    def attach(self, inbox: Inbox, delivery: Delivery) -> None:
        self._inbox = inbox
        self._pull.attach(inbox, delivery)

    def on_message(self, message: Message, hops: i64, came_from: i64, now_ns: i64) -> None:
        self._pull.on_message(message, hops, came_from, now_ns)
        if self._missing:
            self._missing.pop((message.source, int(message.seq)), None)
        pushed = hops < ROUND_MAX
        if pushed:
            # That link is one of the tree.
            self.lazy.pop(int(came_from), None)
        told = (message.source, int(message.seq), int(min(hops + 1, ROUND_MAX)))
        for to in self._overlay.neighbours():
            # What was pulled is not pushed on, so that all others are told of it.
            if to != came_from and (to in self.lazy or not pushed):
                self._tell(to, told, now_ns)

    def on_copy(self, source: Source, seq: i64, hops: i64, came_from: i64, now_ns: i64) -> None:  # noqa: ARG002
        sender = int(came_from)
        if hops < ROUND_MAX and sender not in self.lazy and sender in self._overlay.views.active:
            self.lazy[sender] = None
            self.prunes += 1
            self._out.append((sender, Want([], LAZY)))

    def _tell(self, to: int, told: Told, now_ns: i64) -> None:
        self._telling.setdefault(to, []).append(told)
        if self._tell_ns == NEVER:
            self._tell_ns = now_ns + self.config.tell_ns

    # -- as a part ---------------------------------------------------------------------------------

    def kinds(self) -> tuple[int, ...]:
        return (*self._overlay.kinds(), IHAVE, WANT, SUMMARY, COVERED)

    def install(self, view: View, now_ns: i64) -> None:
        self._overlay.install(view, now_ns)

    def on_frame(self, frame: ControlFrame, source: Source, now_ns: i64) -> None:
        if isinstance(frame, IHave):
            self._on_told(frame, int(source.sender), now_ns)
            return
        if isinstance(frame, Want):
            self._on_want(frame, int(source.sender))
        kind = int(frame.frame_kind())
        if kind in (WANT, SUMMARY, COVERED):
            self._pull.on_frame(frame, source, now_ns)
        else:
            self._overlay.on_frame(frame, source, now_ns)

    def _on_want(self, frame: Want, sender: int) -> None:
        """The other end says what its link is to be."""
        if frame.marks == EAGER:
            self.lazy.pop(sender, None)
        elif frame.marks == LAZY and sender in self._overlay.views.active:
            self.lazy[sender] = None

    def _on_told(self, frame: IHave, sender: int, now_ns: i64) -> None:
        inbox = self._inbox
        for source, seq, _ in frame.told:
            if inbox is None or not inbox.is_new(source, seq):
                continue
            missing = self._missing.get((source, seq))
            if missing is not None:
                if len(missing.tellers) < _TELLERS_MAX and sender not in missing.tellers:
                    missing.tellers.append(sender)
            elif len(self._missing) < self.config.missing_max:
                due_ns = now_ns + self.config.wait_ns
                self._missing[(source, seq)] = Missing(sender, due_ns)
                self._due_ns = min(self._due_ns, due_ns)

    def next_deadline_ns(self) -> i64:
        own = min(self._tell_ns, self._due_ns)
        return min(own, min(self._overlay.next_deadline_ns(), self._pull.next_deadline_ns()))

    def on_timer(self, now_ns: i64) -> None:
        self._overlay.on_timer(now_ns)
        self._pull.on_timer(now_ns)
        if self._tell_ns <= now_ns:
            self._tell_ns = NEVER
            for to, told in self._telling.items():
                for at in range(0, len(told), TOLD_MAX):
                    self._out.append((to, IHave(told[at : at + TOLD_MAX])))
            self._telling.clear()
        if self._due_ns <= now_ns:
            self._graft(now_ns)

    def _graft(self, now_ns: i64) -> None:
        """Ask for what did not come, each time another one who has it; then leave it to pulling."""
        self._due_ns = NEVER
        for name, missing in list(self._missing.items()):
            if missing.due_ns <= now_ns:
                if not missing.tellers or (
                    self._inbox is not None and not self._inbox.is_new(name[0], name[1])
                ):
                    del self._missing[name]
                    continue
                teller = missing.tellers.pop(0)
                missing.due_ns = now_ns + self.config.again_ns
                self.lazy.pop(teller, None)
                self.grafts += 1
                self._out.append((teller, Want([(name[0], name[1], name[1])], EAGER)))
            self._due_ns = min(self._due_ns, missing.due_ns)

    def pack(self, outbox: Outbox, now_ns: i64) -> None:
        self._overlay.pack(outbox, now_ns)
        self._pull.pack(outbox, now_ns)
        if self._out:
            for to, frame in self._out:
                outbox.frame(to, frame)
            self._out = []
