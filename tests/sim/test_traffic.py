"""Traffic: what each generator makes is profiled and compared with its closed form."""

import random
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.obsolescence.naive_profiler import Profile, Profiler

from semcast.errors import ConfigError, InputError
from semcast.model.purge import DistancePmf, GeometricMixture, f_rd, from_classes
from semcast.obsolescence import Keys, Ranked
from semcast.sim.traffic import (
    SECOND_NS,
    Chains,
    Game,
    Item,
    Overwrites,
    Replay,
    Trading,
    Traffic,
    of_sender,
)

MESSAGES = 40_000
GENERATORS: list[Traffic] = [
    Overwrites(r=0.6, d=4),
    Overwrites(gaps="exponential"),
    Trading(),
    Game(),
    Game(gaps="constant"),
    Chains(),
]


def drawn(traffic: Traffic, count: int = MESSAGES, senders: int = 1, seed: int = 1) -> list[Item]:
    return list(islice(traffic.items(random.Random(f"{seed}/traffic"), senders), count))


def profiled(items: list[Item]) -> Profile:
    profiler = Profiler()
    for item in items:
        name = item.replaces.key if isinstance(item.replaces, Ranked) else item.replaces
        assert name is None or isinstance(name, str | bytes)
        profiler.add(name)
    return profiler.profile()


def assert_follows(profile: Profile, expected: DistancePmf) -> None:
    """P(D = x) for each small x, and its running sum at some larger ones."""
    for x in range(15):
        assert profile.pmf.get(x, 0.0) == pytest.approx(expected.mass(x), abs=0.006)
    for n in (10, 20, 30, 60, 200):
        assert profile.share_within(n) == pytest.approx(expected.cumulative(n), abs=0.01)


@pytest.mark.parametrize(("r", "d"), [(0.5, 1), (0.5, 5), (0.25, 1), (1.0, 20), (0.0, 3)])
def test_overwrites_follow_equation_3(r: float, d: int) -> None:
    """SRM §6.1"""
    assert_follows(profiled(drawn(Overwrites(r=r, d=d))), f_rd(r, d))


@pytest.mark.parametrize(
    "traffic",
    [Overwrites(r=0.5, d=1, several=0.4), Trading(stocks=(5,), shares=(1.0,), several=0.4)],
)
def test_so_many_of_the_messages_that_replace_are_about_several_keys(traffic: Traffic) -> None:
    stream = random.Random("several")
    said = [item.replaces for item in islice(traffic.items(stream), 4_000)]
    several = [one.names for one in said if isinstance(one, Keys)]
    assert len(several) / sum(one is not None for one in said) == pytest.approx(0.4, abs=0.03)
    assert all(len(set(names)) == len(names) for names in several)
    assert {len(names) for names in several} == {2, 3}
    # Each key alone too.
    assert {name for names in several for name in names} & {
        one for one in said if isinstance(one, str)
    }


def test_quotes_follow_the_printed_classes_of_stocks() -> None:
    """OBS §5.2, table 1. What is never replaced is the last quote of each stock."""
    profile = profiled(drawn(Trading()))
    expected = from_classes([(25, 0.5), (100, 0.4), (750, 0.1)])
    for n, printed in ((10, 0.11), (20, 0.20), (30, 0.27)):
        assert profile.share_within(n) == pytest.approx(expected.cumulative(n), abs=0.006)
        assert round(profile.share_within(n), 2) == pytest.approx(printed, abs=0.01)
    assert profile.never_obsolete <= 875


def test_the_game_has_the_printed_share_that_is_never_obsolete() -> None:
    """41.88%, with 1.39 updates a round to two digits. SRM §7.1"""
    items = drawn(Game())
    assert profiled(items).share_never_obsolete == pytest.approx(0.4188, abs=0.003)
    reliable = sum(item.replaces is None for item in items)
    assert (len(items) - reliable) / reliable == pytest.approx(1.39, abs=0.01)


def test_related_messages_of_the_game_are_often_within_ten_of_each_other() -> None:
    """Figure 9(b). SRM §7.1"""
    profile = profiled(drawn(Game()))
    assert profile.share_within(10) > 0.8 * profile.share_within(MESSAGES)


def test_the_game_sends_its_rounds_together_and_its_updates_have_52_bytes() -> None:
    """Reliable messages are smaller, mostly below 32 bytes. SRM §7.1"""
    items = drawn(Game())
    for item in items:
        assert (item.gap_ns == round(SECOND_NS / 30)) == (item.replaces is None)
        assert item.size_bytes == 52 if item.replaces else 1 <= item.size_bytes <= 32
    elapsed_s = sum(item.gap_ns for item in items) / SECOND_NS
    assert len(items) / elapsed_s == pytest.approx(71.7, abs=0.3)
    assert Game().rate_msg_s == pytest.approx(71.64)


def test_an_item_of_the_game_changes_once_a_round() -> None:
    changed: set[object] = set()
    for item in drawn(Game(entities=3, updates_per_round=2.5)):
        if item.replaces is None:
            changed.clear()
        else:
            assert item.replaces not in changed
            changed.add(item.replaces)


@pytest.mark.parametrize(
    ("ratio", "diversity", "length"), [(1.0, 5, 10), (0.5, 5, 10), (1.0, 1, 1), (0.8, 20, 5)]
)
@pytest.mark.parametrize("senders", [1, 50])
def test_chains_end_at_their_length_and_then_begin_anew(
    ratio: float, diversity: int, length: int, senders: int
) -> None:
    """All but the first of a chain replace; all but the last are replaced. PSRM §4.2"""
    profile = profiled(
        drawn(Chains(ratio=ratio, diversity=diversity, length=length), MESSAGES, senders)
    )
    related = ratio * (1 - 1 / length)
    mixture = GeometricMixture(((related, ratio / diversity),))
    assert_follows(profile, mixture)
    assert profile.share_never_obsolete == pytest.approx(1 - related, abs=0.01)


def test_chains_across_senders_are_ranked_in_the_order_of_making() -> None:
    """Bitmaps look back along one source only. PSRM §2.4"""
    items = drawn(Chains(), 2000, senders=50)
    assert {item.sender for item in items} == set(range(50))
    assert [item.replaces.rank for item in items if isinstance(item.replaces, Ranked)] == list(
        range(1, 2001)
    )
    assert all(isinstance(item.replaces, str) for item in drawn(Chains(), 100))


def test_the_parts_of_a_shared_stream_add_up_to_it_in_time_and_in_content() -> None:
    whole = drawn(Chains(gaps="exponential"), 500, senders=3)
    merged = []
    for sender in range(3):
        now_ns = 0
        for item in of_sender(iter(whole), sender):
            now_ns += item.gap_ns
            merged.append((now_ns, item.replaces))
    now_ns, expected = 0, []
    for item in whole:
        now_ns += item.gap_ns
        expected.append((now_ns, item.replaces))
    assert sorted(merged, key=lambda pair: pair[0]) == expected


@pytest.mark.parametrize(
    "traffic", GENERATORS, ids=lambda traffic: f"{traffic.kind}-{traffic.gaps}"
)
def test_the_mean_rate_is_the_one_asked_for(traffic: Traffic) -> None:
    items = drawn(traffic)
    elapsed_s = sum(item.gap_ns for item in items) / SECOND_NS
    assert traffic.rate_msg_s is not None
    assert len(items) / elapsed_s == pytest.approx(traffic.rate_msg_s, rel=0.02)


def test_exponential_gaps_spread_as_much_as_their_mean() -> None:
    """OBS §5.3"""
    gaps = [item.gap_ns for item in drawn(Trading(rate_msg_s=100))]
    mean = sum(gaps) / len(gaps)
    deviation = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert deviation == pytest.approx(mean, rel=0.03)
    assert len({item.gap_ns for item in drawn(Overwrites(), 100)}) == 1


@pytest.mark.parametrize(
    "traffic", GENERATORS, ids=lambda traffic: f"{traffic.kind}-{traffic.gaps}"
)
def test_a_seed_repeats_a_stream_and_another_does_not(traffic: Traffic) -> None:
    assert drawn(traffic, 200) == drawn(traffic, 200)
    assert drawn(traffic, 200) != drawn(traffic, 200, seed=2)


# -- replay --------------------------------------------------------------------------------------

HEADING = "time_s,sender,key,kind,size\n"
ROWS = "5,x,a,q,10\n5.5,y,b,q,20\n7,x,,t,\n7,z,a,q,0\n"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(HEADING + ROWS)
    return path


def test_a_replay_keeps_keys_sizes_and_gaps(trace: Path) -> None:
    assert drawn(Replay(file=str(trace), size_bytes=7)) == [
        Item(0, 10, "a", 0),
        Item(SECOND_NS // 2, 20, "b", 0),
        Item(3 * SECOND_NS // 2, 7, None, 0),
        Item(0, 0, "a", 0),
    ]


def test_a_replay_runs_at_another_speed_or_at_a_rate_of_its_own(trace: Path) -> None:
    faster = drawn(Replay(file=str(trace), speed=10))
    assert [item.gap_ns for item in faster] == [0, SECOND_NS // 20, 3 * SECOND_NS // 20, 0]
    paced = drawn(Replay(file=str(trace), rate_msg_s=50))
    assert [item.gap_ns for item in paced] == [SECOND_NS // 50] * 4
    assert [item.replaces for item in paced] == ["a", "b", None, "a"]


def test_a_replay_deals_the_senders_of_the_trace_out_to_ours(trace: Path) -> None:
    assert [item.sender for item in drawn(Replay(file=str(trace)), senders=2)] == [0, 1, 0, 0]


@pytest.mark.parametrize("content", ["key\na\n", HEADING + "1,x,a,q,1\n0,x,a,q,1\n"])
def test_a_trace_without_times_or_with_bad_ones_is_not_replayed(
    content: str, tmp_path: Path
) -> None:
    """What else can be bad: tests/sim/test_trace.py."""
    path = tmp_path / "bad.csv"
    path.write_text(content)
    with pytest.raises(InputError, match="time_s"):
        drawn(Replay(file=str(path)))


# -- settings --------------------------------------------------------------------------------------


@given(st.floats(allow_nan=True).filter(lambda r: not 0 <= r <= 1))
def test_a_share_outside_its_range_is_refused_with_its_value(r: float) -> None:
    with pytest.raises(ConfigError, match=r"r is .*; it goes from 0 to 1"):
        Overwrites(r=r)


@pytest.mark.parametrize(
    ("named", "settings"),
    [
        ("stocks", {"stocks": (1, 2)}),
        ("shares", {"shares": (0.5, 0.4, 0.2)}),
        ("gaps", {"gaps": "steady"}),
        ("rate_msg_s", {"rate_msg_s": 0.0}),
    ],
)
def test_settings_that_make_no_sense_are_refused(named: str, settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=named):
        Trading(**settings)  # type: ignore[arg-type]
