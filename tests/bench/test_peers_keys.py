"""Many keys in `make bench-peers`: which come when, how long a run takes, what one turn is."""

import io
import json
from collections import Counter
from typing import Any

import pytest
from bench.peers import case as cases
from bench.peers import payload
from bench.peers.__main__ import _arguments, _keys_of, main
from bench.peers.adapters.semcast import PEER as SEMCAST
from bench.peers.api import SLOW_READER, Variant
from bench.peers.judge import requirements
from bench.peers.outcome import figures
from bench.peers.plan import ADAPTERS, Row, Step, cases_of, entries, perform, steps_of
from bench.peers.receiving import Aging
from bench.peers.show import absences, show
from bench.peers.trial import Facts
from rich.console import Console
from tests.bench.peer_rows import facts, row, slow

from semcast.live.config import GroupConfig

TURN = "age of a key's value beside one turn of the slow reader, p99 in ms"
AGE = "age of a key's value at the slow reader, {} in ms"
# The first keys of the usual pattern, as every run so far had them.
FIFTY = [-1, 20, 29, 35, 10, 0, 42, 2, -1, 35, 43, 33]
BY_KEY: dict[str, Any] = {"options": {"order": "key"}}


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        ([], [50]),
        (["--keys", "50,2000,20000"], [50, 2_000, 20_000]),
        (["--keys", "2000", "--keys", "50"], [2_000, 50]),
        (["--keys", "50, 2000", "--keys", "50"], [50, 2_000]),
    ],
)
def test_keys_are_given_with_commas_or_one_by_one_and_count_once(
    words: list[str], keys: list[int]
) -> None:
    assert _keys_of(_arguments(words)) == keys


@pytest.mark.parametrize("word", ["0", "x", "-5", "", "50,", "2.5", "100001", "9" * 5_000])
def test_a_number_of_keys_that_makes_no_sense_is_one_clear_line(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--keys", word])
    assert stopped.value.code == 2
    assert "--keys has" in capsys.readouterr().err.splitlines()[-1]


def test_the_help_says_that_a_run_with_many_keys_is_longer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "28 for 20000" in said


def test_fifty_keys_come_as_they_always_did() -> None:
    pattern = payload.KeyPattern(0.1)
    assert len(pattern) == 9_973
    assert [pattern.key(seq) for seq in range(12)] == FIFTY
    assert [pattern.key(9_973 + seq) for seq in range(12)] == FIFTY


@pytest.mark.parametrize("keys", [1, 50, 51, 2_000, 20_000])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_every_key_comes_and_has_a_name_of_its_own(keys: int, share: float) -> None:
    pattern = payload.KeyPattern(share, keys)
    came = {pattern.key(seq) for seq in range(len(pattern))} - {payload.UNREPLACED}
    assert came == set(range(keys))
    assert len(set(pattern.names)) == keys


@pytest.mark.parametrize("keys", [2_000, 20_000])
def test_many_keys_come_in_turns_each_in_an_order_of_its_own(keys: int) -> None:
    pattern = payload.KeyPattern(0.1, keys)
    dealt = [k for k in map(pattern.key, range(len(pattern))) if k != payload.UNREPLACED]
    first, second = dealt[:keys], dealt[keys : 2 * keys]
    assert set(first) == set(second) == set(range(keys))
    assert len(dealt) % keys == 0, "where it begins again, too, nobody is left out"
    assert first != second
    assert first != sorted(first)
    # Within a run that is as long as the number of keys asks for, nobody is left out.
    (case,) = (c for c in cases_of([SLOW_READER], shares=[0.1], keys=[keys]) if c.slow)
    sent = Counter(pattern.key(seq) for seq in range(case.messages_max))
    assert min(sent[key] for key in range(keys)) >= 2


def test_a_pattern_in_which_nearly_nothing_is_replaced_still_ends() -> None:
    assert len(payload.KeyPattern(0.999, 2_000)) == 4 * 8 * 2_000
    assert {payload.KeyPattern(1.0, 2_000).key(seq) for seq in range(100)} == {payload.UNREPLACED}


@pytest.mark.parametrize(("keys", "seconds"), [(50, 10.0), (2_000, 10.0), (20_000, 28.0)])
def test_a_run_is_as_long_as_its_keys_need_if_nobody_says_how_long(
    keys: int, seconds: float
) -> None:
    assert {c.seconds for c in cases_of([SLOW_READER], keys=[keys])} == {seconds}
    assert {c.seconds for c in cases_of([SLOW_READER], keys=[keys], seconds=3)} == {3}


@pytest.mark.parametrize("keys", [50, 2_000, 20_000, 100_000])
@pytest.mark.parametrize("seconds", [None, 1.0])
def test_the_slow_reader_gets_the_time_to_take_a_value_of_every_key(
    keys: int, seconds: float | None
) -> None:
    for case in cases_of([SLOW_READER], keys=[keys], seconds=seconds):
        waiting = min(case.messages_max, keys + case.unreplaced_share * case.messages_max)
        assert case.drain_s >= 1.2 * waiting * cases.SLOW_NS / 1e9
        assert case.drain_s >= 2 * keys * cases.SLOW_NS / 1e9


def test_there_is_a_case_for_each_number_of_keys_and_its_name_tells() -> None:
    found = cases_of([SLOW_READER], shares=[0.1], keys=[50, 2_000])
    assert [(c.keys, c.slow) for c in found] == [
        (50, False), (50, True), (2_000, False), (2_000, True),
    ]  # fmt: skip
    assert found[1].name == "10% never replaced, one slow reader"
    assert found[3].name == "10% never replaced over 2,000 keys, one slow reader"
    # A worker gets its case as JSON.
    assert cases.Case(**json.loads(json.dumps(found[3].to_json()))) == found[3]


def test_what_waited_is_what_was_taken_after_the_sender_had_stopped() -> None:
    record = Aging(keys=1, messages_max=10)
    for seq, now_ns in ((0, 10), (1, 20), (2, 30), (2, 31), (3, 40)):
        record.add([payload.pack(seq, 0, payload.UNREPLACED, 64)], now_ns)
    record.add([payload.pack(payload.WARM_UP, 0, payload.UNREPLACED, 64)], 50)
    assert record.found(stopped_ns=20)["unreplaced_waited"] == 2
    found = record.found(stopped_ns=None)
    assert (found["unreplaced"], found["unreplaced_waited"]) == (4, 0)


def test_a_stale_key_is_noticed_however_many_there_are() -> None:
    keys = 20_000
    record = Aging(keys, messages_max=2 * keys)
    for key in range(keys):
        record.add([payload.pack(key, 0, key, 64)], key)
    had = record.found(None)["last"]
    made = facts(2 * keys, (2 * keys, 2 * keys), last=had)
    made.sender["last"] = [*had[:-3], *((key, seq + keys) for key, seq in had[-3:])]
    case = cases.slow_reader(0.1, True, 10.0, keys)
    assert figures(case, made)["slow_stale_keys"] == 3


def test_one_turn_is_all_that_waits_times_what_the_reader_needs_for_each() -> None:
    case = cases.slow_reader(0.1, True, 1.0)
    # 2 keys and 3 that are never replaced wait; 41 messages took 2 s, so one took 50 ms.
    made = facts(2_500, (2_500, 41))
    assert figures(case, made)["slow_turn_ms"] == pytest.approx(5 * 50)
    made.receivers[-1]["count"] = 0
    made.receivers[-1]["last_ns"] = made.receivers[-1]["first_ns"]
    assert figures(case, made)["slow_turn_ms"] == 0
    alone = cases.slow_reader(0.1, False, 1.0)
    assert figures(alone, made)["slow_turn_ms"] is None


def test_the_table_shows_one_turn_beside_the_ages() -> None:
    case = cases.slow_reader(0.1, True, 1.0, keys=2_000)
    found = figures(case, facts(2_500, (2_500, 41)))
    text = io.StringIO()
    show(Console(file=text, width=250), [row(case, "semcast", "semcast fifo", found)], [])
    for part in ("over 2,000 keys", "one turn ms", "250"):
        assert part in text.getvalue()


def judged(ours_ms: float, theirs_ms: float, keys: int) -> dict[tuple[str, str], bool | None]:
    case, alone = (cases.slow_reader(0.1, is_slow, 1.0, keys) for is_slow in (True, False))
    other = cases.slow_reader(0.1, False, 1.0, keys + 1)
    rows = [
        row(case, "semcast", "semcast key", slow(ours_ms), **BY_KEY),
        row(alone, "semcast", "semcast key", slow(1.0, fast_us=70.0), **BY_KEY),
        # Measured with other keys, so it says nothing here.
        row(other, "semcast", "semcast key", slow(1.0, fast_us=1.0), **BY_KEY),
        row(case, "dds", "DDS KEEP_LAST(1)", slow(theirs_ms, lost=1)),
        row(case, "nats", "NATS JetStream", slow(5.0)),
    ]
    return {(o.name.split(": semcast key, ")[1], o.bound): o.met for o in requirements(rows)}


@pytest.mark.parametrize("keys", [50, 2_000, 20_000])
def test_values_must_be_younger_than_those_of_dds_with_any_number_of_keys(keys: int) -> None:
    bound = "lower than DDS KEEP_LAST(1)"
    for which in ("p50", "p99"):
        assert judged(20, 21, keys)[AGE.format(which), bound] is True
        assert judged(20, 20, keys)[AGE.format(which), bound] is False


def test_beside_every_peer_that_loses_nothing_only_the_usual_keys_are_judged() -> None:
    every = (AGE.format("p99"), "lower than every peer that loses nothing")
    assert judged(4, 100, 50)[every] is True
    assert judged(20, 100, 50)[every] is False
    assert every not in judged(20, 100, 2_000)


@pytest.mark.parametrize("keys", [50, 20_000])
def test_the_oldest_values_wait_no_longer_than_one_turn_and_a_half(keys: int) -> None:
    bound = "at most 1.5× one turn"
    assert judged(30.0, 100, keys)[TURN, bound] is True
    assert judged(30.1, 100, keys)[TURN, bound] is False


def test_the_rate_losses_stale_keys_and_memory_are_judged_with_many_keys_too() -> None:
    case = cases.slow_reader(0.1, True, 1.0, 20_000)
    good = {**slow(1.0), "slow_rss_growth_share": 0.0}
    bad = {
        "kept_share": 0.98,
        "slow_unreplaced_lost": 1,
        "fast_unreplaced_lost": 1,
        "slow_stale_keys": 1,
        "sender_rss_growth_share": 0.11,
        "slow_rss_growth_share": 0.11,
    }
    for key, value in bad.items():
        for found, missed in ((good, 0), ({**good, key: value}, 1)):
            every = requirements([row(case, "semcast", "semcast fifo", found)])
            assert [one.met for one in every].count(False) == missed
            assert all(one.name.startswith("10% never replaced over 20,000 keys") for one in every)


def test_without_a_turn_or_dds_nothing_is_said() -> None:
    case = cases.slow_reader(0.1, True, 1.0, 2_000)
    for found in (None, {**slow(1.0), "slow_turn_ms": None}):
        every = {o.name: o.met for o in requirements([row(case, "semcast", "s", found, **BY_KEY)])}
        assert every[f"10% never replaced over 2,000 keys: s, {TURN}"] is None
        assert every[f"10% never replaced over 2,000 keys: s, {AGE.format('p50')}"] is None


def test_what_cannot_hold_the_keys_is_left_out_and_the_page_says_why() -> None:
    who = entries(ADAPTERS, ["small buffer"])
    work = cases_of([SLOW_READER], shares=[0.1], keys=[50, 2_000])
    steps = steps_of(work, who, rounds=1)
    ran: list[int] = []

    def run(one: Row) -> Facts:
        ran.append(one.case.keys)
        return facts(2_500, (2_500, 41))

    def before(step: Step) -> None:
        pass

    perform(steps, run, {}, before)
    rows = [step.row for step in steps]
    assert ran == [50, 50]
    assert absences(rows) == [
        "semcast key, small buffer: its buffers of 256 messages cannot hold 2,000 keys"
    ]
    assert not [one for one in requirements(rows) if "2,000 keys" in one.name]


def _of_slow_reader() -> list[Variant]:
    return [v for v in SEMCAST.variants if SLOW_READER in v.workloads]


def test_semcast_replaces_by_key_as_it_comes_and_its_usual_buffers_hold_20000_keys() -> None:
    held = {v.name: v.keys_max for v in _of_slow_reader()}
    assert held == {
        "semcast fifo": 32_768,
        "semcast key": 32_768,
        "semcast key, large buffer": 65_536,
        "semcast key, small buffer": 256,
    }
    for variant in _of_slow_reader():
        assert not {"k", "replacement"} & set(variant.options)


def test_the_usual_buffer_is_the_one_that_a_group_has_by_default() -> None:
    (fifo,) = (v for v in _of_slow_reader() if v.name == "semcast fifo")
    config = GroupConfig("bench", name="a", insecure=True, members=("a", "b"))
    assert (config.delivery_messages, config.window_messages) == (fifo.keys_max,) * 2
    assert config.replacement == "key"
