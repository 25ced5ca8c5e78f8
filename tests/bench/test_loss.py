"""The benchmark of loss: what it refuses, when it does not run, and what its tables count."""

import os
from typing import Any

import pytest
from rich.console import Console

from bench import loss


def cell(loss_percent: float, variant: str, *rates: float, cpu_s: float = 1.0) -> loss.Cell:
    rounds: list[dict[str, Any]] = [
        {"delivered_per_s": rate, "cpu_s_per_million": cpu_s, "lost_share": 0.0} for rate in rates
    ]
    return loss.Cell(loss_percent, 2, variant, rounds)


def test_without_root_it_is_skipped_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert loss.main(["--rounds", "1"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("bench.loss skipped: it needs root")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "words", [["--loss", "100"], ["--loss", "-1"], ["--receivers", "0"], ["--seconds", "0"]]
)
def test_what_makes_no_sense_is_refused_in_one_line(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        loss.main(words)
    assert "error: --" in capsys.readouterr().err


def test_a_run_that_is_stuck_is_one_below_half_of_the_median_or_that_failed() -> None:
    one = cell(0.0, loss.SENDER, 1000, 1000, 1000, 499)
    assert one.stuck == 1
    one.failures.append("killed")
    assert one.stuck == 2


def test_ratios_are_to_pyzmq_under_the_same_loss_and_to_the_same_variant_without() -> None:
    cells = [
        cell(0.0, loss.SENDER, 3000, cpu_s=1.0),
        cell(0.0, loss.PEER, 1000),
        cell(1.0, loss.SENDER, 2000, cpu_s=1.5),
        cell(1.0, loss.PEER, 400, 500, 600),
    ]
    console = Console(width=160)
    with console.capture() as shown:
        console.print(loss._loss_table(cells))
    row = next(line for line in shown.get().splitlines() if "1%" in line)
    assert [text for text in row.split() if text.endswith("×")] == ["4.00×", "3.33×", "1.50×"]
