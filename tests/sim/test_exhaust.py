"""Small scopes, exhausted: every interleaving, every crash, every relation; all promises kept."""

import random
from collections.abc import Iterator

import numpy as np
import pytest

from semcast import ids
from semcast.ids import Source
from semcast.obsolescence.tagger import Predecessors, Ranked, Replaces
from semcast.protocol.config import MemberConfig
from semcast.protocol.member import Member
from semcast.protocol.membership.view import View
from semcast.sim.exhausting.digest import digest
from semcast.sim.exhausting.exhaust import Outcome, exhaust
from semcast.sim.exhausting.scope import Scope, relations

COMPILED = not (ids.__file__ or "").endswith(".py")
# Timers that fire at any time. The suite is run for its verdict on the compiled build; interpreted
# it only shows that the search works there as well.
TICKS = 1 if COMPILED else 0
Relation = tuple[Replaces, ...]
EVERY = relations(3)
NAMED = [one for one in EVERY if not any(isinstance(mark, str | Ranked) for mark in one)]
# Only m1 ⊏ m3: the run of SRM §4.3.
M1_M2_M3: Relation = (None, None, Predecessors((1,)))
# The same by names, by ranks and by key: m3 may overtake m2, with order "key".
BY_KEY: list[Relation] = [M1_M2_M3, (Ranked("a", 1), None, Ranked("a", 2)), ("a", None, "a")]

# A line of three for one, so that there is an inner member; siblings for the other.
ROUNDS = [("coordp", 1), ("fulldist", 1), ("train", 1), ("s_coordp", 1), ("s_train", 2)]

# Nothing is promised if anybody crashes, so that nothing has to be safe; and yet somebody does.
BROKEN = Scope(M1_M2_M3, f=0, ticks=1, losses=1)


@pytest.fixture(scope="module", autouse=True)
def explored() -> Iterator[list[Outcome]]:
    """All that was explored here, for a line at the end."""
    outcomes: list[Outcome] = []
    yield outcomes
    states = sum(outcome.states for outcome in outcomes)
    interleavings = sum(outcome.interleavings for outcome in outcomes)
    ends = sum(outcome.closings for outcome in outcomes)
    print(
        f"\nexhausted {len(outcomes)} scopes: {states:,} states, {interleavings:,} interleavings, "
        f"{ends:,} ends with and without a crash"
    )


def kept(scope: Scope, explored: list[Outcome]) -> Outcome:
    """All runs of a scope, none of which breaks a promise."""
    outcome = exhaust(scope)
    assert not outcome.violations, "\n".join([*map(str, outcome.violations), *outcome.transcript])
    assert outcome.complete
    explored.append(outcome)
    return outcome


def named(relation: Relation) -> str:
    return Scope(relation).name


# -- what is promised -----------------------------------------------------------------------------


@pytest.mark.parametrize("relation", EVERY, ids=named)
def test_srm_keeps_its_promises_in_every_run(relation: Relation, explored: list[Outcome]) -> None:
    """3 processes, 3 messages, f = 1, one crash anywhere, one timer at any time. SRM §4.2, §4.3."""
    kept(Scope(relation, ticks=TICKS), explored)


@pytest.mark.parametrize("relation", NAMED, ids=named)
def test_srm_keeps_its_promises_with_a_reader_that_takes_nothing(
    relation: Relation, explored: list[Outcome]
) -> None:
    """With room for one message, the others wait behind it; they go on when it is taken."""
    kept(Scope(relation, ticks=TICKS, slow=2, delivery_messages=1), explored)


@pytest.mark.parametrize("relation", BY_KEY, ids=named)
def test_srm_keeps_its_promises_in_every_run_with_order_by_key(
    relation: Relation, explored: list[Outcome]
) -> None:
    """A reader that takes nothing for a while then gets the newest in the turn of the oldest, and
    before it what is never replaced.
    """
    outcome = kept(Scope(relation, order="key", ticks=TICKS, slow=2), explored)
    expected = (2, 3) if relation[0] == "a" else (3, 2)
    assert any(expected in finals for finals in outcome.finals)


def test_srm_keeps_its_promises_when_timers_fire_twice(explored: list[Outcome]) -> None:
    """Two timers at any time: enough for a member to learn that m3 is safe and purge m1."""
    outcome = kept(Scope(M1_M2_M3, ticks=2 * TICKS), explored)
    assert not COMPILED or outcome.interleavings > 1e7


def test_srm_keeps_its_promises_when_the_sender_holds_messages_back(
    explored: list[Outcome],
) -> None:
    """A crash may come between any two of the datagrams of a sender that is paced."""
    kept(Scope(M1_M2_M3, ticks=TICKS, paced=True), explored)


def test_srm_keeps_its_promises_when_a_datagram_is_lost(explored: list[Outcome]) -> None:
    kept(Scope(M1_M2_M3, ticks=TICKS, losses=1), explored)


@pytest.mark.parametrize(("stability", "branching"), ROUNDS)
@pytest.mark.parametrize("relation", [(None,), (None, Predecessors((1,)))], ids=named)
def test_whatever_the_stability_protocol_every_run_keeps_its_promises(
    stability: str, branching: int, relation: Relation, explored: list[Outcome]
) -> None:
    """A round begins at any time, and its root, or a member on its way, crashes at any point; or
    one message of it is lost. STAB §2.1 leaves that out.
    """
    losses = 1 if len(relation) == 1 else 0
    scope = Scope(relation, stability=stability, branching=branching, ticks=1, losses=losses)
    assert kept(scope, explored).interleavings > 100


@pytest.mark.parametrize("relation", NAMED, ids=named)
def test_ssm_keeps_its_promises_in_every_run(relation: Relation, explored: list[Outcome]) -> None:
    """Sender reliability: whoever else crashes, messages of a correct sender come. SRM Figure 2."""
    kept(Scope(relation, reliability="sender", ticks=TICKS), explored)


def test_without_purging_it_is_plain_reliable_multicast(explored: list[Outcome]) -> None:
    """Nothing is replaced, so in the end everybody alive has everything that anybody alive has."""
    outcome = kept(Scope(M1_M2_M3, purging=False, ticks=TICKS), explored)
    for finals in outcome.finals:
        assert all(seqs == tuple(range(1, len(seqs) + 1)) for seqs in finals)


# -- what is caught -------------------------------------------------------------------------------


def test_one_crash_more_than_promised_is_found_to_break_completeness() -> None:
    """The run of SRM §4.3: m1 is purged for m3, which dies with its sender; m2 was delivered."""
    outcome = exhaust(BROKEN)
    assert "FIFO Completeness" in {one.property for one in outcome.violations}
    assert "p0 crashes" in "\n".join(outcome.transcript)


def test_a_found_run_is_the_same_every_time() -> None:
    first, again = (exhaust(BROKEN) for _ in range(2))
    assert first.transcript == again.transcript != []


def test_when_the_time_is_up_the_search_says_that_it_is_not_complete() -> None:
    outcome = exhaust(Scope(M1_M2_M3, ticks=3), seconds=0.5)
    assert not outcome.complete
    assert outcome.states > 0
    assert not outcome.violations


# -- the reductions -------------------------------------------------------------------------------


def test_there_are_35_ways_for_three_messages_to_replace_each_other() -> None:
    """Seven by names: the transitive relations that point back. Eight with keys. Ranks may also
    point forward.
    """
    assert (len(EVERY), len(set(EVERY)), len(NAMED)) == (35, 35, 7)
    assert [named(one) for one in relations(2)] == ["-, -", "-, 1", "a, a", "a0, a1", "a1, a0"]


@pytest.mark.parametrize("relation", [(None, None), (None, Predecessors((1,)))], ids=named)
def test_taking_equal_states_of_a_member_for_one_changes_nothing(relation: Relation) -> None:
    """Every history by itself gives the same ends, and as many interleavings."""
    merged = exhaust(Scope(relation, ticks=1, losses=1))
    apart = exhaust(Scope(relation, ticks=1, losses=1, merging=False))
    assert merged.complete
    assert apart.complete
    assert merged.finals == apart.finals
    assert merged.interleavings == apart.interleavings
    assert merged.states < apart.states


def member(seed: int) -> Member:
    config = MemberConfig()
    return Member(config, Source(1, 1), View.first([1, 2, 3], config.f), random.Random(seed))


def test_members_with_the_same_history_have_the_same_digest() -> None:
    digests = set()
    for _ in range(2):
        one = member(1)
        one.multicast(b"payload", "key", 5)
        one.datagrams(5)
        digests.add(digest(one.stats()) + digest(_without_random(one)))
    assert len(digests) == 1


def _without_random(one: Member) -> list[object]:
    """What a digest can look into: a `random.Random` is not among it."""
    return [getattr(one, name) for name in ("_sender", "_retained", "_waiting", "_answers")]


@pytest.mark.parametrize(
    ("payload", "key", "now_ns"),
    [(b"Payload", "key", 5), (b"payload", "kez", 5), (b"payload", "key", 6)],
)
def test_any_difference_shows_in_the_digest(payload: bytes, key: str, now_ns: int) -> None:
    one, other = member(1), member(1)
    one.multicast(b"payload", "key", 5)
    other.multicast(payload, key, now_ns)
    assert digest(_without_random(one)) != digest(_without_random(other))


def test_sharing_is_part_of_the_digest() -> None:
    """Two lists that are one will change together; equal ones will not."""
    shared: list[int] = []
    assert digest([shared, shared]) != digest([[], []])


def test_arrays_are_looked_into() -> None:
    """Round trackers hold arrays, and which of them are one matters there too."""
    one = np.array([1, 2])
    assert digest([one]) == digest([np.array([1, 2])]) != digest([np.array([1, 3])])
    assert digest([one, one]) != digest([one, one.copy()])


def test_what_a_digest_cannot_look_into_it_refuses() -> None:
    with pytest.raises(TypeError, match="cannot look into"):
        digest(iter([1]))
