"""Watch: signs of life in; who is accused of being dead, out. Failure detection of one member.

Each member is watched by the few that follow it in the order of sender ids, which are hashes, as on
a ring; everybody knows who watches whom. It sends each of them something at least once in a
heartbeat period: whatever it sends anyway, or else a PING. So a larger group costs nobody more.

    silent for longer than usual   suspected: asked itself, and some others are asked about it
    it answers, or one of them     trusted again
      has heard of it
    nothing came back              accused, which is told to it, as long as nothing is heard of it

How long is too long follows from the gaps that were observed (`accrual`), from how late timers go
off at either end, and from how well this member is itself (`health`). A member that was stopped
counts no silence of others during that time. Nobody else's word makes a member accuse; what a group
does about accusations is not decided here.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import EVERYBODY, NEVER, Randomness, Source
from semcast.protocol.membership.errands import Errands
from semcast.protocol.membership.health import Health
from semcast.protocol.membership.heartbeats import Heartbeats
from semcast.protocol.membership.ring import draw, watched_by, watchers_of
from semcast.protocol.membership.view import View
from semcast.protocol.membership.waits import Waits, WatchConfig
from semcast.protocol.membership.watched import ACCUSED, SUSPECTED, TRUSTED, Watched
from semcast.protocol.outbox import Outbox
from semcast.protocol.part import Part
from semcast.wire.families.probes import (
    ACCUSES,
    AGE_NEVER,
    ANSWERS,
    ASK,
    ASKS,
    PING,
    VOUCH,
    WAIT_US_MAX,
    Ask,
    Ping,
    Vouch,
)
from semcast.wire.frames import ControlFrame

# An accused member is asked ever less often, down to this many heartbeats apart.
_BEATS_MAX: Final = 16
# A member is accused early if the world said at least so often that nobody is there any more.
_REFUSALS: Final = 2
# More watchers than this hear of a member by one datagram to everybody.
_EACH_MAX: Final = 4
# Frames that wait to be sent; more than these are not answered.
_WAITING_MAX: Final = 512


@final
class Watch(Part):
    """The watch that one member keeps."""

    def __init__(self, me: Source, view: View, config: WatchConfig, random: Randomness) -> None:
        self._me: Final = me
        self._view = view
        self._config: Final = config
        self._random: Final = random
        self._slack_ns: Final[i64] = config.late_ns
        self.health: Final = Health()
        self._waits: Final = Waits(config, self.health)
        self._errands: Final = Errands()
        self._beats: Final = Heartbeats(config, len(view.present))
        # What is known of others, by sender id. INV-KNOWN: all of them are present in the view.
        self._known: Final[dict[int, Watched]] = {}
        # Those of them that are watched or doubted, the only ones that a timer looks at.
        self._looked_at: list[Watched] = []
        # Members that this one watches although they do not know it, so that it has to ask them.
        self._unknowing: list[int] = []
        # Set if others than those on the ring are watched, watch this one, and may be asked.
        self._chosen: tuple[list[int], list[int], list[int]] | None = None
        self._told_wait_ns: i64 = 0
        self._number: i64 = 0
        self._out: list[tuple[int, ControlFrame]] = []
        self._changes: list[tuple[int, bool]] = []
        # When a timer is due, and when it is late. The first `on_timer` says what time it is.
        self._begun = False
        self._due_ns: i64 = 0
        self._late_ns: i64 = NEVER

    # -- what others ask for -----------------------------------------------------------------------

    def accused(self) -> list[int]:
        """Who is accused now, in order."""
        return self._in_doubt(ACCUSED)

    def suspected(self) -> list[int]:
        """Who is asked about now, and not yet accused, in order."""
        return self._in_doubt(SUSPECTED)

    def take_changes(self) -> list[tuple[int, bool]]:
        """Who was accused (True) or heard of again (False) since the last call, in that order."""
        changes, self._changes = self._changes, []
        return changes

    def watched(self) -> list[int]:
        """Whom this member watches, in order."""
        return sorted(peer.sender for peer in self._looked_at if peer.promised)

    def watchers(self) -> list[int]:
        """Who watches it."""
        return list(self._beats.watchers)

    def _in_doubt(self, doubt: int) -> list[int]:
        return sorted(peer.sender for peer in self._looked_at if peer.doubt == doubt)

    # -- who watches whom --------------------------------------------------------------------------

    def install(self, view: View, now_ns: i64) -> None:
        """Those who stay keep what is known of them."""
        before, self._view = self._view, view
        self._beats.suit(len(view.present))
        for sender, peer in list(self._known.items()):
            peer.retime(self._beats.period_ns)
            if not view.holds(peer.source):
                del self._known[sender]
        if self._begun:
            self._follow(before, now_ns)
            self._look_soon(now_ns)

    def watch_only(
        self, watched: list[int], watchers: list[int], relays: list[int], now_ns: i64
    ) -> None:
        """From now on watch these members of the view, send signs of life to those, and ask these
        others about a suspected member (perhaps nobody), whatever the ring says.
        """
        self._chosen = (watched, watchers, relays)
        if self._begun:
            self._follow(self._view, now_ns)
            self._look_soon(now_ns)

    def _look_soon(self, now_ns: i64) -> None:
        """Others are watched than before, so the timer is to look at them."""
        if now_ns < self._due_ns:
            self._due_ns = now_ns
            self._late_ns = now_ns + self._slack_ns

    def _follow(self, before: View, now_ns: i64) -> None:
        """Find out whom to watch and who watches. `before`: the view so far."""
        view, count, me = self._view, self._config.watchers, int(self._me.sender)
        if self._chosen is None:
            watchers = watchers_of(view.present, me, count)
            watched = watched_by(view.present, me, count, set(self.accused()))
            self._unknowing = watched[count:]
        else:
            watched = [sender for sender in self._chosen[0] if view.is_present(sender)]
            watchers = [sender for sender in self._chosen[1] if view.is_present(sender)]
        self._beats.follow(watchers)
        for sender in watched:
            if sender not in self._known:
                peer = self._know(sender, now_ns)
                peer.fresh = not before.holds(peer.source)
        among = set(watched)
        self._looked_at = []
        for sender in sorted(self._known):
            peer = self._known[sender]
            peer.promise(sender in among, now_ns)
            if not peer.promised and peer.doubt == SUSPECTED and peer.refusals == 0:
                peer.doubt = TRUSTED
            if peer.promised or peer.doubt != TRUSTED:
                self._looked_at.append(peer)

    def _know(self, sender: int, now_ns: i64) -> Watched:
        source = Source(sender, self._view.life(sender))
        peer = Watched(source, self._beats.period_ns, now_ns)
        self._known[sender] = peer
        return peer

    # -- what is heard -----------------------------------------------------------------------------

    def heard(self, sender: int, now_ns: i64) -> None:
        """A datagram came from a member of the view. Called for every datagram, before its frames
        are handed out.
        """
        if now_ns > self._late_ns:
            self._slept(now_ns)
        peer = self._known.get(sender)
        if peer is None:
            if not self._view.is_present(sender) or sender == self._me.sender:
                return
            peer = self._know(sender, now_ns)
        peer.heard(now_ns)
        if peer.doubt != TRUSTED:
            self._trust(peer, now_ns)

    def _trust(self, peer: Watched, now_ns: i64) -> None:
        doubt = peer.doubt
        peer.trust(now_ns)
        if doubt == ACCUSED:
            self._changes.append((peer.sender, False))
            self._follow(self._view, now_ns)

    def refused(self, sender: int, now_ns: i64) -> None:
        """The world says that nobody listens any more where this member was: the system there sent
        a datagram back, which it does not do for a process that is only stopped or slow. Whoever
        only asked it for somebody else does nothing, or one crash would concern everybody.
        """
        peer = self._known.get(sender)
        owed = sender in self._beats.watchers
        if peer is None and owed:
            peer = self._know(sender, now_ns)
        if peer is None or peer.doubt == ACCUSED or now_ns < peer.deaf_until_ns:
            return
        if peer.doubt == TRUSTED:
            if not peer.promised and not owed:
                return
            peer.suspect(now_ns)
            if not peer.promised:
                self._looked_at.append(peer)
        peer.refusals += 1
        peer.next_ns = min(peer.next_ns, now_ns + self._waits.ask_again_after_ns(peer))
        self._look_soon(now_ns)

    def kinds(self) -> tuple[int, ...]:
        return (PING, ASK, VOUCH)

    def strangers_kinds(self) -> tuple[int, ...]:
        """Whoever asks is answered, also if this member has not heard yet that it came in."""
        return (PING, ASK)

    def on_frame(self, frame: ControlFrame, source: Source, now_ns: i64) -> None:
        sender = int(source.sender)
        if isinstance(frame, Ping):
            self._on_ping(frame, sender, source, now_ns)
        elif isinstance(frame, Ask):
            self._on_ask(frame, sender, now_ns)
        elif isinstance(frame, Vouch):
            self._on_vouch(frame, now_ns)

    def _on_ping(self, frame: Ping, sender: int, source: Source, now_ns: i64) -> None:
        if frame.marks & ASKS:
            self._say(sender, Ping(ANSWERS, frame.number, self._wait_us()))
        if not self._view.holds(source):
            return
        peer = self._known.get(sender)
        if peer is not None:
            peer.wait_ns = 1_000 * frame.wait_us
        if frame.marks & ACCUSES:
            self.health.trouble(now_ns)
        if frame.marks & ANSWERS:
            for asker, number in self._errands.done(sender):
                self._say(asker, Vouch(source, number, 0))

    def _on_ask(self, frame: Ask, asker: int, now_ns: i64) -> None:
        """Say what is known at once, so that the asker sees that somebody is there; and ask."""
        target = int(frame.source.sender)
        if target == self._me.sender:
            return
        age_us: i64 = AGE_NEVER
        if self._view.holds(frame.source):
            peer = self._known.get(target)
            if peer is not None and peer.heard_ns >= 0:
                age_us = min((now_ns - peer.heard_ns) // 1_000, AGE_NEVER)
            if self._errands.take(target, asker, int(frame.number), now_ns):
                self._ping(target, ASKS)
        self._say(asker, Vouch(frame.source, frame.number, age_us))

    def _on_vouch(self, frame: Vouch, now_ns: i64) -> None:
        peer = self._known.get(int(frame.source.sender))
        if peer is None or peer.doubt == TRUSTED or frame.number != peer.number:
            return
        peer.answers()
        if frame.age_us == AGE_NEVER or peer.source != frame.source:
            return
        if peer.refusals > 0 and peer.is_older(1_000 * frame.age_us, now_ns):
            return
        peer.vouched(1_000 * frame.age_us, now_ns)
        if peer.silence_ns(now_ns) < self._waits.suspect_after_ns(peer):
            self._trust(peer, now_ns)

    # -- what is sent ------------------------------------------------------------------------------

    def sent_to_all(self, now_ns: i64) -> None:
        """The member sent a datagram to everybody, of whatever frames."""
        self._beats.sent_to_all(now_ns)

    def sent_to(self, sender: int, now_ns: i64) -> None:
        """The member sent a datagram to one other."""
        self._beats.sent_to(sender, now_ns)

    def pack(self, outbox: Outbox, now_ns: i64) -> None:
        if self._out:
            for to, frame in self._out:
                outbox.frame(to, frame)
                if to == EVERYBODY:
                    self.sent_to_all(now_ns)
                else:
                    self.sent_to(to, now_ns)
            self._out.clear()

    def _say(self, to: int, frame: ControlFrame) -> None:
        if len(self._out) < _WAITING_MAX:
            self._out.append((to, frame))

    def _ping(self, to: int, marks: i64) -> None:
        self._number += 1
        self._say(to, Ping(marks, self._number, self._wait_us()))

    def _wait_us(self) -> i64:
        return min(self._waits.own_ns() // 1_000, WAIT_US_MAX)

    # -- timers ------------------------------------------------------------------------------------

    def next_deadline_ns(self) -> i64:
        return self._due_ns

    def on_timer(self, now_ns: i64) -> None:
        if not self._begun:
            self._begun = True
            self._beats.next_ns = now_ns + self._random.randrange(int(self._beats.period_ns))
            self._follow(self._view, now_ns)
        elif now_ns < self._due_ns:
            return
        elif now_ns > self._late_ns:
            self._slept(now_ns)
        self.health.recover(now_ns)
        self._errands.expire(now_ns)
        due_ns: i64 = NEVER
        if self._beats.watchers or self._unknowing:
            if now_ns >= self._beats.next_ns:
                self._beat(now_ns)
            due_ns = self._beats.next_ns
        for peer in self._looked_at:
            due_ns = min(due_ns, self._look(peer, now_ns))
        # If somebody was accused, others may be watched from now on: it looks again at once.
        self._due_ns = max(due_ns, now_ns + 1)
        self._late_ns = self._due_ns + self._slack_ns

    def _slept(self, now_ns: i64) -> None:
        """A timer is late: this member could do nothing meanwhile, so nobody else was silent."""
        late_ns = now_ns - self._due_ns
        self.health.was_late(late_ns, now_ns)
        for peer in self._looked_at:
            peer.slept(late_ns, now_ns)
        self._due_ns = now_ns
        self._late_ns = now_ns + self._slack_ns

    def _beat(self, now_ns: i64) -> None:
        """Give a sign of life to those who had none for a period, and to all if there is news of
        overload, which traffic does not tell.
        """
        wait_ns = self._waits.own_ns()
        told_ns = self._told_wait_ns
        silent = self._beats.due(now_ns, wait_ns > 2 * told_ns or 2 * wait_ns < told_ns)
        if silent:
            self._told_wait_ns = wait_ns
        if len(silent) > _EACH_MAX and 2 * len(silent) >= len(self._view.present):
            self._ping(EVERYBODY, 0)
        else:
            for to in silent:
                self._ping(to, 0)
        for to in self._unknowing:
            self._ping(to, ASKS)

    def _look(self, peer: Watched, now_ns: i64) -> i64:
        """Look whether somebody is silent for too long. Returns when to look again."""
        if peer.doubt == TRUSTED:
            due_ns = peer.clock_ns + self._waits.suspect_after_ns(peer)
            if now_ns < due_ns:
                return self._beats.or_next_ns(due_ns)
            peer.suspect(now_ns)
        if now_ns < peer.next_ns:
            return peer.next_ns
        if peer.doubt == SUSPECTED:
            if peer.asked > 0 and peer.answered == 0:
                self.health.trouble(now_ns)
            due_ns = peer.clock_ns + self._waits.accuse_after_ns(peer)
            early = now_ns < due_ns and peer.refusals < _REFUSALS
            if early or peer.tries < self._config.tries:
                peer.next_ns = now_ns + self._waits.ask_again_after_ns(peer)
                self._ask(peer, 0)
                return peer.next_ns
            peer.doubt = ACCUSED
            peer.tries = 0
            self._changes.append((peer.sender, True))
            self._follow(self._view, now_ns)
        # It is told so, ever less often: if it lives, it answers.
        peer.next_ns = now_ns + min(1 << min(peer.tries, 8), _BEATS_MAX) * self._beats.period_ns
        self._ask(peer, ACCUSES)
        return now_ns if peer.tries == 1 else peer.next_ns

    def _ask(self, peer: Watched, marks: i64) -> None:
        """Ask a doubted member, and some others about it, none of them in doubt."""
        peer.tries += 1
        self._ping(peer.sender, ASKS | marks)
        among = self._view.present if self._chosen is None else self._chosen[2]
        without = {one.sender for one in self._looked_at if one.doubt != TRUSTED}
        without.add(peer.sender)
        without.add(int(self._me.sender))
        relays = draw(among, self._config.relays, without, self._random)
        for relay in relays:
            self._say(relay, Ask(peer.source, peer.number))
        peer.asks(len(relays))
