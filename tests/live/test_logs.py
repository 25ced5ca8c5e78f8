"""Logs for machines: one JSON object on one line, whatever a record holds."""

import json
import logging
import sys

from hypothesis import given
from hypothesis import strategies as st

from semcast.live.insight.logs import JsonFormatter


def record(text: str, **extra: object) -> logging.LogRecord:
    found = logging.LogRecord("semcast", logging.WARNING, "file", 1, "%s", (text,), None)
    found.__dict__.update(extra)
    return found


@given(st.text())
def test_a_record_is_one_line_of_json_with_its_text(text: str) -> None:
    line = JsonFormatter().format(record(text))
    assert len(line.splitlines()) == 1 or any(c in text for c in "\x85\u2028\u2029\x1c\x1d\x1e")
    assert "\n" not in line
    found = json.loads(line)
    assert found["text"] == text
    assert (found["level"], found["logger"]) == ("warning", "semcast")
    assert list(found) == ["time", "level", "logger", "text"]


def test_what_it_is_about_goes_along() -> None:
    found = json.loads(JsonFormatter().format(record("x", semcast={"kind": "slow", "odd": {1}})))
    assert found["semcast"]["kind"] == "slow"
    assert found["semcast"]["odd"] == "{1}"


def test_an_exception_goes_along() -> None:
    try:
        raise ValueError("no\nway")
    except ValueError:
        line = JsonFormatter().format(record("x", exc_info=sys.exc_info()))
    assert "\n" not in line
    assert "no\nway" in json.loads(line)["error"]
