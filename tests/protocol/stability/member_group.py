"""Members on a network in memory that loses, repeats and delays; every word of them is checked.

Members crash and come back without memory. Whenever somebody says that something is stable, all who
have a vote on it have it; when it is said to be safe, f + 1 have it; and whoever begins with a
stream misses nothing that the others have let go of.
"""

import heapq
import random
from collections import defaultdict
from collections.abc import Callable
from itertools import count
from typing import Final

from semcast.ids import EVERYBODY, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.member import Member
from semcast.protocol.membership.view import View
from semcast.protocol.observer import Observer
from semcast.protocol.stability.followed import ENDED
from semcast.wire.message import Message

MS: Final = 1_000_000


class Hears(Observer):
    """What one life has, and what it says is so."""

    def __init__(self, group: "MemberGroup", me: Source) -> None:
        super().__init__()
        self.me: Final = me
        self.has: Final[dict[Source, int]] = {me: 0}
        self.got: Final[dict[Source, list[int]]] = defaultdict(list)
        self.order: Final[list[tuple[Source, int]]] = []
        self.views: Final[list[int]] = []
        self._group: Final = group

    def message(self, event: str, message: Message, _where: str, _cover: Message | None) -> None:
        source, seq = message.source, int(message.seq)
        if event in ("multicast", "receive", "ignore"):
            self.has[source] = max(seq, self.has.get(source, 0))
        elif event == "deliver":
            self.got[source].append(seq)
            self.order.append((source, seq))

    def progress(
        self, event: str, source: Source, seq: int, _by_source: Source | None, _by_seq: int
    ) -> None:
        if event == "skip":
            self.has[source] = max(seq, self.has.get(source, 0))
        elif event == "stable":
            self._group.on_stable(self.me, source, seq)
        elif event == "safe":
            self._group.on_safe(source, seq)
        elif event == "join":
            self._group.on_join(self, source, seq)

    def view(self, view: View) -> None:
        self.views.append(view.number)


class MemberGroup:
    """Members, what is on its way between them, and a clock."""

    def __init__(self, config: MemberConfig, members: int, seed: int = 0) -> None:
        self.config: Final = config
        self.now_ns = 0
        self.loss = self.repeat = 0.0
        self.late_ms = 0.0
        # Who does not get anything from whom.
        self.cut: Final[set[tuple[int, int]]] = set()
        self.members: Final[dict[int, Member]] = {}
        self.heard: Final[dict[int, Hears]] = {}
        self._lives: Final[list[Hears]] = []
        # By source: how many messages it sent, and the most that anybody said is stable of it.
        self.sent: Final[dict[Source, int]] = defaultdict(int)
        self.stable: Final[dict[Source, int]] = defaultdict(int)
        self.safe: Final[dict[Source, int]] = defaultdict(int)
        # Every datagram that was sent, by whom.
        self.said: Final[list[tuple[Source, bytes]]] = []
        self._first: Final = View.first(list(range(members)), config.f)
        self._seed: Final = seed
        self.stream: Final = random.Random(f"{seed}/network")
        self._number: Final = count()
        self._flying: Final[list[tuple[int, int, Source, int, bytes]]] = []
        for sender in range(members):
            self.begin(sender, 1)

    # -- members -----------------------------------------------------------------------------------

    def begin(self, sender: int, life: int) -> Member:
        """A life begins; a later one has no memory."""
        me = Source(sender, life)
        view = self._first if life == 1 else self._first.with_life(sender, life)
        hears = self.heard[sender] = Hears(self, me)
        self._lives.append(hears)
        stream = random.Random(f"{self._seed}/{sender}.{life}")
        self.members[sender] = Member(self.config, me, view, stream, hears, life > 1)
        return self.members[sender]

    def come_back(self, sender: int) -> Member:
        """Crash, and begin the next life."""
        life = int(self.members.pop(sender).me.incarnation) + 1
        return self.begin(sender, life)

    def send(self, sender: int, payload: bytes = b"m", key: str | None = None) -> None:
        """Multicast, if there is room."""
        member = self.members[sender]
        if member.can_multicast(len(payload)):
            member.multicast(payload, key, self.now_ns)
            self.sent[member.me] += 1
            self._settle(member)

    def partition(self, one: int) -> None:
        """Nobody hears this member, and it hears nobody."""
        for other in range(len(self._first.members)):
            self.cut.update({(one, other), (other, one)})

    # -- what is checked ---------------------------------------------------------------------------

    def on_stable(self, by: Source, source: Source, seq: int) -> None:
        for hears in self.heard.values():
            # Who has no stream yet abstains, and is checked when it begins.
            if source in hears.has or int(hears.me.incarnation) == 1:
                has = hears.has.get(source, 0)
                assert has >= seq, f"{by}: {source}#{seq} stable, but {hears.me} has {has}"
        self.stable[source] = max(seq, self.stable[source])

    def on_safe(self, source: Source, seq: int) -> None:
        # Those who have crashed since count: they are among the f crashes to survive.
        have = {int(one.me.sender) for one in self._lives if one.has.get(source, 0) >= seq}
        assert len(have) > self.config.f, f"{source}#{seq} safe, but only {have} had it"
        self.safe[source] = max(seq, self.safe[source])

    def on_join(self, hears: Hears, source: Source, begins: int) -> None:
        # What one who is gone let go of, the others may still have. And a life that has ended is no
        # business of anybody who has yet to hear of its end.
        others = [one for one in self.members.values() if one.me != hears.me]
        lets_go = max(int(one._detection.stable(source)) for one in others)
        said = f"{hears.me} begins with {source}#{begins}, {lets_go} is stable"
        assert begins > lets_go or lets_go == ENDED, said
        hears.has[source] = max(begins - 1, hears.has.get(source, 0))

    def followed(self) -> list[int]:
        """How many sources each member follows, and keeps anything of."""
        found = []
        for member in self.members.values():
            stats = member.stats()
            found += [stats["sources_followed"], stats["sources_held"]]
        return found

    def forgot_what_is_over(self) -> bool:
        """Whether nobody keeps anything of lives that are over."""
        return max(self.followed()) <= len(self._first.members)

    # -- time --------------------------------------------------------------------------------------

    def run(self, for_ms: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Let datagrams arrive and timers fire for a while, or until something is so."""
        end_ns = self.now_ns + round(for_ms * MS)
        while not until():
            timer_ns, who = min(
                (int(member.next_deadline_ns()), sender) for sender, member in self.members.items()
            )
            arrival_ns = self._flying[0][0] if self._flying else timer_ns
            next_ns = min(timer_ns, arrival_ns)
            if next_ns > end_ns:
                self.now_ns = end_ns
                return until()
            self.now_ns = max(self.now_ns, next_ns)
            if timer_ns <= arrival_ns:
                self.members[who].on_timer(self.now_ns)
                self._settle(self.members[who])
            else:
                self._arrive()
        return True

    def at_rest(self) -> bool:
        """Whether nobody keeps anything for others, and all are in one view."""
        members = list(self.members.values())
        return (
            len({int(member.view.digest) for member in members}) == 1
            and all(member.all_stable() for member in members)
            and all(member.stats()["retained_held"] == 0 for member in members)
        )

    def settle(self) -> None:
        """Nothing goes wrong any more, and there is time."""
        self.loss = self.repeat = 0.0
        self.cut.clear()
        assert self.run(60_000, self.at_rest), [
            (member.me, member.view, member.stats()) for member in self.members.values()
        ]

    def _arrive(self) -> None:
        _, _, source, to, frames = heapq.heappop(self._flying)
        member = self.members.get(to)
        if member is not None and (int(source.sender), to) not in self.cut:
            member.receive(frames, source, self.now_ns)
            self._settle(member)

    def _settle(self, member: Member) -> None:
        while member.deliverable():
            member.take(100, self.now_ns)
        me = int(member.me.sender)
        for outgoing in member.datagrams(self.now_ns):
            self.said.append((member.me, outgoing.frames))
            for to in self._first.members if outgoing.to == EVERYBODY else (outgoing.to,):
                if to != me and (me, to) not in self.cut:
                    self._send(member.me, to, outgoing.frames)

    def _send(self, source: Source, to: int, frames: bytes) -> None:
        for _ in range(2 if self.stream.random() < self.repeat else 1):
            if self.stream.random() < self.loss:
                continue
            delay_ms = 0.1 + 0.4 * self.stream.random()
            if self.stream.random() < self.repeat:
                delay_ms += self.late_ms * self.stream.random()
            when_ns = self.now_ns + round(delay_ms * MS)
            heapq.heappush(self._flying, (when_ns, next(self._number), source, to, frames))
