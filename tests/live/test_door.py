"""The door: only an answer to a challenge of this process, from that life and address, opens it."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.errors import RemoteProtocolError
from semcast.ids import ID_MAX, Source
from semcast.live.meeting import door as doors
from semcast.live.meeting.door import NOTHING, Came, Door, later_life, new_life

ANN, BOB = ("10.0.0.1", 7400), ("10.0.0.2", 7400)
KEY, OTHER_KEY = bytes(32), bytes(31) + b"x"
# A hello of bob's, as ann gets it.
HELLO = Came(Source(2, 50), BOB, 10, 200, 1_000)


def proved_by(door: Door, came: Came, proof: str) -> bool:
    proves, answer = door.on_prove({"token": NOTHING, "proof": proof}, came)
    assert answer is None
    return proves


def challenge(door: Door, came: Came = HELLO) -> str:
    asked = door.challenge(came)
    assert asked is not None
    assert asked["proof"] == NOTHING
    return asked["token"]


def test_who_answers_the_challenge_is_let_in_from_that_packet_on() -> None:
    door = Door(KEY)
    proof = replace(HELLO, packet=12)
    assert proved_by(door, proof, challenge(door))
    assert not door.is_there(proof), "proving is not yet letting in"
    door.let_in(proof)
    assert door.is_there(proof)
    assert door.place_of(2) == BOB
    believed = [packet for packet in range(1, 20) if door.believes(replace(HELLO, packet=packet))]
    assert believed == list(range(13, 20))
    assert door.challenge(proof) is None


@pytest.mark.parametrize(
    "other",
    [
        {"source": Source(2, 51)},
        {"source": Source(2, 49)},
        {"source": Source(3, 50)},
        {"address": ("10.0.0.2", 7401)},
        {"address": ("10.0.0.3", 7400)},
    ],
    ids=["later life", "former life", "sender", "port", "host"],
)
def test_a_proof_is_of_one_life_at_one_address(other: dict[str, Any]) -> None:
    door = Door(KEY)
    assert not proved_by(door, replace(HELLO, **other), challenge(door))


def test_a_proof_is_for_one_process() -> None:
    """One that was recorded for its former life is worth nothing."""
    assert not proved_by(Door(OTHER_KEY), HELLO, challenge(Door(KEY)))


@given(st.text("0123456789abcdef", min_size=16, max_size=16))
def test_a_guess_proves_nothing(proof: str) -> None:
    assert not proved_by(Door(KEY), HELLO, proof)


@given(st.dictionaries(st.sampled_from(["token", "proof"]), st.none() | st.text() | st.integers()))
def test_challenges_that_make_no_sense_are_refused(said: dict[str, Any]) -> None:
    with pytest.raises(RemoteProtocolError):
        Door(KEY).on_prove(said, HELLO)


@given(st.lists(st.integers(0, 99), max_size=30), st.booleans())
def test_two_doors_open_to_each_other_and_come_to_rest(order: list[int], both: bool) -> None:
    """Whichever hellos start it and however notes overtake each other."""
    ann, bob = Door(KEY), Door(OTHER_KEY)
    at_ann = Came(Source(2, 50), BOB, 1, 200, 0)
    at_bob = Came(Source(1, 70), ANN, 1, 200, 0)
    flying = [(bob, at_bob, ann.challenge(at_ann))]
    if both:
        flying.append((ann, at_ann, bob.challenge(at_bob)))
    notes = 0
    while flying:
        door, came, said = flying.pop(order.pop() % len(flying) if order else 0)
        assert said is not None
        notes += 1
        proves, answer = door.on_prove(said, came)
        if proves:
            door.let_in(came)
        if answer is not None:
            assert len(str(answer)) == len(str(said))
            flying.append((ann, at_ann, answer) if door is bob else (bob, at_bob, answer))
    assert ann.is_there(at_ann)
    assert bob.is_there(at_bob)
    assert notes <= 8


def test_who_moves_is_asked_again_and_stays_where_it_was_until_it_answers() -> None:
    door = Door(KEY)
    door.let_in(HELLO)
    moved = replace(HELLO, address=("10.0.0.9", 1), packet=20)
    assert door.believes(moved)
    assert not door.is_there(moved)
    token = challenge(door, moved)
    assert door.place_of(2) == BOB
    assert proved_by(door, moved, token)
    door.let_in(moved)
    assert door.place_of(2) == ("10.0.0.9", 1)
    assert door.believes(replace(moved, packet=11)), "what was believed before still is"


@pytest.mark.parametrize("packet", [11, 12, 13])
def test_a_hello_that_overtook_the_proof_is_kept_and_an_older_one_is_not(packet: int) -> None:
    door = Door(KEY)
    hello = replace(HELLO, packet=packet)
    door.keep({"name": "bob"}, hello)
    door.let_in(replace(HELLO, packet=12))
    assert door.kept(2) == (({"name": "bob"}, hello) if packet > 12 else None)
    assert door.kept(2) is None


def test_what_is_remembered_of_those_who_prove_nothing_is_bounded() -> None:
    door = Door(KEY)
    for number in range(5_000):
        came = replace(HELLO, source=Source(number, 1), datagram_bytes=1_000, now_ns=number)
        door.keep({}, came)
        door.challenge(came)
    assert len(door.unproved()) <= doors.WAITING_BYTES_MAX // 1_000
    assert len(door._challenged) <= doors._CHALLENGED_MAX
    assert door.proved == {}


def test_one_source_is_challenged_only_so_often() -> None:
    door = Door(KEY)
    asked = [door.challenge(replace(HELLO, now_ns=ms * 1_000_000)) for ms in range(100)]
    assert sum(one is not None for one in asked) == 5 * doors.CHALLENGES_MAX


def test_there_are_only_so_many_notes_a_second_to_those_who_prove_nothing() -> None:
    door = Door(KEY)
    sent = sum(door.may_send(10**9 + number) for number in range(3 * doors.NOTES_PER_S_MAX))
    assert sent == doors.NOTES_PER_S_MAX
    assert door.may_send(2 * 10**9)


# -- lives -----------------------------------------------------------------------------------------

TIMES = st.integers(1_600_000_000_000_000_000, 4_000_000_000_000_000_000)
DRAWN = st.integers(0, 2**62)


@given(TIMES, DRAWN, DRAWN)
def test_a_life_that_begins_later_has_a_larger_number(time_ns: int, one: int, other: int) -> None:
    assert new_life(time_ns, one) < new_life(time_ns + (1 << 20), other) < ID_MAX


@given(st.integers(0, ID_MAX - 2), DRAWN)
def test_a_life_that_follows_one_that_others_know_is_larger(former: int, drawn: int) -> None:
    assert former < later_life(former, drawn) < ID_MAX


def test_lives_that_follow_the_same_one_differ() -> None:
    """So that what others once said does not bring a life back, and a nonce with it."""
    lives = {later_life(1_700_000_000_000_000_000, drawn << 8) for drawn in range(1000)}
    assert len(lives) == 1000


def test_after_the_last_life_there_is_none() -> None:
    assert later_life(ID_MAX - 1, 5) == later_life(ID_MAX, 5) == ID_MAX


def test_whoever_was_last_found_at_an_address_is_there_until_it_is_forgotten() -> None:
    door = Door(KEY)
    ann, bob = replace(HELLO, source=Source(1, 7)), replace(HELLO, source=Source(2, 7))
    assert door.who_is_at(HELLO.address) is None
    door.let_in(ann)
    assert door.who_is_at(HELLO.address) == 1
    door.let_in(replace(ann, address=("192.0.2.9", 9)))
    assert door.who_is_at(HELLO.address) is None
    assert door.who_is_at(("192.0.2.9", 9)) == 1
    door.let_in(bob)
    door.let_in(ann)
    door.forget(2)
    assert door.who_is_at(HELLO.address) == 1, "what is forgotten of one is not of the other"
    door.vouch(Source(1, 8))
    assert door.who_is_at(HELLO.address) is None, "where that life is has not been said"
    door.place(Source(1, 8), HELLO.address)
    assert door.who_is_at(HELLO.address) == 1
    door.forget(1)
    assert door.who_is_at(HELLO.address) is None
