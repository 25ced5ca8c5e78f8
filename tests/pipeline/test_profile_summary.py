"""Counts into figures: quantiles, skew and bursts against looking at every number. No Spark."""

import math
import random
from collections import Counter

import numpy as np
import pytest

from semcast.pipeline.profiling.summary import Histogram, TrafficProfile
from semcast.pipeline.profiling.tables import as_json, tables


def profile_of(
    distances: dict[int, int] | None = None,
    keys_with: dict[int, int] | None = None,
    messages: int = 100,
) -> TrafficProfile:
    keys = keys_with or {}
    return TrafficProfile(
        "made", per_sender=True, window_s=1.0, messages=messages,
        distances=Histogram(distances or {}, max(distances or {0: 0})),
        keys_with=Histogram(keys, max(keys, default=0)),
        windows_with=Histogram({}), sizes=Histogram({}), senders=1,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_figures_of_a_histogram_are_those_of_its_numbers(seed: int) -> None:
    draw = random.Random(f"histogram/{seed}")
    numbers = [int(draw.paretovariate(1)) for _ in range(draw.randrange(1, 400))]
    found = Histogram(Counter(numbers), max(numbers))
    for share in (0.0, 0.5, 0.9, 0.99, 1.0):
        assert found.quantile(share) == pytest.approx(float(np.quantile(numbers, share)))
    assert found.mean == pytest.approx(float(np.mean(numbers)))
    assert found.dispersion() == pytest.approx(float(np.var(numbers) / np.mean(numbers)))


def test_nothing_seen_has_no_figures() -> None:
    nothing = Histogram({})
    assert (nothing.quantile(0.5), nothing.mean, nothing.dispersion()) == (0, 0, None)
    json = as_json(profile_of())
    assert json["distance_messages"] == dict.fromkeys(("mean", "p50", "p90", "p99", "max"))
    assert json["never_replaced_share"] == 1


@pytest.mark.parametrize("seed", range(3))
def test_gini_is_half_the_mean_difference_over_the_mean(seed: int) -> None:
    draw = random.Random(f"gini/{seed}")
    each = [int(draw.paretovariate(1)) for _ in range(60)]
    pairs = math.fsum(abs(a - b) for a in each for b in each)
    expected = pairs / (2 * len(each) ** 2) / (sum(each) / len(each))
    found = profile_of(keys_with=dict(Counter(each)), messages=sum(each))
    assert found.gini() == pytest.approx(expected)


def test_equal_keys_have_no_skew_and_zipfs_law_has_its_exponent() -> None:
    assert profile_of(keys_with={7: 10}).gini() == pytest.approx(0)
    assert profile_of(keys_with={7: 10}).zipf_exponent() is None
    zipf = Counter(round(1e9 / rank**1.2) for rank in range(1, 200))
    assert profile_of(keys_with=dict(zipf), messages=10**10).zipf_exponent() == pytest.approx(
        1.2, abs=1e-6
    )


def test_the_pmf_is_one_and_the_cdf_ends_at_the_limit() -> None:
    """f(0) is the share that replaces nothing (SRM §5.1)."""
    found = profile_of({1: 30, 5: 20, 700: 10})
    assert found.pmf == {0: 0.4, 1: 0.3, 5: 0.2, 700: 0.1}
    json = as_json(found)
    cdf = json["cdf"]
    assert isinstance(cdf, dict)
    assert list(cdf.values()) == sorted(cdf.values())
    assert (list(cdf)[-1], cdf["1024"]) == ("1024", json["purge_ratio_limit"])
    assert (cdf["1"], cdf["4"], cdf["8"]) == (0.3, 0.3, 0.5)


def test_every_table_has_a_cell_for_every_column() -> None:
    found = profile_of({3: 9}, {2: 4})
    for _, columns, rows in tables(found):
        assert all(len(row) == len(columns) for row in rows)
