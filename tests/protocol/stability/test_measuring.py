"""Trees and rings from measured round-trip times: whole members on a network with far sites."""

import heapq
import random
from collections.abc import Callable
from itertools import count
from typing import Any, Final

import numpy as np
import pytest

from semcast.check import check_all
from semcast.errors import ConfigError
from semcast.ids import EVERYBODY, Source
from semcast.journal import Header, Journal, JournalObserver, node_name
from semcast.protocol.config import MemberConfig
from semcast.protocol.member import Member
from semcast.protocol.membership.view import View
from semcast.protocol.stability.rounds.detection import RoundDetection
from semcast.protocol.stability.rounds.measuring import Measuring, Stopwatch, round_us
from semcast.protocol.stability.rounds.protocols import RoundSetup, check_measured
from semcast.protocol.stability.rounds.roll import Roll
from semcast.protocol.stability.rounds.shape import NOBODY, Shape, filled_tree, given_tree
from semcast.wire.families.measures import Echo, Times, Tree
from semcast.wire.limits import Limits

MS: Final = 1_000_000
NEAR_MS, FAR_MS = 0.2, 40.0
SHAPED = ["train", "s_coordp", "s_train"]


def two_sites(one: int, other: int) -> float:
    """How long a datagram takes between members of which every other one is far away, in ms."""
    return NEAR_MS if one % 2 == other % 2 else FAR_MS


class Network:
    """Members, and datagrams on their way between them; everything is written down."""

    def __init__(self, members: int, stability: str, seed: int = 1, **settings: Any) -> None:
        self.config = MemberConfig(
            stability=stability,
            stability_tree="measured",
            gossip_period_ns=20 * MS,
            **settings,
        )
        self.delay_ms: Callable[[int, int], float] = two_sites
        self.loss = 0.0
        self.now_ns = 0
        self.ids = list(range(members))
        names = [node_name(Source(at, 1)) for at in self.ids]
        self.journal = Journal(Header.of(self.config, names, "test", "sim", str(seed)))
        self.members: dict[int, Member] = {}
        self._lives = dict.fromkeys(self.ids, 0)
        self._stream = random.Random(seed)
        self._number = count()
        self._queue: list[tuple[int, int, Source, int, bytes]] = []
        for at in self.ids:
            self.start(at)

    def start(self, at: int) -> None:
        """A member begins its first life, or another one without memory."""
        self._lives[at] += 1
        me = Source(at, self._lives[at])
        observer = JournalObserver(self.journal, node_name(me), lambda: self.now_ns)
        stream = random.Random(f"{at}/{self._lives[at]}")
        again = self._lives[at] > 1
        view = View.first(self.ids, self.config.f)
        if again:
            view = view.with_life(at, self._lives[at])
        self.members[at] = Member(self.config, me, view, stream, observer, joining=again)

    def crash(self, at: int) -> None:
        self.journal.record(self.now_ns, node_name(self.members.pop(at).me), "crash")

    def send(self, at: int) -> None:
        """One message of this member."""
        self.members[at].multicast(b"x", None, self.now_ns)
        self._flush(at)

    def run(self, for_ms: float, each_ms: float = 0.0) -> None:
        """Let time pass; with `each_ms`, somebody sends something that often."""
        until_ns = self.now_ns + round(for_ms * MS)
        send_ns = self.now_ns if each_ms else until_ns + 1
        while True:
            timer_ns, at = min((one.next_deadline_ns(), at) for at, one in self.members.items())
            arrival_ns = self._queue[0][0] if self._queue else until_ns + 1
            soonest_ns = min(timer_ns, arrival_ns, send_ns)
            if soonest_ns > until_ns:
                break
            self.now_ns = max(self.now_ns, soonest_ns)
            if soonest_ns == send_ns:
                send_ns += round(each_ms * MS)
                self.send(self._stream.choice(list(self.members)))
            elif soonest_ns == timer_ns:
                self.members[at].on_timer(self.now_ns)
                self._flush(at)
            else:
                _, _, sender, to, frames = heapq.heappop(self._queue)
                if to in self.members:
                    self.members[to].receive(frames, sender, self.now_ns)
                    self.members[to].take(1000, self.now_ns)
                    self._flush(to)
        self.now_ns = until_ns

    def _flush(self, at: int) -> None:
        member = self.members[at]
        for outgoing in member.datagrams(self.now_ns):
            for to in self.ids if outgoing.to == EVERYBODY else [outgoing.to]:
                if to == at or self._stream.random() < self.loss:
                    continue
                late_ms = self.delay_ms(at, to) * (1 + 0.1 * self._stream.random())
                event = (self.now_ns + round(late_ms * MS), next(self._number))
                heapq.heappush(self._queue, (*event, member.me, to, outgoing.frames))

    def change_tree(self, at: int) -> None:
        """A member goes over to a tree drawn at random, and says so."""
        order = self._stream.sample(self.ids, len(self.ids))
        parents = bytearray(len(order))
        parents[order[0]] = order[0]
        for place in range(1, len(order)):
            parents[order[place]] = order[self._stream.randrange(place)]
        number = max(self.measuring(one).number for one in self.members) + 1
        member = self.members[at]
        tree = Tree(member.view.digest, number, at, bytes(parents), bytes(order))
        detection(member).on_frame(tree, member.me, self.now_ns)
        self.measuring(at)._out.append((EVERYBODY, tree))
        self._flush(at)

    def measuring(self, at: int) -> Measuring:
        return detection(self.members[at])._measuring  # type: ignore[return-value]

    def shapes(self) -> list[Shape]:
        """Which tree and ring each member has in mind, around member 0 or whoever comes first."""
        rolls = [detection(self.members[at])._roll for at in sorted(self.members)]
        return [roll.shape(roll.first_alive()) for roll in rolls]

    def agreed_shape(self) -> Shape:
        """The one that all have in mind."""
        shapes = self.shapes()
        for shape in shapes:
            assert shape.parents.tolist() == shapes[0].parents.tolist()
            assert shape.ring.tolist() == shapes[0].ring.tolist()
        epochs = {int(detection(member)._roll.epoch) for member in self.members.values()}
        assert len(epochs) == 1
        return shapes[0]

    def judge(self) -> None:
        """Everything is stable at the end, and nothing was called so too early."""
        assert all(member.all_stable() for member in self.members.values())
        assert all(member.stats()["retained_held"] == 0 for member in self.members.values())
        for member in self.members.values():
            self.journal.record(self.now_ns, node_name(member.me), "end")
        report = check_all(self.journal)
        assert report.ok, str(report)


def detection(member: Member) -> RoundDetection:
    assert isinstance(member._detection, RoundDetection)
    return member._detection


def long_links(shape: Shape) -> int:
    return sum(
        shape.parent(at) != NOBODY and at % 2 != shape.parent(at) % 2 for at in range(shape.members)
    )


def long_steps(shape: Shape) -> int:
    return sum(at % 2 != shape.after(at) % 2 for at in range(shape.members))


# -- a group that finds its tree -------------------------------------------------------------------


@pytest.mark.parametrize("stability", SHAPED)
def test_two_far_sites_are_joined_by_one_link_and_the_ring_crosses_twice(stability: str) -> None:
    group = Network(10, stability, stability_branching=5)
    assert long_links(group.agreed_shape()) > 1
    group.run(8_000, each_ms=50)
    group.run(2_000)
    shape = group.agreed_shape()
    assert group.measuring(3).number > 0
    assert long_steps(shape) == 2
    assert long_links(shape) == 1
    group.judge()


def test_a_tree_that_is_good_enough_is_kept() -> None:
    """Times are never the same twice; a group does not change its tree for that."""
    group = Network(8, "s_coordp")
    group.run(10_000)
    number = group.measuring(0).number
    assert number > 0
    group.run(60_000)
    assert group.measuring(0).number == number


def test_ways_that_become_long_change_the_tree() -> None:
    """Before, votes of some went over the long way twice; afterwards nobody's do."""
    group = Network(8, "s_coordp")
    group.run(10_000)
    before = group.agreed_shape()
    group.delay_ms = lambda one, other: NEAR_MS if (one < 4) == (other < 4) else FAR_MS
    times_us = np.array([[2_000 * group.delay_ms(a, b) for b in range(8)] for a in range(8)])
    group.run(120_000)
    after = group.agreed_shape()
    assert round_us("s_coordp", before, times_us) >= 2_000 * FAR_MS
    assert round_us("s_coordp", after, times_us) < 1_000 * (FAR_MS + 4 * NEAR_MS)


def test_a_maker_that_is_gone_is_followed_by_the_next() -> None:
    group = Network(8, "s_coordp", stability_branching=2)
    group.run(1_000, each_ms=100)
    group.crash(0)
    for member in group.members.values():
        member.remove(0, group.now_ns)
    group.run(12_000, each_ms=100)
    group.run(3_000)
    shape = group.agreed_shape()
    assert shape.root == 1
    assert group.measuring(5).number > 0
    assert long_links(shape) == 1
    group.judge()


def test_a_maker_that_comes_back_without_memory_is_told_and_goes_on() -> None:
    group = Network(6, "s_coordp", stability_branching=2)
    group.run(10_000, each_ms=100)
    number = group.measuring(3).number
    assert number > 0
    group.crash(0)
    group.run(200)
    group.start(0)
    group.run(10_000, each_ms=100)
    group.run(3_000)
    assert group.measuring(0).number == group.measuring(3).number >= number
    assert long_links(group.agreed_shape()) == 1
    group.judge()


@pytest.mark.parametrize("stability", SHAPED)
@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_stable_too_early_while_trees_change_and_datagrams_get_lost(
    stability: str, seed: int
) -> None:
    """Ways change all the time, a fifth of all datagrams is lost, members come back."""
    stream = random.Random(seed)
    group = Network(6, stability, seed, stability_branching=2, f=2)
    group.loss = 0.2
    for _ in range(6):
        place = [stream.random() * 30 for _ in group.ids]
        group.delay_ms = lambda one, other, place=place: 0.3 + abs(place[one] - place[other])  # type: ignore[misc]
        group.run(3_000, each_ms=40)
        if stream.random() < 0.5:
            back = stream.choice(group.ids)
            group.crash(back)
            group.run(stream.random() * 300)
            group.start(back)
    group.loss = 0.0
    group.run(10_000)
    assert group.measuring(0).number > 0
    group.agreed_shape()
    group.judge()


def with_changing_trees(stability: str, seed: int) -> Network:
    """Some have heard of the latest tree and others not, again and again; then all is well."""
    stream = random.Random(seed)
    group = Network(6, stability, seed, f=2)
    group.delay_ms = lambda one, other: 0.2 + abs(one - other)
    group.loss = 0.3
    for _ in range(60):
        group.run(stream.random() * 120, each_ms=15)
        group.change_tree(stream.choice(group.ids))
    group.loss = 0.0
    group.run(8_000)
    return group


@pytest.mark.parametrize("stability", SHAPED)
def test_nothing_is_stable_too_early_while_members_have_different_trees_in_mind(
    stability: str,
) -> None:
    group = with_changing_trees(stability, 1)
    assert group.measuring(0).number >= 60
    group.agreed_shape()
    group.judge()


# -- its parts -------------------------------------------------------------------------------------


def measuring(members: int = 4, me: int = 1) -> tuple[Measuring, Roll]:
    roll = Roll(filled_tree(members, 2), 5)
    view = View.first([10 * at for at in range(members)], 0)
    return Measuring("s_coordp", 2, view, 10 * me, roll), roll


def test_the_shortest_time_counts_and_is_forgotten_slowly() -> None:
    watch = Stopwatch(3, 0)
    for took_ms, expected_us in ((5, 5_000), (3, 3_000), (900, 3_751), (2, 2_000)):
        token = watch.asked(1, 1_000 * MS)
        watch.answered(1, token, (1_000 + took_ms) * MS)
        assert watch.times_us[1] == expected_us
    assert watch.times_us == [0, 2_000, 0]


def test_an_answer_to_nothing_that_was_asked_measures_nothing() -> None:
    watch = Stopwatch(3, 0)
    watch.answered(1, 5, 10)
    old = watch.asked(1, 100)
    new = watch.asked(1, 200)
    watch.answered(1, old, 300)
    watch.answered(2, new, 300)
    watch.answered(1, new, 150)
    assert watch.times_us == [0, 0, 0]
    watch.answered(1, new, 10_200)
    watch.answered(1, new, 90_000)
    assert watch.times_us == [0, 10, 0]


def test_everybody_is_asked_in_turn_and_nobody_asks_itself() -> None:
    for me in range(5):
        watch = Stopwatch(5, me)
        asked = [watch.next_peer() for _ in range(8)]
        assert set(asked[:4]) == set(asked[4:]) == set(range(5)) - {me}
        assert watch.passes == 1


def test_of_two_trees_the_later_counts_whichever_comes_first() -> None:
    """Also if a maker without memory gave a number once more: all choose the same."""
    trees = [
        Tree(9, 1, 0, bytes([0, 0, 0, 0]), bytes([0, 1, 2, 3])),
        Tree(9, 1, 0, bytes([0, 0, 1, 2]), bytes([0, 1, 2, 3])),
        Tree(9, 1, 0, bytes([0, 0, 0, 0]), bytes([0, 3, 2, 1])),
        Tree(9, 1, 2, bytes([2, 2, 2, 2]), bytes([2, 1, 0, 3])),
        Tree(9, 2, 0, bytes([0, 0, 0, 2]), bytes([0, 1, 2, 3])),
    ]
    for some in (trees, trees[:4], trees[:3]):
        epochs = set()
        for seed in range(6):
            one, roll = measuring()
            for tree in random.Random(seed).sample(some, len(some)):
                one.on_frame(tree, 0, 0)
            assert not any(one.on_frame(tree, 0, 0) for tree in some)
            epochs.add(int(roll.epoch))
        assert len(epochs) == 1


def test_different_trees_give_different_epochs() -> None:
    """Votes of those who have different trees in mind never meet."""
    stream = random.Random(4)
    epochs = {5}
    for number in range(1, 200):
        one, roll = measuring()
        order = stream.sample(range(4), 4)
        parents = bytearray(4)
        parents[order[0]] = order[0]
        for at in range(1, 4):
            parents[order[at]] = order[stream.randrange(at)]
        assert one.on_frame(Tree(9, number, 0, bytes(parents), bytes(order)), 0, 0)
        epochs.add(int(roll.epoch))
    assert len(epochs) == 200


def test_who_has_an_older_tree_is_told_the_newer_and_not_all_the_time() -> None:
    one, _ = measuring()
    newer = Tree(9, 5, 0, bytes([0, 0, 0, 0]), bytes([0, 1, 2, 3]))
    older = Tree(9, 4, 3, bytes([3, 3, 3, 3]), bytes([3, 1, 2, 0]))
    one.on_frame(newer, 0, 0)
    for at_ns in (0, 1, 2):
        assert not one.on_frame(older, 3, at_ns)
    assert one.take_out() == [(30, newer)]
    one.send_tree(3, 1_000 * MS)
    assert one.take_out() == [(30, newer)]


def test_frames_that_do_not_fit_this_group_change_nothing() -> None:
    one, roll = measuring(me=0)
    before = int(roll.epoch)
    assert not one.on_frame(Tree(9, 9, 0, bytes([0, 0]), bytes([0, 1])), 1, 0)
    assert not one.on_frame(Times(9, 3, [7, 8, 9]), 1, 0)
    assert not one.on_frame(Times(9, 60_000, [7]), 1, 0)
    assert not one.on_frame(Echo(True, 3), 1, 5)
    assert int(roll.epoch) == before
    assert one.number == 0
    assert one.take_out() == []


def test_a_tree_that_is_told_on_names_the_view_that_counts_now() -> None:
    """Trees outlive views in which the same members stand at the same positions."""
    one, _ = measuring()
    view = View.first([0, 10, 20, 30], 0)
    tree = Tree(view.digest, 5, 0, bytes([0, 0, 0, 0]), bytes([0, 1, 2, 3]))
    one.on_frame(tree, 0, 0)
    again = view.with_life(30, 2)
    one.install(again)
    one.send_tree(3, 0)
    told = Tree(again.digest, 5, 0, tree.parents, tree.ring)
    assert one.take_out() == [(30, told)]
    assert one.number == 5


def test_an_echo_goes_back_to_who_asked() -> None:
    one, _ = measuring()
    one.on_frame(Echo(False, 77), 3, 5)
    assert one.take_out() == [(30, Echo(True, 77))]


def test_a_round_takes_as_long_as_its_longest_way() -> None:
    """STAB §3.3, §4.1, §4.2: around the ring; up the tree; through siblings and up the tree."""
    times_us = np.full((4, 4), 10.0)
    times_us[0, 2] = times_us[2, 0] = 100.0
    shape = given_tree([NOBODY, 0, 0, 1])
    assert round_us("s_coordp", shape, times_us) == 50.0
    assert round_us("s_train", shape, times_us) == 5.0 + 5.0 + 50.0
    assert round_us("train", given_tree([NOBODY, 0, 0, 1], [0, 1, 2, 3]), times_us) == 20.0


# -- mistakes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"stability_tree": "oak"}, "stability_tree 'oak'; choose 'filled' or 'measured'"),
        ({"stability": "gossip", "stability_tree": "measured"}, "'gossip', which has none"),
        ({"stability": "coordp", "stability_ring": (0, 1)}, "'coordp', which has none"),
        ({"stability": "fulldist", "stability_tree": (-1, 0)}, "'fulldist', which has none"),
        ({"stability_tree": "measured", "stability_ring": (0, 1)}, "choose one"),
        ({"stability_tree": (-1, -1)}, "has 2 roots"),
        ({"stability_tree": (1, 0)}, "has 0 roots"),
        ({"stability_tree": (-1, 2, 1)}, "never reaches the root"),
        ({"stability_tree": (-1, 9)}, "member 1 of 2 hangs on member 9"),
    ],
)
def test_a_tree_that_makes_no_sense_is_refused_in_one_line(
    settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        MemberConfig(**({"stability": "s_coordp"} | settings))
    assert "\n" not in str(caught.value)


def test_a_tree_of_another_size_than_the_group_is_refused() -> None:
    config = MemberConfig(stability="s_coordp", stability_tree=(-1, 0, 0))
    with pytest.raises(ConfigError, match="3 members, but the group has 4"):
        RoundSetup.of(config, 4)
    ring = MemberConfig(stability="train", stability_ring=(0, 2))
    with pytest.raises(ConfigError, match="a ring of 2 members for 3"):
        RoundSetup.of(ring, 3)


def test_a_measured_tree_is_for_groups_whose_tree_fits_a_datagram() -> None:
    check_measured(256, Limits())
    with pytest.raises(ConfigError, match=r"257 members; the most is 256 .*use 'filled'"):
        check_measured(257, Limits())
    check_measured(227, Limits(576))
    with pytest.raises(ConfigError, match=r"228 members; the most is 227 with .* 576"):
        check_measured(228, Limits(576))


def test_a_given_tree_has_any_root_and_its_ring_may_begin_anywhere() -> None:
    config = MemberConfig(stability="s_train", stability_tree=(2, 2, -1), stability_ring=(0, 2, 1))
    shape = RoundSetup.of(config, 3).shape
    assert (shape.root, shape.children(2), shape.ring.tolist()) == (2, [0, 1], [2, 1, 0])


def test_members_that_were_told_different_trees_never_merge_their_votes() -> None:
    told: list[dict[str, Any]] = [
        {}, {"stability_tree": "measured"}, {"stability_tree": (-1, 0, 0)},
        {"stability_tree": (-1, 0, 1)}, {"stability_ring": (0, 2, 1)}, {"stability_branching": 1},
    ]  # fmt: skip
    epochs = {
        int(RoundSetup.of(MemberConfig(stability="s_coordp", **one), 3).roll().epoch)
        for one in told
    }
    assert len(epochs) == len(told)
