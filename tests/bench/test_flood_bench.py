"""The benchmark of floods refuses what makes no sense, in one line."""

import sys

import pytest

from bench import flood


@pytest.mark.parametrize("words", [["--rounds", "0"], ["--seconds", "0"], ["--only", "rain"]])
def test_what_makes_no_sense_is_refused_in_one_line(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench.flood", *words])
    with pytest.raises(SystemExit, match="2"):
        flood.main()
    assert capsys.readouterr().err.splitlines()[-1].startswith("bench.flood: error: ")
