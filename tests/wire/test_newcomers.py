"""Sources that were never heard cost so many key derivations a second, and those that were none."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.test_seal import FRAMES, GROUP, OTHER_SECRET, SECRET, SOURCE, sealer_for

from semcast.errors import SealError
from semcast.ids import Source
from semcast.wire.header import AES_256_GCM, CHACHA20_POLY1305, HEADER_BYTES
from semcast.wire.keys import Keyring
from semcast.wire.newcomers import (
    EXPECTED_BURST,
    EXPECTED_PER_S,
    OTHERS_BURST,
    OTHERS_PER_S,
    Budget,
    Newcomers,
)
from semcast.wire.opener import Opener
from semcast.wire.seal import Sealer

SECOND_NS = 1_000_000_000
FLOOD = 20_000


def forged(source: Source, packet: int = 1, suite: int = AES_256_GCM, key_id: int = 1) -> bytes:
    head = struct.pack(
        "<BBHQQQQ", 1, suite, key_id, GROUP, source.sender, source.incarnation, packet
    )
    return head + bytes(100)


def made(newcomers: Newcomers, keys: Keyring | None = None) -> Opener:
    return Opener(GROUP, keys or Keyring(SECRET), newcomers=newcomers)


@given(
    per_s=st.integers(1, 10**6),
    burst=st.integers(1, 1000),
    waits=st.lists(st.integers(0, 10**10) | st.integers(0, 1 << 62), max_size=30),
)
def test_a_budget_gives_no_more_than_its_burst_and_what_time_brings(
    per_s: int, burst: int, waits: list[int]
) -> None:
    budget = Budget(per_s, burst)
    passed_ns = spent = 0
    for wait_ns in waits:
        budget.refill(wait_ns)
        passed_ns += wait_ns
        at_once = 0
        while at_once <= burst and budget.spend():
            at_once += 1
        assert at_once <= burst
        spent += at_once
    assert spent <= burst + passed_ns // (SECOND_NS // per_s)


def test_a_budget_that_was_spent_is_there_again_when_its_time_has_passed() -> None:
    budget = Budget(10, 3)
    assert [budget.spend() for _ in range(5)] == [True, True, True, False, False]
    budget.refill(SECOND_NS // 10)
    assert [budget.spend(), budget.spend()] == [True, False]
    budget.refill(100 * SECOND_NS)
    assert [budget.spend() for _ in range(4)] == [True, True, True, False]


def test_a_clock_that_goes_back_brings_nothing() -> None:
    newcomers = Newcomers()
    newcomers.refill(5 * SECOND_NS)
    while newcomers.may_cost(1):
        pass
    for now_ns in (4 * SECOND_NS, 0, 5 * SECOND_NS):
        newcomers.refill(now_ns)
        assert not newcomers.may_cost(1)
    newcomers.refill(6 * SECOND_NS)
    assert newcomers.may_cost(1)


def test_unknown_senders_cost_a_small_budget_and_leave_that_of_expected_ones_alone() -> None:
    newcomers = Newcomers()
    newcomers.expect({SOURCE.sender})
    opener = made(newcomers)
    for at in range(FLOOD):
        newcomers.refill(at * SECOND_NS // FLOOD)
        assert opener.try_open(forged(Source(1000 + at, 1))) is None
    assert opener.derived <= OTHERS_BURST + OTHERS_PER_S
    assert opener.refused["tag"] == opener.derived
    assert opener.refused["unknown"] == FLOOD - opener.derived
    # The member comes when the flood has spent all that was there for others.
    assert opener.open(sealer_for(AES_256_GCM).seal(FRAMES)).frames == FRAMES


def test_made_up_lives_of_a_member_are_bounded_and_the_life_that_is_known_goes_on() -> None:
    newcomers = Newcomers()
    newcomers.expect({SOURCE.sender})
    opener, sealer = made(newcomers), sealer_for(AES_256_GCM)
    opener.open(sealer.seal(FRAMES))
    for at in range(FLOOD):
        newcomers.refill(at * SECOND_NS // FLOOD)
        life = SOURCE.incarnation + 1 + at
        assert opener.try_open(forged(Source(SOURCE.sender, life))) is None
        if at % 100 == 0:
            assert opener.open(sealer.seal(FRAMES)).frames == FRAMES
    assert opener.derived <= 1 + EXPECTED_BURST + EXPECTED_PER_S
    later = sealer_for(AES_256_GCM, Source(SOURCE.sender, SOURCE.incarnation + 1))
    with pytest.raises(SealError, match="more such came than are looked at"):
        opener.open(later.seal(FRAMES))
    newcomers.refill(SECOND_NS + SECOND_NS // EXPECTED_PER_S)
    assert opener.open(later.seal(FRAMES)).frames == FRAMES


def test_as_long_as_nobody_is_expected_everybody_shares_the_larger_budget() -> None:
    newcomers = Newcomers()
    opener = made(newcomers)
    for sender in range(FLOOD):
        opener.try_open(forged(Source(sender, 1)))
    assert opener.derived == EXPECTED_BURST


@pytest.mark.parametrize("suite", [AES_256_GCM, CHACHA20_POLY1305])
def test_mutations_of_a_known_life_cost_a_key_for_each_suite_and_installed_key(suite: int) -> None:
    keys = Keyring(SECRET)
    keys.install(2, OTHER_SECRET)
    opener, sealer = made(Newcomers(), keys), Sealer(GROUP, SOURCE, keys, suite)
    opener.open(sealer.seal(FRAMES))
    for at in range(FLOOD):
        one = forged(SOURCE, 2 + at, 1 + at % 2, 1 + at // 2 % 2)
        assert opener.try_open(one) is None
    assert opener.derived == 2 * 2
    assert len(opener._known) == 2 * 2
    assert opener.open(sealer.seal(FRAMES)).frames == FRAMES


def test_after_a_change_of_key_known_lives_open_though_the_budget_is_spent() -> None:
    newcomers, keys = Newcomers(), Keyring(SECRET)
    opener, sealer = made(newcomers, keys), Sealer(GROUP, SOURCE, keys)
    opener.open(sealer.seal(FRAMES))
    while newcomers.may_cost(0):
        pass
    keys.install(2, OTHER_SECRET)
    for key_id in (1, 2, 1):
        keys.use(key_id)
        assert opener.open(sealer.seal(FRAMES)).header.key_id == key_id


def test_to_ask_whether_a_replay_is_genuine_costs_no_key_if_its_source_is_known() -> None:
    opener, sealer = made(Newcomers()), sealer_for(AES_256_GCM)
    datagram = sealer.seal(FRAMES)
    opener.open(datagram)
    assert opener.derived == 1
    for _ in range(5):
        assert opener.try_open(datagram) is None
        assert opener.why == "seen"
        assert opener.authentic(datagram)
        assert not opener.authentic(datagram[:HEADER_BYTES] + bytes(len(datagram) - HEADER_BYTES))
    assert opener.derived == 1
