"""Feeds: each sender keeps its own readers, and nobody agrees on anything (SRM Figure 2).

A reader says SUBSCRIBE to everybody; each sender answers BEGIN, and the reader is in. It repeats
that until it is answered, and later now and then, so that the two sides of a network that was
split find each other. Whoever hears of a sender that it does not read subscribes to it alone.

`view` is what one process knows: those who read from it, and those it reads from. It is compared
with nobody's. A peer is forgotten when it says that it leaves, when a later life of it speaks, or
when nothing was heard of it for too long (`patience`). If this sender waits for it, that has a
bound, so that a dead reader blocks nobody for longer.

A reader that was forgotten, because it was stopped, is told so as soon as it speaks. It subscribes
again with what it has. If the sender still has all that came after that, the stream goes on; if
not, it begins anew, and the application learns where (`FeedDetection.begin`).
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import EVERYBODY, NEVER, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.membership.patience import Awaited, Patience
from semcast.protocol.membership.view import View
from semcast.protocol.membership.views import Views
from semcast.protocol.outbox import Outbox
from semcast.protocol.stability.feed import BEAT_NS, FeedDetection
from semcast.wire.decode import Decoded
from semcast.wire.families.readers import BEGIN, SUBSCRIBE, Begin, Have, Subscribe
from semcast.wire.frames import ControlFrame

# How often to look who is silent.
_LOOK_NS: Final = 500_000_000
# A reader that owes an acknowledgement is reminded at least once in so many periods.
_ANSWER_PERIODS: Final = 16
# Subscriptions that nobody answers are repeated ever less often, down to this.
_REPEAT_MAX_NS: Final = 1_000_000_000
# A process is in though a sender has not answered, if it has waited that long for it so many times:
# the sender may have died just after it was heard of.
_LONG_WAITS_MAX: Final = 2
# How often to look for senders that nothing was heard of, once there is nothing else to do.
_SEARCH_NS: Final = 10_000_000_000
# After so many subscriptions to everybody, a process is in if all who answered have begun.
_SEARCHES_FIRST: Final = 2
# More others than this are not known: further ones wait until some have gone.
_PEERS_MAX: Final = 4_000
# So many that have left are remembered.
_LEFT_MAX: Final = 512


@final
class _Peer:
    """Another process, in one life."""

    def __init__(self, source: Source, name: str, awaited: Awaited) -> None:
        self.source: Final = source
        self.name = name
        self.awaited: Final = awaited


@final
class _Ask:
    """A subscription to one sender that is not answered yet."""

    def __init__(self, source: Source, attempt: i64, pause_ns: i64, now_ns: i64) -> None:
        self.source: Final = source
        self.attempt: Final[i64] = attempt
        self.pause_ns = pause_ns
        self.next_ns = now_ns
        self.long_waits = 0


@final
class FeedViews(Views):
    """Those that one process of a feed knows."""

    def __init__(
        self,
        config: MemberConfig,
        me: Source,
        view: View,
        detection: FeedDetection,
    ) -> None:
        super().__init__(view)
        self._me: Final = me
        self._name: Final = view.names[view.position(me.sender)] if view.names else ""
        self._sends: Final = config.role != "reader"
        self._detection: Final = detection
        self._period_ns: Final[i64] = config.gossip_period_ns
        self._peers: Final[dict[int, _Peer]] = {}
        self._patience: Final = Patience()
        self._doubted: list[int] = []
        self._asks: Final[dict[int, _Ask]] = {}
        # The number of the last subscription, to whomever.
        self._attempt: i64 = 0
        # When to subscribe to everybody next, and how often that was done; the first time at once.
        self._search_ns: i64 = 0
        self._searches: i64 = 0
        self._search_attempt: i64 = 0
        self._inside = False
        self._look_ns: i64 = NEVER
        self._searching = False
        self._to_ask: Final[dict[int, None]] = {}
        # Senders to tell that this process reads from them no longer.
        self._to_leave: Final[dict[int, None]] = {}
        self._leaving = False
        self._said_leaving = False
        # Lives of processes that said that they are gone for good: what comes of them is late.
        self._left: Final[dict[int, int]] = {}

    def kinds(self) -> tuple[int, ...]:
        return (SUBSCRIBE, BEGIN)

    def strangers_kinds(self) -> tuple[int, ...]:
        return (SUBSCRIBE, BEGIN)

    def inside(self) -> bool:
        """It has looked for senders often enough, or has found some, and begun with all of them
        that answer.
        """
        return self._inside or (len(self._detection.streams) > 0 and not self._asks)

    # -- what is heard -----------------------------------------------------------------------------

    def heard(self, source: Source, now_ns: i64) -> None:
        peer = self._peers.get(int(source.sender))
        if peer is not None:
            peer.awaited.heard(now_ns)

    def refused(self, sender: int, now_ns: i64) -> None:
        peer = self._peers.get(sender)
        if peer is not None:
            peer.awaited.refused(now_ns)
            self._look_ns = min(self._look_ns, now_ns + self._patience.ask_after_ns())

    def suspects(self) -> list[int]:
        """Those that this process waits for in vain, as far as was looked."""
        return self._doubted

    def was_put_out(self, source: Source) -> bool:
        return source.incarnation > self._left.get(int(source.sender), -1)

    def reborn(self, source: Source, now_ns: i64) -> None:  # noqa: ARG002
        peer = self._peers.get(int(source.sender))
        if peer is not None and source.incarnation > peer.source.incarnation:
            self._forget(peer)

    def gone(self, sender: int, now_ns: i64) -> None:  # noqa: ARG002
        peer = self._peers.get(sender)
        if peer is not None:
            self._forget(peer)

    def stranger(self, source: Source, now_ns: i64) -> None:
        """Nobody's view is compared with another's."""

    def met(self, source: Source, now_ns: i64) -> None:
        """A process that may send is there: read from it."""
        if self._leaving or self._is_over(source) or source in self._detection.streams:
            return
        if int(source.sender) not in self._asks and self._meet(source, "", now_ns):
            self._ask(source, now_ns)

    def outsider(self, source: Source, decoded: Decoded, now_ns: i64) -> None:
        """Somebody unknown sends messages, or says that it has sent some: read from it. If not, it
        may take itself for a reader of this process, and is told that it is none.
        """
        if self._leaving or self._is_over(source):
            return
        speaks = any(message.source == source for message in decoded.messages)
        for frame in decoded.control:
            if isinstance(frame, Have) and any(of == source for of, _ in frame.rows):
                speaks = True
        if speaks and self._meet(source, "", now_ns):
            self._ask(source, now_ns)
        self._detection.no_reader(int(source.sender))

    def on_frame(self, frame: ControlFrame, source: Source, now_ns: i64) -> None:
        if source.sender == self._me.sender or self._is_over(source):
            return
        if isinstance(frame, Begin):
            self._on_begin(frame, source, now_ns)
        else:
            assert isinstance(frame, Subscribe)
            self._on_subscribe(frame, source, now_ns)

    def _is_over(self, source: Source) -> bool:
        """Whether this is a former life, or one that has left."""
        sender = int(source.sender)
        peer = self._peers.get(sender)
        former = peer is not None and source.incarnation < peer.source.incarnation
        return former or source.incarnation <= self._left.get(sender, -1)

    def _on_subscribe(self, frame: Subscribe, source: Source, now_ns: i64) -> None:
        if frame.leaves:
            self._on_leaves(source, frame.direct)
            return
        if not self._sends and not frame.sends:
            return  # two readers have nothing to do with each other
        if self._leaving or not self._meet(source, frame.name, now_ns):
            return
        if self._sends:
            since = max([has for of, has in frame.rows if of == self._me], default=-1)
            audience = self._detection.audience
            audience.admit(source, frame.attempt, since, frame.direct, now_ns)
        if frame.sends and source not in self._detection.streams:
            self._ask(source, now_ns)
        self._drop_if_unused(self._peers[int(source.sender)])

    def _on_leaves(self, source: Source, direct: bool) -> None:
        peer = self._peers.get(int(source.sender))
        if not direct:
            if len(self._left) >= _LEFT_MAX:
                del self._left[next(iter(self._left))]
            self._left[int(source.sender)] = int(source.incarnation)
        if peer is None or peer.source != source:
            return
        if direct:
            self._detection.audience.dismiss(source)
            self._drop_if_unused(peer)
        else:
            self._forget(peer)

    def _on_begin(self, frame: Begin, source: Source, now_ns: i64) -> None:
        detection = self._detection
        stream, ask = detection.streams.get(source), self._asks.get(int(source.sender))
        if frame.gone:
            if stream is not None and ask is None:
                self._ask(source, now_ns)
            return
        rows = [row for row in frame.rows if row[0] == source]
        if not rows or self._leaving or not self._meet(source, frame.name, now_ns):
            return
        known: i64 = -1
        if ask is not None:
            known = ask.attempt
        elif stream is not None:
            known = stream.attempt
        wanted = frame.attempt == known
        if frame.attempt > known:
            # It answers what was said to everybody. That is as good, unless there is something to
            # go on with: then it has forgotten this reader, and takes it for a new one.
            wanted = detection.since(source) < 0
            if not wanted:
                self._asks.pop(int(source.sender), None)
                self._ask(source, now_ns)
        if wanted:
            self._asks.pop(int(source.sender), None)
            detection.begin(source, frame.attempt, rows[0][1], rows[0][2])

    # -- who is known ------------------------------------------------------------------------------

    def _meet(self, source: Source, name: str, now_ns: i64) -> bool:
        """Know a process from now on. Says whether there was room for it."""
        sender = int(source.sender)
        peer = self._peers.get(sender)
        if peer is not None and peer.source != source:
            self._forget(peer)
            peer = None
        if peer is None:
            if len(self._peers) >= _PEERS_MAX:
                return False
            awaited = Awaited(_ANSWER_PERIODS * self._period_ns, BEAT_NS, now_ns)
            self._peers[sender] = _Peer(source, name, awaited)
            self._look_ns = min(self._look_ns, now_ns + _LOOK_NS)
            self._make_view()
        else:
            peer.awaited.heard(now_ns)
            if name and peer.name != name:
                peer.name = name
                self._make_view()
        return True

    def _forget(self, peer: _Peer) -> None:
        """Neither read from it, nor wait for it, any longer."""
        sender = int(peer.source.sender)
        del self._peers[sender]
        self._asks.pop(sender, None)
        self._detection.audience.dismiss(peer.source)
        self._detection.end(peer.source)
        self._make_view()

    def _drop_if_unused(self, peer: _Peer) -> None:
        source = peer.source
        if self._detection.audience.holds(source) or source in self._detection.streams:
            return
        if int(source.sender) not in self._asks:
            self._forget(peer)

    def _make_view(self) -> None:
        mine = (int(self._me.incarnation), self._name)
        rows = {sender: (int(p.source.incarnation), p.name) for sender, p in self._peers.items()}
        rows[int(self._me.sender)] = mine
        members = tuple(sorted(rows))
        number = self.view.number + 1
        self.view = View(
            number,
            members,
            tuple(rows[sender][0] for sender in members),
            0,
            tuple(rows[sender][1] for sender in members),
            0,
            (number,) * len(members),
            self.view.origin,
        )

    # -- what is said ------------------------------------------------------------------------------

    def _ask(self, source: Source, now_ns: i64) -> None:
        """Subscribe to one sender, unless that is being done."""
        sender = int(source.sender)
        if sender not in self._asks and not self._leaving:
            self._attempt += 1
            self._asks[sender] = _Ask(source, self._attempt, self._period_ns, now_ns)

    def leave(self, now_ns: i64) -> None:  # noqa: ARG002
        """Tell everybody that this process goes."""
        self._leaving = True
        self._asks.clear()

    def on_timer(self, now_ns: i64) -> None:
        if now_ns >= self._search_ns and not self._leaving:
            self._search(now_ns)
        holds_up = False
        for sender, ask in self._asks.items():
            if now_ns >= ask.next_ns:
                self._to_ask[sender] = None
                if ask.pause_ns == _REPEAT_MAX_NS:
                    ask.long_waits += 1
                ask.next_ns = now_ns + ask.pause_ns
                ask.pause_ns = min(2 * ask.pause_ns, _REPEAT_MAX_NS)
            holds_up = holds_up or ask.long_waits < _LONG_WAITS_MAX
        if now_ns >= self._look_ns:
            self._look(now_ns)
        if self._searches > _SEARCHES_FIRST and not holds_up:
            self._inside = True

    def _search(self, now_ns: i64) -> None:
        self._searching = True
        self._attempt += 1
        self._search_attempt = self._attempt
        self._searches += 1
        pause_ns = self._period_ns << min(self._searches - 1, 16)
        if self._searches > _SEARCHES_FIRST and self._peers:
            pause_ns = _SEARCH_NS
        self._search_ns = now_ns + min(pause_ns, _SEARCH_NS if self._peers else _REPEAT_MAX_NS)

    def _look(self, now_ns: i64) -> None:
        """Forget those that were not heard of for too long."""
        patience, audience = self._patience, self._detection.audience
        late_ns = patience.woke(self._look_ns, now_ns)
        pause_ns: i64 = _LOOK_NS
        self._doubted = []
        for peer in list(self._peers.values()):
            one = peer.awaited
            if late_ns > 0:
                one.slept(late_ns, now_ns)
            one.owes(audience.behind_since_ns(peer.source))
            if patience.is_silent(one, now_ns):
                if peer.source in self._detection.streams:
                    self._to_leave[int(peer.source.sender)] = None
                self._forget(peer)
            elif patience.owes_too_long(one, now_ns):
                audience.dismiss(peer.source)
                self._drop_if_unused(peer)
            else:
                if patience.is_doubted(one, now_ns):
                    self._doubted.append(int(peer.source.sender))
                if patience.is_to_ask(one):
                    self._ask_whether_there(peer, now_ns)
                    pause_ns = patience.ask_after_ns()
        self._look_ns = now_ns + pause_ns if self._peers else NEVER

    def _ask_whether_there(self, peer: _Peer, now_ns: i64) -> None:
        """Whatever it is to this process, have it say something."""
        if self._detection.audience.holds(peer.source):
            self._detection.remind(peer.source)
        if peer.source in self._detection.streams:
            self._ask(peer.source, now_ns)

    def next_deadline_ns(self) -> i64:
        soonest = self._look_ns
        if not self._leaving:
            soonest = min(soonest, self._search_ns)
        for ask in self._asks.values():
            soonest = min(soonest, ask.next_ns)
        return soonest

    def pack(self, outbox: Outbox, now_ns: i64) -> None:  # noqa: ARG002
        if self._leaving:
            if not self._said_leaving:
                self._said_leaving = True
                outbox.frame(EVERYBODY, Subscribe(0, self._name, self._sends, False, True))
            return
        if self._searching:
            self._searching = False
            outbox.frame(EVERYBODY, Subscribe(self._search_attempt, self._name, self._sends))
        for sender in self._to_ask:
            ask = self._asks.get(sender)
            if ask is not None:
                since = self._detection.since(ask.source)
                rows = [(ask.source, since)] if since >= 0 else []
                frame = Subscribe(ask.attempt, self._name, self._sends, True, False, rows)
                outbox.frame(sender, frame)
        self._to_ask.clear()
        for sender in self._to_leave:
            outbox.frame(sender, Subscribe(0, self._name, self._sends, True, True))
        self._to_leave.clear()
