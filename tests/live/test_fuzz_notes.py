"""Notes of any kind are taken or refused, never more: hellos, questions and answers.

What a group takes from the network behind a seal that opened may still come from a member that is
broken, and in an unsealed group from anybody. `make fuzz` goes on where this ends.
"""

import json
import random
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.live.notes import (
    INCARNATIONS,
    ODD,
    Victim,
    drawn,
    drawn_answer,
    gather,
    genuine,
    hearing,
    hello,
    mutated,
    part_of_answer,
    written,
)

from semcast.ids import ID_MAX, Source
from semcast.live.meeting.roster import member_id

B = Source(member_id("b"), 1)
DRAWS = st.randoms(use_true_random=False)
PATIENT = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=60)


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("sealed", [True, False])
@settings(PATIENT)
@given(draw=DRAWS, count=st.integers(1, 8))
def test_any_notes_are_taken_or_refused_and_what_is_remembered_is_bounded(
    sealed: bool, complete: bool, draw: random.Random, count: int
) -> None:
    victim = Victim(sealed, complete, named=draw.randrange(2) == 0)
    for _ in range(count):
        victim.take(*drawn(draw), proved=draw.randrange(4) > 0)


@settings(PATIENT, max_examples=200)
@given(draw=DRAWS, count=st.integers(1, 5))
def test_any_answers_are_gathered_or_refused(draw: random.Random, count: int) -> None:
    heard = hearing()
    for _ in range(count):
        for note in drawn_answer(draw):
            gather(note, heard)


@pytest.mark.parametrize("sealed", [True, False])
def test_every_part_of_every_note_may_be_anything(sealed: bool) -> None:
    """Each value of each genuine note, in the place of each of its parts and in theirs."""
    draw = random.Random(1)
    victim = Victim(sealed, complete=True)
    for note in genuine():
        for name in note:
            for odd in ODD:
                changed = note | {name: odd}
                victim.take(written(changed, draw), B)
                if isinstance(note[name], list):
                    victim.take(written(note | {name: [odd]}, draw), B)
                    for row in (one for one in note[name] if isinstance(one, list)):
                        at = draw.randrange(len(row))
                        rows = [[*row[:at], odd, *row[at + 1 :]]]
                        victim.take(written(note | {name: rows}, draw), B)


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("incarnation", INCARNATIONS)
@pytest.mark.parametrize("name", ["a", "b"])
def test_lives_at_the_ends_of_their_range_end_nobody(
    name: str, incarnation: int, complete: bool
) -> None:
    victim = Victim(sealed=False, complete=complete)
    for life in (*INCARNATIONS, ID_MAX + 1):
        said = hello(name, life) | {"left": [], "evicted": []}
        victim.take(json.dumps(said).encode(), Source(member_id(name), incarnation))
        said["left"] = [[member_id("a"), incarnation]]
        victim.take(json.dumps(said).encode(), Source(member_id(name), incarnation))


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_notes_nested_as_deep_as_can_be_read_are_refused(opening: str, closing: str) -> None:
    """Where reading just succeeds, whatever looks at it afterwards may fail."""
    victim, limit = Victim(sealed=False, complete=True), sys.getrecursionlimit()
    for depth in [*range(limit - 150, limit + 20), 10_000]:
        nested = opening * depth + "1" + closing * depth
        for note in (nested, f'{{"kind":"ask","what":{nested},"id":"n"}}'):
            victim.take(note.encode(), B)
        gather(nested.encode(), hearing())
        gather(json.dumps(part_of_answer(nested)).encode(), hearing())
        whole = f'{{"ok":true,"why":"","name":"b","members":{nested},"body":{{}}}}'
        gather(json.dumps(part_of_answer(whole)).encode(), hearing())


@pytest.mark.parametrize(
    "port", ["Infinity", "-Infinity", "NaN", "1e999", "9" * 5000, "null", "{}"]
)
def test_ports_that_are_no_numbers_are_refused(port: str) -> None:
    whole = f'{{"ok":true,"why":"","name":"b","members":[["a","h",{port}]],"body":{{}}}}'
    gather(json.dumps(part_of_answer(whole)).encode(), hearing())


@settings(PATIENT)
@given(note=st.binary(max_size=300), complete=st.booleans())
def test_any_bytes_are_taken_or_refused(note: bytes, complete: bool) -> None:
    Victim(sealed=False, complete=complete).take(note, B)
    gather(note, hearing())


def test_the_genuine_notes_are_not_refused() -> None:
    """Else the fuzzers would only see the first check."""
    for note in genuine():
        victim = Victim(sealed=True, complete=True)
        before = victim.session.refused_notes
        victim.take(json.dumps(note).encode(), Source(member_id(note.get("name", "b")), 1))
        assert victim.session.refused_notes == before, note
        if note["kind"] == "ask":
            assert victim.sent_bytes > 0, note
    draw = random.Random(2)
    kinds = {type(mutated(hello("b"), draw)) for _ in range(200)}
    assert dict in kinds
    assert len(kinds) > 3
