"""Health: how members are doing, and who stands in the way.

What this member sees of itself goes out with every hello; what others say of themselves comes in.
Members that are slow, silent, back or gone become events, for applications and operators. Slow is
not dead: nobody is put out unless the configuration says after how long. Events go to this
member's listeners. All members see alike that one of them is slow, so only one of them logs it.
The engine calls this in every turn, with its lock held.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from semcast.ids import Source
from semcast.live.meeting.notes import hello_pause_ns
from semcast.live.meeting.roster import Peer, purge_ratio
from semcast.live.meeting.session import Session
from semcast.protocol.membership.view import View

PERIOD_NS: Final = 100_000_000
# As long as nothing happens, all members are looked at no more often than this.
_CALM_NS: Final = 1_000_000_000
# A member of which so many hellos in a row did not come is silent: paused, cut off or dead.
SILENT_HELLOS: Final = 4
EVENTS_MAX: Final = 1024
# While a member is slow, the group logs it no more often than this.
LOG_SLOW_NS: Final = 60_000_000_000
# An event about a view names no more members than this.
_NAMES_SHOWN: Final = 16


@dataclass(frozen=True)
class Event:
    """Something that happened to the group. Numbers that do not apply are 0."""

    # joined, left, evicted, view, suspected, recovered, slow, restarted, blocked, unblocked,
    # rejoined (this member was put out, and is back), resent (it sent again what nobody had
    # received of it), unsure (what nobody knows to have been received), minority, state-begun,
    # state-done, unsafe (this member left too early), warning, gap (a sender had forgotten this
    # reader, and what it sent then comes as state or not at all); in a group that gossips, of which
    # a member knows a sample, neighbour, neighbour-lost, split (parts of the group had lost each
    # other), isolated (this member has no neighbour) and gap (messages of a member did not come,
    # nor anything of it since that could say so in `skipped`); in a federation opened (another
    # graph), manager (another site decides on graphs), failed (the others go on without a site),
    # out (they went on without this one) and rolled-back (what it delivered is to be undone); and
    # to a listener that was too slow: missed, so many events (behind_messages).
    kind: str
    # The member that the event is about.
    member: str
    time_ns: int
    text: str
    # Of slow members: since when, how many messages and how much time behind, and the share of
    # what came there that was replaced before it was taken.
    since_ns: int = 0
    behind_messages: int = 0
    behind_ms: float = 0.0
    purge_ratio: float = 0.0


@dataclass(frozen=True)
class MemberView:
    """One member, as this one sees it."""

    name: str
    # here, suspected, left, evicted, failed, reading, or unknown: never heard of.
    state: str
    slow: bool
    since_ns: int
    address: str
    held_messages: int
    behind_ms: float
    delivered_messages: int
    purge_ratio: float
    sent_messages: int


class Health:
    """Watches a session."""

    def __init__(
        self,
        session: Session,
        delivered: Callable[[], int],
        publish: Callable[[Event], None],
        log: Callable[[Event, int], None] = lambda _, __: None,
    ) -> None:
        """`delivered` says how many messages this member's application took. Every event is
        published; what is logged, and at which level, is decided here.
        """
        self._session: Final = session
        self._delivered: Final = delivered
        self._to_listeners: Final = publish
        self._log: Final = log
        self._next_ns = 0
        # When all members were last looked at, and what was so then.
        self._looked_ns = -_CALM_NS
        self._seen: tuple[object, ...] = ()
        self._blocked_ns = -1
        self._blocked_published = False
        # Since when anybody waits for others here: for room to send, or in `drain`.
        self._held_up_ns = -1
        # By member: since when it is in that state.
        self._slow: Final[dict[int, int]] = {}
        self._silent: Final[dict[int, int]] = {}
        self._gone: Final[dict[int, str]] = {}
        self._lives: Final[dict[int, int]] = {}
        # By member: when it was last logged as slow; and those whose recovery is to be logged.
        self._slow_logged_ns: Final[dict[int, int]] = {}
        self._slow_logged: Final[set[int]] = set()
        self.events: Final[deque[Event]] = deque(maxlen=EVENTS_MAX)

    def on_turn(self, now_ns: int) -> None:
        """Look at all members, unless that was done a moment ago, or nothing has happened since."""
        if now_ns < self._next_ns or self._session.member is None:
            return
        self._next_ns = now_ns + PERIOD_NS
        if not self._has_news() and now_ns - self._looked_ns < _CALM_NS:
            return
        self._looked_ns = now_ns
        self._look_at_own(now_ns)
        if self._session.watches:
            suspects = self._session.suspects()
            pause_ns = hello_pause_ns(self._session.roster)
            for peer in self._session.roster.peers.values():
                silent = now_ns - peer.heard_ns > SILENT_HELLOS * pause_ns
                self._look_at(peer, silent if suspects is None else peer.id in suspects, now_ns)
        if self._session.config.evict_after_s > 0 and self._held_up_ns >= 0:
            self._evict(now_ns)

    def _has_news(self) -> bool:
        """Whether anything has happened since this was last asked: it takes long to look at all."""
        session, member, before = self._session, self._session.member, self._seen
        assert member is not None
        said = (session.notes_read, member.view.number, member.suspects())
        self._seen = (*said, member.sent, self._delivered(), session.drains)
        waits = member.blocked or self._blocked_ns >= 0 or member.deliverable() > 0
        return waits or bool(self._slow) or bool(self._silent) or self._seen != before

    def _look_at_own(self, now_ns: int) -> None:
        session, member = self._session, self._session.member
        assert member is not None
        stats = member.stats()
        oldest = member.oldest()
        session.status = {
            "sent": stats["multicast"],
            "delivered": self._delivered(),
            "purged": stats["purged_delivery"],
            "held": stats["delivery_held"],
            # What came and found no room, or came before what it has to wait for.
            "early": stats["early_held"],
            "room": session.config.delivery_messages,
            "behind_ms": 0.0 if oldest is None else member.age_ns(oldest, now_ns) / 1e6,
            # Others go by what this member said first, so it does not change.
            "run": session.status.get("run") or run_began_us(session),
        }
        blocked = member.blocked and not member.can_multicast()
        if not blocked and (session.drains == 0 or member.all_stable()):
            self._held_up_ns = -1
        elif self._held_up_ns < 0:
            self._held_up_ns = now_ns
        slow_after_ns = round(session.config.slow_after_ms * 1e6)
        if blocked and self._blocked_ns < 0:
            self._blocked_ns = now_ns
        if blocked and not self._blocked_published and now_ns - self._blocked_ns >= slow_after_ns:
            self._blocked_published = True
            waiting = ", ".join(self._in_the_way()) or "somebody who has not said so yet"
            self._say("blocked", session.config.name, now_ns, f"no room to send; for {waiting}")
        elif not blocked and self._blocked_ns >= 0:
            text = f"room again after {(now_ns - self._blocked_ns) / 1e6:.0f} ms"
            self._blocked_ns = -1
            if self._blocked_published:
                self._say("unblocked", session.config.name, now_ns, text)
            self._blocked_published = False

    def _look_at(self, peer: Peer, silent: bool, now_ns: int) -> None:
        roster = self._session.roster
        last = self._lives.setdefault(peer.id, peer.incarnation)
        if peer.incarnation > last:
            self._lives[peer.id] = peer.incarnation
            self._gone.pop(peer.id, None)
            self._say("restarted", peer.name, now_ns, f"{peer.name} is back in another life")
        if roster.gone(peer.id):
            if peer.id not in self._gone:  # in an open group the view has said it
                kind = "evicted" if peer.id in roster.evicted else "left"
                self._gone[peer.id] = kind
                self._say(kind, peer.name, now_ns, f"{peer.name} {_GONE[kind]}")
            self._slow.pop(peer.id, None)
            self._silent.pop(peer.id, None)
            return
        self._look_at_silence(peer, silent, now_ns)
        self._look_at_speed(peer, now_ns)

    def news(self, kind: str, text: str, now_ns: int) -> None:
        """Something happened to this member."""
        self._say(kind, self._session.config.name, now_ns, f"{self._session.config.name}: {text}")

    def about(self, kind: str, member: str, text: str, now_ns: int) -> None:
        """Something happened to another member."""
        self._say(kind, member, now_ns, text)

    def view_changed(self, before: View | None, view: View, now_ns: int) -> None:
        """Another view of an open group counts: say who came, and who went."""
        session = self._session
        names = self._names(view)
        federated = session.config.reliability == "federation"
        for sender in view.present:
            self._gone.pop(sender, None)
        if before is not None:
            names |= self._names(before)
            for sender in view.present:
                if sender != session.me.sender and before.life(sender) != view.life(sender):
                    self._say("joined", names[sender], now_ns, f"{names[sender]} has joined")
            for sender in before.present:
                if sender != session.me.sender and not view.is_present(sender):
                    life, member = Source(sender, before.life(sender)), session.member
                    put_out = member is not None and member.was_put_out(life)
                    put_out = put_out or sender in self._silent
                    kind = ("failed" if federated else "evicted") if put_out else "left"
                    self._gone[sender] = kind
                    self._say(kind, names[sender], now_ns, f"{names[sender]} {_GONE[kind]}")
        there = ", ".join(names[sender] for sender in view.present[:_NAMES_SHOWN])
        more = len(view.present) - _NAMES_SHOWN
        there += f" and {more} more" if more > 0 else ""
        name = session.config.name
        self._say("view", name, now_ns, f"view {view.number} of {session.config.group}: {there}")

    def _names(self, view: View) -> dict[int, str]:
        """By sender; in a feed, those who are just met have said it to the roster alone."""
        named = dict(zip(view.members, view.names, strict=True))
        return {one: name or self._session.roster.name_of(one) for one, name in named.items()}

    def _look_at_silence(self, peer: Peer, silent: bool, now_ns: int) -> None:
        if silent and peer.id not in self._silent:
            self._silent[peer.id] = peer.heard_ns
            text = f"nothing heard of {peer.name} for {(now_ns - peer.heard_ns) / 1e9:.1f} s"
            self._say("suspected", peer.name, now_ns, text, peer.heard_ns)
        elif not silent and peer.id in self._silent:
            since_ns = self._silent.pop(peer.id)
            text = f"{peer.name} is heard of again after {(now_ns - since_ns) / 1e9:.1f} s"
            self._say("recovered", peer.name, now_ns, text, since_ns)

    def _look_at_speed(self, peer: Peer, now_ns: int) -> None:
        behind_ms = peer.status.get("behind_ms", 0.0)
        slow = behind_ms > self._session.config.slow_after_ms
        if slow:
            new = peer.id not in self._slow
            if new:
                self._slow[peer.id] = max(0, now_ns - round(behind_ms * 1e6))
            self._publish_slow(peer, now_ns, new)
        elif peer.id in self._slow:
            since_ns = self._slow.pop(peer.id)
            text = f"{peer.name} keeps up again, after {(now_ns - since_ns) / 1e9:.1f} s"
            level = logging.INFO if peer.id in self._slow_logged else logging.DEBUG
            self._slow_logged.discard(peer.id)
            self._say("recovered", peer.name, now_ns, text, since_ns, level=level)

    def _publish_slow(self, peer: Peer, now_ns: int, new: bool) -> None:
        """Publish it once, and have one member of the group log it every minute while it lasts."""
        last_ns = self._slow_logged_ns.get(peer.id, -LOG_SLOW_NS)
        log = now_ns - last_ns >= LOG_SLOW_NS and self._logs(peer)
        if peer.id in self._silent:
            log = False  # what it said last is old, and its silence is logged
        if log:
            self._slow_logged_ns[peer.id] = now_ns
            self._slow_logged.add(peer.id)
        if not new and not log:
            return
        held, behind_ms = int(peer.status.get("held", 0)), peer.status.get("behind_ms", 0.0)
        ratio = purge_ratio(peer)
        text = (
            f"{peer.name} is slow: {held} messages and {behind_ms:.0f} ms behind, "
            f"{ratio:.0%} of what came was replaced before it was taken"
        )
        event = Event("slow", peer.name, now_ns, text, self._slow[peer.id], held, behind_ms, ratio)
        self._publish(event, logging.WARNING if log else logging.DEBUG, new)

    def _logs(self, slow: Peer) -> bool:
        """Whether it is this member that logs who is slow.

        Everybody hears of it from the slow one itself, so one of the others is enough: the first
        by name of those that are here. Who that is they mostly see alike; if two of them do not,
        both log it.
        """
        roster = self._session.roster
        return not any(
            peer.name < roster.name
            for peer in roster.peers.values()
            if peer.id in roster.members
            and peer.id != slow.id
            and peer.id not in self._silent
            and not roster.gone(peer.id)
        )

    def _in_the_way(self) -> list[str]:
        return [self._session.roster.name_of(one) for one in {**self._slow, **self._silent}]

    def _evict(self, now_ns: int) -> None:
        """Put out whoever was slow or silent for too long, now that it stands in the way."""
        limit_ns = round(self._session.config.evict_after_s * 1e9)
        if now_ns - self._held_up_ns < limit_ns:
            return
        for member, since_ns in {**self._slow, **self._silent}.items():
            if now_ns - since_ns >= limit_ns and self._stands_in_the_way(member):
                self._session.evict(member, now_ns)

    def _stands_in_the_way(self, member: int) -> bool:
        """A slow member that has room for what comes has received it, so nobody waits for it."""
        early = self._session.roster.peers[member].status.get("early", 0)
        return member in self._silent or early > 0

    def silent(self) -> list[int]:
        """The members that nothing was heard of for a while, and that are not known to be gone."""
        return list(self._silent)

    def left_unsettled(self, now_ns: int) -> None:
        """Say that this member leaves although others may lack what it sent or took."""
        session = self._session
        there = [
            session.roster.name_of(member)
            for member in session.roster.members
            if member != session.roster.me and not session.roster.gone(member)
        ]
        waiting = sorted(self._in_the_way()) or there
        took = " and took" if session.config.reliability == "group" else ""
        text = (
            f"{session.config.name} left before all others had what it sent{took}: "
            f"{', '.join(waiting)} may lack some of it for good; leave with a longer drain_s"
        )
        self._say("unsafe", session.config.name, now_ns, text)

    def views(self) -> list[MemberView]:
        """All members, as this one sees them; its own first."""
        session, roster = self._session, self._session.roster
        own = Peer(
            roster.me, roster.name, roster.incarnation, session.transport.address, 0, 0,
            status=session.status,
        )  # fmt: skip
        found = [self._view(own, "here")]
        for member in roster.members:
            peer = roster.peers.get(member)
            if member == roster.me:
                continue
            if peer is None:
                peer = Peer(member, roster.name_of(member), 0, ("", 0), 0, 0)
                found.append(self._view(peer, "unknown"))
            else:
                seen = "suspected" if member in self._silent else "here"
                state = self._gone.get(member) or seen
                found.append(self._view(peer, state))
        return found

    def _view(self, peer: Peer, state: str) -> MemberView:
        since_ns = self._slow.get(peer.id, self._silent.get(peer.id, 0))
        return MemberView(
            name=peer.name,
            state=state,
            slow=peer.id in self._slow,
            since_ns=since_ns,
            address=f"{peer.address[0]} port {peer.address[1]}" if peer.address[1] else "",
            held_messages=int(peer.status.get("held", 0)),
            behind_ms=float(peer.status.get("behind_ms", 0.0)),
            delivered_messages=int(peer.status.get("delivered", 0)),
            purge_ratio=purge_ratio(peer),
            sent_messages=int(peer.status.get("sent", 0)),
        )

    def _say(
        self, kind: str, member: str, now_ns: int, text: str, since_ns: int = 0, level: int = 0
    ) -> None:
        usual = logging.INFO if kind in _FINE else logging.WARNING
        self._publish(Event(kind, member, now_ns, text, since_ns), level or usual)

    def _publish(self, event: Event, level: int, new: bool = True) -> None:
        """Log an event, and hand it to listeners if it is new."""
        self._log(event, level)
        if new:
            self.events.append(event)
            self._to_listeners(event)


_FINE: Final = (
    "joined", "left", "view", "recovered", "restarted", "rejoined", "unblocked", "state-begun",
    "state-done", "resent", "neighbour", "neighbour-lost", "opened", "manager",
)  # fmt: skip
_GONE: Final = {
    "evicted": "was put out: the others had to go on without it",
    "failed": "failed: the others go on without it",
    "left": "left",
}


def run_began_us(session: Session) -> int:
    """When the run began that this member is part of: when the last of the first members did.

    Members that come later cannot know that, and take it from what others say.
    """
    roster = session.roster
    said = [int(peer.status.get("run", 0)) for peer in roster.peers.values()]
    if session.config.is_open and any(said):
        return min(one for one in said if one)
    if roster.was_here and any(said):
        return max(said)
    lives = [peer.incarnation for peer in roster.peers.values() if peer.id in roster.members]
    return max([int(session.me.incarnation), *lives]) // 1000
