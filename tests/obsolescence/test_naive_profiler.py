"""The profiler counts D, the distance to the latest message replaced. SRM §5.1, OBS §4.5"""

import csv
import gzip
import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.obsolescence.naive_profiler import Profile, Profiler

from semcast.errors import LocalProtocolError

keyed = st.lists(st.none() | st.sampled_from("abc"), max_size=60)


def brute_distances(keys: list[str | None]) -> list[int]:
    """D of each message by looking back; 0 when there is nothing to find."""
    found = []
    for at, key in enumerate(keys):
        same = [at - old for old in range(at) if key is not None and keys[old] == key]
        found.append(min(same, default=0))
    return found


@given(keyed)
def test_d_is_the_distance_to_the_last_message_of_the_key(keys: list[str | None]) -> None:
    profiler = Profiler()
    expected = brute_distances(keys)
    assert [profiler.add(key) for key in keys] == expected
    profile = profiler.profile()
    assert profile.messages == len(keys)
    assert profile.counts == {x: expected.count(x) for x in set(expected)}


@given(keyed)
def test_keys_and_the_distances_they_mean_give_one_profile(keys: list[str | None]) -> None:
    by_distance = Profiler()
    for at, key in enumerate(keys):
        same = [at - old for old in range(at) if key is not None and keys[old] == key]
        assert by_distance.add_distances(same) == min(same, default=0)
    assert by_distance.profile() == Profiler().add_many(keys).profile()


@given(keyed)
def test_never_obsolete_is_what_no_later_message_replaces(keys: list[str | None]) -> None:
    profile = Profiler().add_many(keys).profile()
    last = [key is None or key not in keys[at + 1 :] for at, key in enumerate(keys)]
    assert profile.never_obsolete == sum(last)
    if keys:
        assert profile.share_never_obsolete == pytest.approx(sum(last) / len(keys))


@given(keyed.filter(bool), st.integers(0, 70))
def test_the_distribution_is_one(keys: list[str | None], distance: int) -> None:
    profile = Profiler().add_many(keys).profile()
    assert math.fsum(profile.pmf.values()) == pytest.approx(1)
    assert list(profile.pmf) == sorted(profile.pmf)
    assert profile.share_within(distance) == pytest.approx(
        math.fsum(mass for x, mass in profile.pmf.items() if 1 <= x <= distance)
    )
    # Each message is obsolete once at most, and by keys each one obsoletes at most one afresh.
    assert profile.share_within(len(keys)) == pytest.approx(1 - profile.share_never_obsolete)


def test_nothing_profiled_is_a_profile_of_nothing() -> None:
    profile = Profiler().profile()
    assert profile == Profile(0, {}, 0)
    assert (profile.pmf, profile.share_never_obsolete, profile.share_within(9)) == ({}, 0, 0)


@pytest.mark.parametrize("distance", [0, -1, 3])
def test_a_distance_to_no_message_is_refused_and_changes_nothing(distance: int) -> None:
    profiler = Profiler().add_many(["a", "b"])
    before = profiler.profile()
    with pytest.raises(LocalProtocolError, match=f"cannot replace one {distance} before it"):
        profiler.add_distances([1, distance])
    assert profiler.profile() == before
    assert profiler.add("a") == 2


# -- real traces, where they are ------------------------------------------------------------------

TRACES = Path(__file__).parents[2].parent / "shared" / "traces"
FOUND = sorted(path.name.removesuffix(".csv.gz") for path in TRACES.glob("*.csv.gz"))


def figure(note: str, row: str) -> list[float]:
    """The numbers in the second column of a row of the note that stands beside a trace."""
    line = next(line for line in note.splitlines() if line.startswith(f"| {row}"))
    text = line.split("|")[2].replace(",", "").replace("*", "")
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", text)]


def quantile(counts: dict[int, int], share: float) -> float:
    """The distance that this share of the messages which replace one do not exceed."""
    every = [x for x in sorted(counts) if x > 0 for _ in range(counts[x])]
    place = share * (len(every) - 1)
    low, high = every[math.floor(place)], every[math.ceil(place)]
    return low + (high - low) * (place - math.floor(place))


@pytest.mark.skipif(not FOUND, reason="the real traces are not beside this folder")
@pytest.mark.parametrize("name", FOUND)
def test_real_traces_have_the_figures_of_their_notes(name: str) -> None:
    """Against the table in the .md beside each trace: rows, never superseded, distances, R(n)."""
    note = (TRACES / f"{name}.md").read_text()
    with gzip.open(TRACES / f"{name}.csv.gz", "rt", newline="") as rows:
        profile = Profiler().add_many(row["key"] or None for row in csv.DictReader(rows)).profile()
    assert profile.messages == figure(note, "rows")[0]
    never = figure(note, "**never superseded in all")[0]
    assert 100 * profile.share_never_obsolete == pytest.approx(never, abs=0.006)
    p50, p90, p99, largest = figure(note, "**obsolescence distance")
    assert max(profile.counts) == largest
    for share, expected in ((0.5, p50), (0.9, p90), (0.99, p99)):
        assert round(quantile(profile.counts, share)) == expected
    shares = figure(note, "share of ALL messages superseded within")
    for distance, expected in zip((15, 30, 64, 128, 256, 1024), shares, strict=True):
        assert 100 * profile.share_within(distance) == pytest.approx(expected, abs=0.06)
