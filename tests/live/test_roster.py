"""Rosters: whatever hellos are lost, doubled or late, nobody disagrees on who is in the group."""

import json
import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semcast.errors import ConfigError, RemoteProtocolError
from semcast.ids import ID_MAX
from semcast.live.meeting.closed_roster import ClosedRoster as Roster
from semcast.live.meeting.roster import member_id
from semcast.settings.table import GROUP_SIZE_MAX
from semcast.wire.frames import FRAME_HEAD_BYTES
from semcast.wire.limits import Limits

NAMES = ("ann", "bob", "cat", "dan", "eve", "fay", "gus", "hal")
HELLO: dict[str, Any] = {
    "kind": "hello", "name": "bob", "roster": "", "members": [], "peers": [],
    "left": [], "evicted": [], "status": {},
}  # fmt: skip


@dataclass
class Meeting:
    """Several rosters, the hellos that they said, and the addresses that hellos come from."""

    rosters: dict[str, Roster] = field(default_factory=dict)
    now_ns: int = 0

    def come(self, name: str, members: tuple[str, ...], size: int, life: int = 1) -> Roster:
        self.rosters[name] = Roster(name, life, members, size)
        return self.rosters[name]

    def tell(self, teller: str, listener: str, hello: bytes | None = None, life: int = 0) -> None:
        """One hello arrives: what the teller would say now, or what it said before."""
        self.now_ns += 1
        roster = self.rosters[teller]
        self.rosters[listener].on_hello(
            json.loads(hello or roster.hello({})),
            roster.me,
            life or roster.incarnation,
            (f"10.0.0.{NAMES.index(teller) + 1}", 7400),
            self.now_ns,
        )

    def tell_everybody(self, rounds: int = 1) -> None:
        for _ in range(rounds):
            for teller in self.rosters:
                for listener in self.rosters:
                    if teller != listener:
                        self.tell(teller, listener)

    def complete(self) -> list[Roster]:
        return [roster for roster in self.rosters.values() if roster.complete]


# -- finding each other ----------------------------------------------------------------------------

pairs = st.tuples(st.integers(0, 7), st.integers(0, 7))


@given(count=st.integers(1, 5), named=st.booleans(), stream=st.randoms(use_true_random=False))
def test_members_complete_however_many_hellos_are_lost(
    count: int, named: bool, stream: random.Random
) -> None:
    """In the end some arrive, and then all have the same members."""
    meeting = Meeting()
    names = NAMES[:count]
    for name in names:
        meeting.come(name, names if named else (), 0 if named else count)
    for _ in range(400):
        if len(meeting.complete()) == count:
            break
        teller, listener = stream.choice(names), stream.choice(names)
        if teller != listener and stream.random() < 0.7:
            meeting.tell(teller, listener)
    else:
        meeting.tell_everybody(3)
    assert len(meeting.complete()) == count
    assert {roster.members for roster in meeting.complete()} == {
        tuple(sorted(map(member_id, names)))
    }


@given(
    size=st.integers(2, 4),
    extra=st.integers(0, 3),
    order=st.lists(pairs, max_size=80),
    late=st.randoms(use_true_random=False),
)
@settings(max_examples=300)
def test_comers_beyond_the_size_never_split_a_group(
    size: int, extra: int, order: list[tuple[int, int]], late: random.Random
) -> None:
    """Any hellos, in any order, old ones again: members of one group all name the same members.

    Twice as many comers as there is room for may become two groups, of which nobody is in both: a
    list of names is for those who want to rule that out.
    """
    meeting = Meeting()
    names = NAMES[: size + extra]
    for name in names:
        meeting.come(name, (), size)
    said: list[tuple[str, bytes]] = []
    for one, other in order:
        teller, listener = names[one % len(names)], names[other % len(names)]
        if teller == listener:
            continue
        said.append((teller, meeting.rosters[teller].hello({})))
        old_teller, hello = late.choice(said) if late.random() < 0.3 else said[-1]
        if old_teller != listener:
            meeting.tell(old_teller, listener, hello)
    complete = meeting.complete()
    for one_roster in complete:
        assert len(one_roster.members) == size
        assert one_roster.me in one_roster.members
        for member in one_roster.members:
            (partner,) = [r for r in meeting.rosters.values() if r.me == member]
            assert partner.members == one_roster.members
    if len(names) < 2 * size:
        assert len({roster.members for roster in complete}) <= 1


def test_a_comer_that_finds_the_group_full_is_a_stranger_and_waits() -> None:
    meeting = Meeting()
    for name in NAMES[:2]:
        meeting.come(name, (), 2)
    meeting.tell_everybody(2)
    late = meeting.come("cat", (), 2)
    meeting.tell_everybody(3)
    assert [roster.name for roster in meeting.complete()] == ["ann", "bob"]
    assert not late.complete
    assert meeting.rosters["ann"].strangers == {late.me: "cat"}
    assert meeting.rosters["ann"].addresses() == [("10.0.0.2", 7400)]


def test_somebody_who_is_not_on_the_list_changes_nothing() -> None:
    meeting = Meeting()
    for name in NAMES[:2]:
        meeting.come(name, NAMES[:2], 0)
    meeting.come("cat", NAMES[:3], 0)
    meeting.tell_everybody(3)
    assert [roster.name for roster in meeting.complete()] == ["ann", "bob"]
    assert member_id("cat") not in meeting.rosters["ann"].peers


def test_nobody_completes_before_everybody_is_known_to_know_it() -> None:
    meeting = Meeting()
    for name in NAMES[:2]:
        meeting.come(name, NAMES[:2], 0)
    ann, bob = meeting.rosters["ann"], meeting.rosters["bob"]
    assert ann.missing() == "not heard of: bob"
    meeting.tell("bob", "ann")
    assert not ann.complete
    assert "waiting for bob" in ann.missing()
    meeting.tell("ann", "bob")
    assert bob.complete
    meeting.tell("bob", "ann")
    assert ann.complete


def test_what_is_missing_is_said_with_numbers() -> None:
    meeting = Meeting()
    for name in NAMES[:2]:
        meeting.come(name, (), 3)
    meeting.tell("bob", "ann")
    assert meeting.rosters["ann"].missing() == "2 of 3 members found"


def test_a_group_of_one_is_complete_at_once() -> None:
    assert Roster("ann", 1, (), 1).complete
    assert Roster("ann", 1, ("ann",), 0).complete


def test_addresses_travel_with_hellos() -> None:
    """Whoever knows one member gets to know all."""
    meeting = Meeting()
    for name in NAMES[:3]:
        meeting.come(name, NAMES[:3], 0)
    meeting.tell("bob", "cat")
    said = json.loads(meeting.rosters["cat"].hello({}))
    new = meeting.rosters["ann"].on_hello(said, member_id("cat"), 1, ("10.0.0.3", 7400), 1)
    assert new == [(member_id("bob"), 1, ("10.0.0.2", 7400))]


@pytest.mark.parametrize("count", [2, 8, 12, 13, 200])
@pytest.mark.parametrize("letter", ["x", "é", "\N{SNAIL}"])
def test_a_hello_fits_a_datagram_and_all_get_their_turn(count: int, letter: str) -> None:
    """However many members there are, what they are called, and how many have gone."""
    names = tuple(
        f"{number:03d}" + letter * (61 // len(letter.encode())) for number in range(count)
    )
    roster = Roster(names[0], ID_MAX, names, 0)
    for number, name in enumerate(names[1:]):
        gone = [[member_id(name), ID_MAX - 1]]
        said = HELLO | {"name": name, "left": gone, "evicted": gone}
        roster.on_hello(said, member_id(name), ID_MAX, (f"255.255.255.{number}", 65_535), 1)
    told, left = set(), set()
    for _ in range(200):
        hello = roster.hello({f"a status {number}": 12345.678901234 for number in range(8)})
        assert len(hello) <= Limits(1500).frames_bytes_max - FRAME_HEAD_BYTES
        said = json.loads(hello)
        told |= {peer[0] for peer in said["peers"]}
        left |= {member for member, _ in said["left"]}
    assert told == set(names[1:])
    assert left == set(map(member_id, names[1:]))


# -- coming back -----------------------------------------------------------------------------------


@given(pairs=st.lists(pairs, max_size=30), named=st.booleans())
def test_a_member_that_comes_back_learns_that_it_was_there_before(
    pairs: list[tuple[int, int]], named: bool
) -> None:
    """Whatever hellos it hears first, before it is complete it knows of its former life."""
    meeting, names = Meeting(), NAMES[:3]
    for name in names:
        meeting.come(name, names if named else (), 0 if named else 3, life=100)
    meeting.tell_everybody(3)
    assert len(meeting.complete()) == 3
    back = meeting.come("cat", names if named else (), 0 if named else 3, life=200)
    for one, other in pairs:
        teller, listener = names[one % 3], names[other % 3]
        if teller != listener:
            meeting.tell(teller, listener)
        assert not back.complete or back.former_incarnation == 100
    meeting.tell_everybody(3)
    assert back.complete
    assert back.former_incarnation == 100


def test_a_member_that_left_and_comes_back_learns_that_it_was_there_before() -> None:
    meeting, names = Meeting(), NAMES[:3]
    for name in names:
        meeting.come(name, names, 0, life=100)
    meeting.tell_everybody(3)
    leaving = meeting.rosters["cat"]
    leaving.left[leaving.me] = 100
    meeting.tell("cat", "ann")
    meeting.tell("cat", "bob")
    assert meeting.rosters["ann"].gone(leaving.me)
    back = meeting.come("cat", names, 0, life=200)
    meeting.tell_everybody(3)
    assert not meeting.rosters["ann"].gone(leaving.me)
    assert back.complete
    assert back.former_incarnation == 100


def test_a_member_whose_clock_was_set_back_hears_of_its_former_life() -> None:
    """Others do not take it for the former one, and tell it a number to go beyond."""
    meeting, names = Meeting(), NAMES[:2]
    for name in names:
        meeting.come(name, names, 0, life=100)
    meeting.tell_everybody(2)
    back = meeting.come("bob", names, 0, life=50)
    meeting.tell("bob", "ann")
    assert meeting.rosters["ann"].peers[back.me].incarnation == 100
    meeting.tell("ann", "bob")
    assert back.former_incarnation == 100
    back.incarnation = 101
    meeting.tell_everybody(2)
    assert back.complete
    assert meeting.rosters["ann"].peers[back.me].incarnation == 101


def test_a_hello_of_a_former_life_that_comes_late_changes_nothing() -> None:
    meeting, names = Meeting(), NAMES[:2]
    for name in names:
        meeting.come(name, names, 0, life=100)
    old = meeting.rosters["bob"].hello({})
    meeting.come("bob", names, 0, life=200)
    meeting.tell_everybody(2)
    before = dict(meeting.rosters["ann"].peers)
    meeting.tell("bob", "ann", old, life=100)
    assert meeting.rosters["ann"].peers == before


def test_who_left_is_not_waited_for_and_others_pass_it_on() -> None:
    meeting, names = Meeting(), NAMES[:3]
    for name in names:
        meeting.come(name, names, 0)
    leaving = meeting.rosters["cat"]
    leaving.left[leaving.me] = 1
    meeting.tell("cat", "ann")
    meeting.tell("ann", "bob")
    meeting.tell("bob", "ann")
    meeting.tell("ann", "bob")
    assert meeting.rosters["bob"].gone(leaving.me)
    assert meeting.rosters["ann"].complete
    assert meeting.rosters["bob"].complete


# -- garbage ---------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def state_of(roster: Roster) -> object:
    return (
        roster.members, dict(roster.peers), dict(roster.left), dict(roster.evicted),
        roster.former_incarnation, dict(roster.strangers),
    )  # fmt: skip


@given(st.dictionaries(st.sampled_from(sorted(HELLO)), json_values, min_size=1), st.booleans())
@settings(max_examples=200)
def test_garbage_raises_only_our_error_and_changes_nothing(
    garbage: dict[str, Any], complete: bool
) -> None:
    said = HELLO | garbage if complete else garbage
    roster = Roster("ann", 1, (), 3)
    before = state_of(roster)
    try:
        roster.on_hello(said, member_id("bob"), 1, ("10.0.0.2", 7400), 1)
    except RemoteProtocolError:
        assert state_of(roster) == before
    else:
        # It makes sense; then the hello that this one says makes sense too.
        other = Roster("cat", 1, (), 3)
        other.on_hello(json.loads(roster.hello({})), roster.me, 1, ("10.0.0.1", 7400), 1)


@pytest.mark.parametrize(
    "garbage",
    [
        {"name": "x" * 65},
        {"name": "b\x1b[2Job"},
        {"status": {"held": float("inf")}},
        {"status": {"held": float("nan")}},
        {"status": {"held": 10**400}},
        {"status": {f"{key}": 0 for key in range(100)}},
        {"members": [f"m{number}" for number in range(GROUP_SIZE_MAX + 1)]},
        {"members": ["ann", "ann"]},
        {"peers": [["bob", ID_MAX + 1, 1, "10.0.0.2", 1]]},
        {"peers": [["bob", 1, 1, "10.0.0.2", 0]]},
        {"peers": [["bob", 1, 1, "10.0.0.2", 65_536]]},
        {"peers": [["bob", 1, 1, "x" * 65, 1]]},
        {"left": [[True, 1]]},
        {"left": [[-1, 1]]},
        {"evicted": [[1, 1, 1]]},
    ],
)
def test_values_out_of_range_are_refused(garbage: dict[str, Any]) -> None:
    roster = Roster("ann", 1, (), 3)
    before = state_of(roster)
    sender = member_id(garbage.get("name", "bob"))
    with pytest.raises(RemoteProtocolError):
        roster.on_hello(HELLO | garbage, sender, 1, ("10.0.0.2", 7400), 1)
    assert state_of(roster) == before


def test_a_hello_under_another_name_is_refused() -> None:
    roster = Roster("ann", 1, (), 3)
    with pytest.raises(RemoteProtocolError, match="another id"):
        roster.on_hello(HELLO, member_id("cat"), 1, ("10.0.0.2", 7400), 1)


def test_what_is_remembered_of_strangers_is_bounded() -> None:
    roster = Roster("ann", 1, ("ann", "bob"), 0)
    for number in range(GROUP_SIZE_MAX + 1000):
        name = f"stranger {number}"
        said = HELLO | {"name": name, "left": [[number, 1]], "evicted": [[number, 1]]}
        roster.on_hello(said, member_id(name), 1, ("10.0.0.2", 7400), 1)
        roster.on_hello(HELLO | {"left": [[number, 1]]}, member_id("bob"), 1, ("10.0.0.2", 1), 1)
    assert len(roster.strangers) <= GROUP_SIZE_MAX
    assert len(roster.left) <= GROUP_SIZE_MAX
    assert len(roster.peers) == 1


def test_two_names_with_one_id_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semcast.live.meeting.closed_roster.member_id", lambda _: 7)
    with pytest.raises(ConfigError, match="same id"):
        Roster("ann", 1, ("ann", "bob"), 0)
