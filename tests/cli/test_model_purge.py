"""`semcast model purge`: its keys, its figures and the files it reads."""

import json
from pathlib import Path

import pytest

from semcast.cli import main

KEYS = [
    "buffer_messages",
    "k",
    "limited_by",
    "purge_ratio_limit",
    "purge_ratio",
    "tolerated_slowdown_percent",
    "tolerated_slowdown_unlimited",
    "receiver_rate_min_msg_s",
    "receiver_delay_max_ms",
    "sender_rate_msg_s",
    "slow_receiver_rate_msg_s",
    "sender_disturbed",
    "want_sender_rate_msg_s",
    "feasible",
    "purge_ratio_needed",
    "buffer_min_messages",
    "k_min",
    "sender_rate_bound_msg_s",
]
TRADING = "--classes 25:0.5,100:0.4,750:0.1"


def run(capsys: pytest.CaptureFixture[str], options: str) -> str:
    assert main(["model", "purge", *options.split()]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def result(capsys: pytest.CaptureFixture[str], options: str) -> dict[str, object]:
    found = json.loads(run(capsys, f"{options} --json"))
    assert isinstance(found, dict)
    assert list(found) == KEYS
    return found


def test_ratios_and_rates_of_the_two_parameter_traffic(capsys: pytest.CaptureFixture[str]) -> None:
    found = result(capsys, "--r 0.5 --d 5 --buffer 20 --sender-rate 100 --receiver-rate 40")
    ratio = 0.5 * (1 - 0.9**20)
    assert found["purge_ratio_limit"] == 0.5
    assert found["purge_ratio"] == pytest.approx(ratio)
    assert found["sender_rate_msg_s"] == pytest.approx(40 / (1 - ratio))
    assert found["slow_receiver_rate_msg_s"] == 40
    assert found["sender_disturbed"] is True
    assert found["receiver_rate_min_msg_s"] == pytest.approx(100 * (1 - ratio))
    assert found["receiver_delay_max_ms"] == pytest.approx(10 / (1 - ratio))
    assert found["feasible"] is None


def test_without_rates_there_are_only_ratios(capsys: pytest.CaptureFixture[str]) -> None:
    found = result(capsys, "--r 0.5 --d 5 --buffer 20")
    assert found["sender_rate_msg_s"] is None
    assert found["slow_receiver_rate_msg_s"] is None
    assert found["receiver_rate_min_msg_s"] is None
    assert found["purge_ratio"] is not None


def test_the_trading_system_for_people_and_for_programs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """OBS Table 2, with all digits in JSON and three for people. OBS §5.3"""
    assert " 0.273 " in run(capsys, f"{TRADING} --buffer 30")
    assert result(capsys, f"{TRADING} --buffer 30")["purge_ratio"] == pytest.approx(
        0.27297425507, abs=1e-10
    )


def test_a_bitmap_shorter_than_the_buffer_limits_and_is_said_to(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = result(capsys, "--r 1 --d 20 --buffer 100 --k 64")
    assert (found["k"], found["limited_by"]) == (64, "k")
    assert found["purge_ratio"] == result(capsys, "--r 1 --d 20 --buffer 64")["purge_ratio"]
    assert "k limits" in run(capsys, "--r 1 --d 20 --buffer 100 --k 64")
    assert "k limits" not in run(capsys, "--r 1 --d 20 --buffer 64 --k 64")
    assert result(capsys, "--r 1 --d 20 --buffer 100 --k 128")["limited_by"] == "buffer"


def test_by_key_the_buffer_alone_limits(capsys: pytest.CaptureFixture[str]) -> None:
    by_key = result(capsys, "--r 1 --d 2000 --buffer 5000")
    assert (by_key["k"], by_key["limited_by"]) == (None, "buffer")
    bitmap = result(capsys, "--r 1 --d 2000 --buffer 5000 --k 1024")
    assert float(str(by_key["purge_ratio"])) > 0.9
    assert float(str(bitmap["purge_ratio"])) < 0.5


def test_the_smallest_buffer_for_a_wanted_rate(capsys: pytest.CaptureFixture[str]) -> None:
    options = "--r 0.5 --d 5 --receiver-rate 40 --want-sender-rate 70"
    found = result(capsys, options)
    assert found["feasible"] is True
    assert found["buffer_min_messages"] == found["k_min"] == 19
    words = " ".join(run(capsys, options).split())
    assert "buffer of at least 19, and with a bitmap k of at least 19" in words
    enough = result(capsys, "--r 0.5 --d 5 --sender-rate 70 --receiver-rate 40 --buffer 19")
    short = result(capsys, "--r 0.5 --d 5 --sender-rate 70 --receiver-rate 40 --buffer 18")
    assert (enough["sender_disturbed"], short["sender_disturbed"]) == (False, True)


def test_a_rate_that_no_buffer_carries_is_an_answer_and_not_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = "--r 0.5 --d 5 --receiver-rate 40 --want-sender-rate 90"
    found = result(capsys, options)
    assert found["feasible"] is False
    assert found["buffer_min_messages"] is None
    assert found["k_min"] is None
    assert found["sender_rate_bound_msg_s"] == 80
    words = " ".join(run(capsys, options).split())
    assert "No buffer carries 90 msg/s past this receiver" in words
    assert "no more than 80.0 msg/s" in words


def test_if_every_message_can_be_purged_the_slowdown_is_unlimited(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = result(capsys, "--r 1 --buffer 5 --sender-rate 100 --receiver-rate 1")
    assert found["tolerated_slowdown_unlimited"] is True
    assert found["tolerated_slowdown_percent"] is None
    assert found["receiver_delay_max_ms"] is None
    assert found["sender_rate_msg_s"] == 100
    words = run(capsys, "--r 1 --buffer 5 --sender-rate 100 --receiver-rate 1")
    assert "unlimited" in words
    assert "not disturbed" in words


@pytest.mark.parametrize(
    "text",
    [
        "distance,probability\n0,0.5\n3,0.5\n",
        "0,0.5\n3,0.5\n",
        "0, 0.5\r\n\r\n3 ,0.5",
        "\ufeff0,0.5\n3,0.5\n",
        '{"0": 0.5, "3": 0.5}',
        ' {"3": 0.5,\n "0": 0.5}\n',
    ],
)
def test_a_distribution_is_read_from_lines_or_from_json(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "distances"
    path.write_text(text, encoding="utf-8")
    assert result(capsys, f"--pmf {path} --buffer 2")["purge_ratio"] == 0
    assert result(capsys, f"--pmf {path} --buffer 3")["purge_ratio"] == 0.5


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "empty"),
        (b"distance,probability\n", "empty"),
        (b"0,0.5\n3,0.4\n", "sum to 0.9, not 1"),
        (b"0,0.5\n3,-0.5\n", "probability of distance 3 is -0.5"),
        (b"0,0.5\n-3,0.5\n", "distance -3"),
        (b"0,0.5\n3;0.5\n", "line 2 is '3;0.5'"),
        (b"x,0.5\n3,0.5\n", "line 1 is 'x,0.5'"),
        (b"0,0.5\n3.5,0.5\n", "line 2 is '3.5,0.5'"),
        (b"0,0.5\n3,0.5,7\n", "line 2"),
        (b"0,0.5\n0,0.5\n", "line 2: distance 0 was given before"),
        (b"0,0.5\n3,nan\n", "probability of distance 3 is nan"),
        (b'{"0": 0.5, "3": 0.5', "not JSON"),
        (b'{"0": 0.5, "0": 0.5}', "'0': distance 0 was given before"),
        (b'{"0": 0.5, "x": 0.5}', "'x' has '0.5'"),
        (b'{"0": 0.5, "3": "0.5"}', "'3' has"),
        (b'{"0": true}', "'0' has 'True'"),
        (b'{"a":' * 100_000, "not JSON"),
        (b"\xff\xfe0,1", "not a text file"),
    ],
)
def test_a_file_that_is_no_distribution_gets_one_line_that_says_why(
    content: bytes, named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "distances"
    path.write_bytes(content)
    assert main(["model", "purge", "--pmf", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith(f"semcast: {path}: ")
    assert named in err


def test_a_file_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("semcast.cli._pmf.FILE_CHARS_MAX", 10)
    path = tmp_path / "distances"
    path.write_text("0,0.5\n3,0.5\n")
    assert main(["model", "purge", "--pmf", str(path)]) == 2
    assert "more than 10 characters" in capsys.readouterr().err
