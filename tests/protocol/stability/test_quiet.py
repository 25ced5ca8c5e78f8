"""Newcomers of a large group, and a group at rest: who is quiet, and how little is said."""

import random
from typing import Final

from semcast.ids import EVERYBODY, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.membership.view import View
from semcast.protocol.outbox import Outbox
from semcast.protocol.stability.gossip.detection import GossipDetection
from semcast.protocol.stability.gossip.quiet import QuietMembers
from semcast.wire.decode import Decoder
from semcast.wire.families.votes import Vector

MS_NS: Final = 1_000_000
CONFIG: Final = MemberConfig()
MEMBERS: Final = 24
OLD: Final = 12
BEGIN_NS: Final = 2_000 * MS_NS


def view_of(number: int, count: int) -> View:
    """The first members came with the first view, the others with the second."""
    ids = tuple(range(count))
    since = tuple(1 if one < OLD else 2 for one in ids)
    return View(number, ids, (1,) * count, 1, ("",) * count, 0, since, 7)


class Crowd:
    """Members whose vectors arrive at once, or are lost."""

    def __init__(self, sent: dict[int, int], loss: float = 0.0) -> None:
        """`sent`: how many messages some of the old members had sent before the others came."""
        self.now_ns = 0
        self.vectors = 0
        self._loss = loss
        self._random = random.Random(1)
        self.all: list[GossipDetection] = []
        for one in range(OLD):
            self._come(one, view_of(1, OLD), False)
            for sender, count in sent.items():
                self.all[one].has(Source(sender, 1), count, 0)
        self.run(BEGIN_NS)
        self.vectors = 0
        after = view_of(2, MEMBERS)
        for made in self.all:
            made.install(after, self.now_ns)
        for one in range(OLD, MEMBERS):
            self._come(one, after, True)

    def _come(self, one: int, view: View, new: bool) -> None:
        stream = random.Random(f"quiet/{one}")
        self.all.append(GossipDetection(CONFIG, Source(one, 1), view, stream, False, new))

    def run(self, until_ns: int) -> None:
        while True:
            due_ns, at = min((one.next_deadline_ns(), at) for at, one in enumerate(self.all))
            if due_ns >= until_ns:
                self.now_ns = until_ns
                return
            self.now_ns = max(self.now_ns, int(due_ns))
            self.all[at].on_timer(self.now_ns)
            self._send(at)

    def _send(self, at: int) -> None:
        me = Source(at, 1)
        outbox = Outbox(me, CONFIG.limits)
        self.all[at].pack(outbox, self.now_ns)
        for outgoing in outbox.take():
            assert outgoing.to != EVERYBODY, "the group is large"
            for frame in Decoder().decode(outgoing.frames, me).control:
                assert isinstance(frame, Vector)
                self.vectors += 1
                if self._random.random() >= self._loss:
                    self._hear(outgoing.to, frame, me)

    def _hear(self, to: int, frame: Vector, source: Source) -> None:
        self.all[to].on_frame(frame, source, self.now_ns)

    @property
    def joining(self) -> int:
        return sum(one.joining() for one in self.all)


def test_newcomers_begin_with_quiet_members_without_a_round_about_them() -> None:
    crowd = Crowd({})
    crowd.run(BEGIN_NS + 600 * MS_NS)
    assert crowd.joining == 0
    assert crowd.vectors < 20 * 3 * MEMBERS, "one vector for each datagram, not one for each page"


def test_newcomers_begin_after_what_others_have_sent() -> None:
    crowd = Crowd({3: 5, 7: 2})
    crowd.run(BEGIN_NS + 3_000 * MS_NS)
    assert crowd.joining == 0
    for one in crowd.all[OLD:]:
        agreed = one.poll(crowd.now_ns)
        assert agreed is not None
        assert set(agreed.joined) == {Source(old, 1) for old in range(OLD)}
        assert one.stable(Source(3, 1)) == 5
        assert one.stable(Source(7, 1)) == 2
        assert one.stable(Source(0, 1)) == 0


def test_a_group_in_which_all_is_agreed_rests() -> None:
    for sent in ({}, {3: 5}):
        crowd = Crowd(sent, loss=0.1)
        crowd.run(BEGIN_NS + 10_000 * MS_NS)
        assert crowd.joining == 0
        before = crowd.vectors
        crowd.run(BEGIN_NS + 70_000 * MS_NS)
        each_s = (crowd.vectors - before) / MEMBERS / 60
        assert each_s < 3, "three datagrams in 15 s, of a few vectors each"


def test_only_a_member_says_of_itself_that_it_is_quiet() -> None:
    me, view = Source(0, 1), view_of(2, MEMBERS)
    quiet = QuietMembers()
    quiet.install(view, me, False)
    assert quiet.bits == 0
    quiet.install(view, me, True)
    assert quiet.bits == 1
    assert quiet.hear(Vector(view.digest, 2, False, 0, 0b110, [], quiet=True))
    assert quiet.holds(Source(1, 1))
    assert not quiet.holds(Source(1, 2)), "another life of it may have sent something"
    quiet.install(view_of(3, MEMBERS), me, True)
    assert not quiet.holds(Source(1, 1)), "it has not said so of this view"
