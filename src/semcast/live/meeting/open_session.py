"""One process's part in an open group, without its threads: how it finds the others and gets in.

Who is in is decided by the protocol (`protocol/membership`), in the simulator as here. What is left
to a session is what only a real network needs: to find somebody who is in, to prove to each other
that both are there now (`door`), and to know where everybody is. A newcomer proves itself to a few
members only. When they have let it in, its life is part of a view, and so all others know it to be
there; the few say where it is, in a book that goes to everybody.

A process that the others put out, because it was stopped or cut off, comes back by itself in
another life.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from semcast.ids import NEVER, Source
from semcast.live.meeting.crowd import Crowd
from semcast.live.meeting.door import Came, next_life
from semcast.live.meeting.entrance import SEEK_NS, Entrance
from semcast.live.meeting.news import News
from semcast.live.meeting.notes import hello_pause_ns
from semcast.live.meeting.why_not import stay_out
from semcast.live.sockets.address import Address
from semcast.protocol.machine import Machine
from semcast.protocol.membership.newcomer import Newcomer
from semcast.protocol.membership.view import View, scatter
from semcast.wire.limits import Limits

# Senders of a feed answer within `SEEK_NS`; if one has, others do so soon after.
_SEEK_MORE_NS: Final = 30_000_000
# So many members, beside the first, answer the first hello of a newcomer; twice as many the next.
_PORTERS: Final = 1
# In a group of so few, a process that has come in says so at once.
_FEW: Final = 16
# The first member says hello at least so often, so that groups that were begun apart meet; and so
# does a reader, whom no view names.
_PRESENCE_NS: Final = 2_000_000_000
# So many processes that were forgotten are remembered as such.
_FORGOTTEN_MAX: Final = 1024
# One of them is asked at most so often to prove that it is there again.
_ASK_AGAIN_NS: Final = 100_000_000


class OpenSession(Entrance):
    """A process in an open group, or on its way into one."""

    def _prepare(self) -> None:
        super()._prepare()
        # Not None while this process asks to be let in.
        self._newcomer: Newcomer | None = None
        # The view that this session has acted on.
        self._seen: View | None = None
        self._news = News()
        # Those that were forgotten lately: where they were, and when they may be asked again.
        self._forgotten: dict[int, tuple[Address, int]] = {}
        # How often this process came back by itself.
        self.rejoined = 0
        self._crowd = Crowd()
        # What this process last said of itself, and when.
        self._said: dict[str, float] = {}

    # -- getting in --------------------------------------------------------------------------------

    def _look_around(self, now_ns: int) -> None:
        """Say hello from now on until this process is in."""
        self._open.inside = False
        self._open.tries = 0
        self._crowd.begin()
        self._seek_ns = now_ns
        self._hello_ns = now_ns

    def _seek(self, now_ns: int) -> None:
        """Begin to look for the group."""
        self._look_around(now_ns)
        if self._feed or self._reads:
            self._enter(View.alone(self.me, self.config.name, int(self.me.incarnation)), now_ns)
        else:
            limits = Limits(self.transport.path_mtu_bytes, self.config.message_bytes_max)
            self._newcomer = Newcomer(self.me, self.config.name, limits, self._stream)

    def _early_frames(self, frames: bytes, source: Source, now_ns: int) -> None:
        if self._newcomer is not None:
            self._newcomer.receive(frames, source, now_ns)

    def _enter(self, view: View, now_ns: int) -> None:
        """Be a member: this process was let in, or has begun the group."""
        mtu_bytes, room_bytes = self.transport.path_mtu_bytes, self.transport.receive_buffer_bytes
        config = self.config.member_config(len(view.present), mtu_bytes, room_bytes // 2)
        config = replace(config, only=self._interest)
        joining = len(view.present) > 1
        former = self.member
        self.member = self._make(
            config, self.me, view, self._stream, self._observer(self.me), joining
        )
        if former is not None:
            while former.deliverable() > 0:
                self.leftover.extend(former.take(former.deliverable(), now_ns))
            self.leftover.extend(former.take_own())
            self.member.follow_up(former, now_ns)
            self._say_that("rejoined", "it was put out while it was away, and is back", now_ns)
        self._newcomer = None
        self.seeking = False
        self._states_begun = 0
        self._on_view(view, now_ns)

    def _follow(self, now_ns: int) -> None:
        """Act on what the protocol has decided."""
        member = self.member
        if member is None or self.seeking:
            newcomer = self._newcomer
            if newcomer is not None and newcomer.view is not None:
                alone = len(newcomer.view.present) == 1
                why_not = self._why_not_alone() if alone and member is None else ""
                if why_not:
                    stay_out(self, self._open, why_not)
                else:
                    self._enter(newcomer.view, now_ns)
            elif newcomer is None and self.ended is None:
                self._seek(now_ns)
            elif newcomer is not None and newcomer.over and self.ended is None:
                self._rejoin(now_ns)
            return
        if member.view is not self._seen:
            self._on_view(member.view, now_ns)
        if not self._open.inside and self.rejoined == 0:
            self._stay_out_soon(now_ns)
        for kind, text in self._news.of(member):
            self._say_that(kind, text, now_ns)
        if member.out and self.ended is None:
            self._end_or_rejoin(member, now_ns)
        elif not self._open.inside and member.inside and now_ns >= self._in_after_ns():
            self._open.inside = True
            self._say_soon(now_ns)

    def _say_soon(self, now_ns: int) -> None:
        """Say how this process is doing, now that it is in. Of a crowd that has come in together
        not all do so at once, since each is heard by all.
        """
        if len(self._open.members) <= _FEW:
            self.say_hello(now_ns)
        else:
            self._hello_ns = now_ns + self._stream.randrange(hello_pause_ns(self._open))

    def _say_that(self, kind: str, text: str, now_ns: int) -> None:
        if self.on_news is not None:
            self.on_news(kind, text, now_ns)

    def _on_view(self, view: View, now_ns: int) -> None:
        """Another view counts: expect its members, and say to others where they are."""
        before = set(self._open.members)
        if self.on_view is not None:
            self.on_view(self._seen, view, now_ns)
        self._seen = view
        self._open.install(view, now_ns)
        self._vouch(view)
        for sender in self._open.unknown():
            if self.door.has_place(sender):
                self._open.moved(sender, view.life(sender), self.door.place_of(sender))
        self._expect()
        self.transport.peers = self._open.addresses()
        if before:  # otherwise this process is the newcomer
            self._tell_places([one for one in view.present if one not in before])
        self._seek_places(now_ns)
        self._forget(now_ns)

    def _vouch(self, view: View) -> None:
        """Whoever is in a view has proved to be there, if not to this process."""
        for sender in view.present:
            life = Source(sender, view.life(sender))
            known = self.door.proved.get(sender, -1) >= life.incarnation
            if sender != self.me.sender and not known and self.opener.prove(life, 0):
                self.door.vouch(life)

    def _end_or_rejoin(self, member: Machine, now_ns: int) -> None:
        """The others have gone on without this member. If its application was too slow for them it
        would be so again, and they would wait each time: it does not come back by itself.
        """
        if self.config.evict_after_s > 0 and member.stats()["early_held"] > 0:
            self._end_in_the_way()
        else:
            self._rejoin(now_ns)

    def _rejoin(self, now_ns: int) -> None:
        """The others have gone on without this life: come back in another. Until then the
        application takes what waits for it.
        """
        life = next_life(int(self.me.incarnation), now_ns, self._stream.getrandbits(62))
        if not self._begin_life(life):
            return
        self.rejoined += 1
        self.seeking = True
        self._seen = None
        self._seek(now_ns)

    @property
    def inside(self) -> bool:
        return self._open.inside and self.ended is None

    def _in_after_ns(self) -> int:
        """Before this time it is not known whether all who are there were found."""
        if not self._feed:
            return 0
        found = self._seen is not None and len(self._seen.present) > 1
        return self._seek_ns + (_SEEK_MORE_NS if found else SEEK_NS)

    def suspects(self) -> list[int] | None:
        return [] if self.member is None else self.member.suspects()

    # -- turns -------------------------------------------------------------------------------------

    def take_in(self, received: list[tuple[bytes, Address]], now_ns: int) -> None:
        if self.ended is not None:
            return  # a newcomer that was answered would wait for this process
        super().take_in(received, now_ns)
        self._follow(now_ns)

    def on_timer(self, now_ns: int) -> None:
        super().on_timer(now_ns)
        newcomer = self._newcomer
        if newcomer is not None and newcomer.next_deadline_ns() <= now_ns:
            newcomer.on_timer(now_ns)
        if now_ns >= self._where_ns:
            self._ask_where(now_ns)
        self._follow(now_ns)

    def next_deadline_ns(self) -> int:
        soonest = min(super().next_deadline_ns(), self._where_ns)
        member = self.member
        if member is not None and not self.seeking and not self._open.inside and member.inside:
            soonest = min(soonest, self._in_after_ns())
        newcomer = self._newcomer
        return soonest if newcomer is None else min(soonest, newcomer.next_deadline_ns())

    def flush(self, now_ns: int) -> None:
        super().flush(now_ns)
        if self._newcomer is not None and not self.congested:
            self._send_some(self._to_the_proved(self._newcomer.datagrams(now_ns)), now_ns)

    # -- hellos ------------------------------------------------------------------------------------

    def say_hello(self, now_ns: int) -> None:
        """Say that this process is there: often while it is not in; then when there is news."""
        roster = self._open
        if self.ended is not None:
            self._hello_ns = NEVER
            return
        # Whoever is in the view and waits for its vote is known to all from there.
        seeking = not roster.inside and not self._is_named()
        if seeking:
            answered = self._newcomer is not None and self._newcomer.answered
            leaves, late_ns = self._crowd.has_elder(now_ns), max(0, now_ns - self._hello_ns)
            pause_ns, roster.tries = self._crowd.spoke(answered, leaves, late_ns)
        else:
            pause_ns = hello_pause_ns(roster)
            roster.tries = 0
            self._crowd.begin()
        self._hello_ns = now_ns + pause_ns
        presence = self._shows_itself() and now_ns - self._said_ns >= _PRESENCE_NS
        self._forget(now_ns)
        if not seeking and not presence and not roster.news and self.status == self._said:
            return
        self._said_ns = now_ns
        self._said = dict(self.status)
        datagram = self._hello()
        self.transport.look_again()
        self.transport.send_all([datagram])
        known = set(self.transport.peers)
        for seed in self._seeds:
            if seed not in known:
                self.transport.send(seed, [datagram])

    def _shows_itself(self) -> bool:
        """Whether to say hello now and then though there is no news."""
        return self._is_first() or (self._reads and not self._feed)

    def _is_named(self) -> bool:
        """Whether a view names this process to others."""
        agreed = self._newcomer is None and not self._feed and not self._reads
        return agreed and self._seen is not None and len(self._seen.present) > 1

    def _on_hello(self, said: Mapping[str, Any], came: Came) -> None:
        if not self._is_of_this_kind(said):
            return
        if self._is_vouched(came):
            self._believe(said, came)
        elif self._greets(said, came):
            super()._on_hello(said, came)

    def _is_vouched(self, came: Came) -> bool:
        """Whether a life is known to be there from the view alone. Where it is, a book says; if
        each asked each to prove it, a group that forms would be busy with that.
        """
        return self.door.believes(came) and not self.door.has_place(int(came.source.sender))

    def _greets(self, said: Mapping[str, Any], came: Came) -> bool:
        """Whether to talk with the sender of a hello. In a large group a newcomer would otherwise
        be answered by everybody.
        """
        sender, life = int(came.source.sender), int(came.source.incarnation)
        if self.door.proved.get(sender) == life or sender == self.me.sender:
            return True
        reads, inside = said.get("reads") is True, said.get("in") is True
        own = (int(self.me.incarnation), int(self.me.sender))
        if self._newcomer is not None and not reads and (inside or (life, sender) < own):
            self._newcomer.wait(came.now_ns, self._crowd.others)
        if self._feed:
            return not (self._reads and reads)
        if not self.transport.multicast and self._reads != reads:
            return inside or self._open.inside  # every member sends to every reader by itself
        if not self._open.inside:
            # Whoever is in lets others in; of those who are not, the oldest begins the group.
            if inside:
                return len(self.door.proved) < 4 or sender in self.door.proved
            return not reads and self._crowd.is_eldest(life, sender, own, came.now_ns)
        if self._reads:
            return False
        tries = said.get("try")
        porters = _PORTERS << min(tries, 10) if isinstance(tries, int) and tries >= 0 else _PORTERS
        ranked = sorted(self._open.members, key=lambda one: scatter(one ^ sender))
        return self._is_first() or int(self.me.sender) in ranked[:porters]

    def _believe(self, said: Mapping[str, Any], came: Came) -> None:
        super()._believe(said, came)
        peer = self._open.peers.get(int(came.source.sender))
        if self.member is not None and peer is not None and not peer.reads:
            self._meet(said, came)

    def _meet(self, said: Mapping[str, Any], came: Came) -> None:  # noqa: ARG002
        """Let the protocol know of a process that has said hello."""
        assert self.member is not None
        self.member.met(came.source, came.now_ns)

    def _is_stranger(self, source: Source) -> bool:  # noqa: ARG002
        return False

    def _on_roster(self, now_ns: int) -> None:
        """Somebody was met: this process may have to take another life, or send to more places."""
        roster = self._open
        self.transport.peers = self._open.addresses()
        if roster.former_incarnation < self.me.incarnation:
            return
        if roster.inside:
            self._end_for_namesake()
        elif self._begin_later():
            self.member = None
            self._seek(now_ns)

    def _let_in(self, came: Came) -> bool:
        news = self._open.news
        if not super()._let_in(came):
            return False
        if not self._feed and not self._reads:
            # What it says now to be let in is all that it needs; no hello names it.
            self._open.news = news
        self._open.place(came.source, came.address, came.now_ns)
        self.transport.peers = self._open.addresses()
        if self._reads and self.member is not None:
            self.member.met(came.source, came.now_ns)
        return True

    def _forget(self, now_ns: int) -> None:
        """Forget those who are gone, so that there is room for others. What comes of such a life
        later counts only if it proves anew that it is there.
        """
        forgotten = self._open.forget(now_ns)
        for sender in forgotten:
            if self.door.has_place(sender):
                self._forgotten.pop(sender, None)
                self._forgotten[sender] = (self.door.place_of(sender), now_ns)
                if len(self._forgotten) > _FORGOTTEN_MAX:
                    del self._forgotten[next(iter(self._forgotten))]
            self.door.forget(sender)
            self.opener.forget(sender)
        if forgotten:
            self.transport.peers = self._open.addresses()

    def _on_unproved(self, frames: bytes, came: Came) -> None:  # noqa: ARG002
        """One that was forgotten speaks: it was cut off or stopped, and does not know what became
        of it. It can be told only once it has proved anew to be there. It is asked to at the
        address where it was, however little it says, but not often.
        """
        sender = int(came.source.sender)
        place, not_before_ns = self._forgotten.get(sender, (None, 0))
        if place != came.address or came.now_ns < not_before_ns:
            return
        self._forgotten[sender] = (came.address, came.now_ns + _ASK_AGAIN_NS)
        challenge = self.door.challenge(came)
        if challenge is not None and self.door.may_send(came.now_ns):
            self.send_note(challenge, came.address)

    def evict(self, member: int, now_ns: int) -> None:
        """Wish that a member be put out; the others have to agree."""
        if self.member is not None:
            self.member.remove(member, now_ns)

    # -- the end -----------------------------------------------------------------------------------

    def leave(self, now_ns: int) -> None:
        """Tell the others that this process goes. Nothing can be sent after it."""
        if self.ended is None:
            self._settle(now_ns)
        self.end(f"{self.config.name} has left {self.config.group!r}")
        self.flush(now_ns)
        if self.member is not None:
            for _ in range(3):  # one may be lost; if all are, others find out by themselves
                self.member.goodbye(now_ns)
                self.member.on_timer(now_ns)
                self.flush(now_ns)
