"""Order "key" keeps what a slow reader knows fresher than FIFO does, however hot some keys are."""

import random
from pathlib import Path

import pytest
from bench.freshness import Row, measure, read

TRACE = Path(__file__).parents[3] / "shared/traces/binance_quotes.csv.gz"


def quotes() -> list[Row]:
    """Two hot keys, forty quiet ones, and trades in bursts, which are never replaced."""
    drawn = random.Random("quotes")
    rows: list[Row] = []
    for at in range(20_000):
        kind = drawn.random()
        if at // 1_000 % 4 == 0 and kind < 0.5:
            key = b""
        elif kind < 0.8:
            key = b"hot %d" % drawn.randrange(2)
        else:
            key = b"quiet %d" % drawn.randrange(40)
        rows.append((at / 1_000, key))
    return rows


def test_by_key_no_key_waits_long_and_what_is_known_is_fresher() -> None:
    fifo, key = (measure(quotes(), 0.4, order) for order in ("fifo", "key"))
    assert key.wait_max_s < fifo.wait_max_s
    assert key.outdated_mean_s < fifo.outdated_mean_s


@pytest.mark.skipif(not TRACE.exists(), reason="the traces are not here")
def test_on_the_binance_trace_at_twice_its_speed_for_a_reader_of_40_percent() -> None:
    """A sixth of it; docs/design/purging-buffers.md has the figures of the whole."""
    rows = read(TRACE, 2.0)[-45_000:]
    fifo, key = (measure(rows, 0.4, order) for order in ("fifo", "key"))
    assert key.outdated_mean_s < fifo.outdated_mean_s / 5
    assert key.wait_max_s < fifo.wait_max_s / 5
