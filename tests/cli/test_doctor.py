"""`semcast doctor`: its keys, its exit codes, and every way to get it wrong."""

import json

import pytest

from semcast.cli import main
from semcast.live.insight import diagnosis
from semcast.live.insight.diagnosis import FAIL, OK, WARN, Check

KEYS = [
    "interface", "group", "group_address_ipv4", "group_address_ipv6", "group_port", "failures",
    "warnings", "checks",
]  # fmt: skip
CHECKS = [
    "interface", "multicast-ipv4", "multicast-ipv6", "reach", "unicast", "mtu", "mtu-loopback",
    "offload", "receive-buffer", "send-buffer", "clock-monotonic", "clock-wall", "firewall",
    "descriptors", "build",
]  # fmt: skip


def output(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["doctor", *arguments]) == code
    out, err = capsys.readouterr()
    assert err == ""
    return " ".join(out.split())


def found(monkeypatch: pytest.MonkeyPatch, *checks: Check) -> None:
    monkeypatch.setattr(diagnosis, "diagnose", lambda *_: list(checks))


def test_json_has_stable_keys(capsys: pytest.CaptureFixture[str]) -> None:
    result = json.loads(output(capsys, "--interface", "lo", "--group", "quotes", "--json"))
    assert list(result) == KEYS
    assert [one["check"] for one in result["checks"]] == CHECKS
    assert {tuple(one) for one in result["checks"]} == {("check", "status", "found", "advice")}
    assert result["interface"] == "lo"
    assert result["group"] == "quotes"
    assert result["failures"] == 0
    assert result["warnings"] == sum(one["status"] == "warn" for one in result["checks"])


def test_a_group_is_probed_at_its_own_address(capsys: pytest.CaptureFixture[str]) -> None:
    one, other = (
        json.loads(output(capsys, "--interface", "lo", "--group", name, "--json"))
        for name in ("quotes", "trades")
    )
    assert one["group_address_ipv4"] != other["group_address_ipv4"]
    assert one["group_address_ipv4"] in one["checks"][1]["found"]


def test_the_table_has_every_check(capsys: pytest.CaptureFixture[str]) -> None:
    out = output(capsys, "--interface", "127.0.0.1")
    assert all(f" {check} " in out for check in CHECKS)
    assert "15 checks on lo: 0 failed" in out


@pytest.mark.parametrize(
    ("statuses", "code"), [([OK, OK], 0), ([OK, WARN], 0), ([WARN, FAIL], 1), ([FAIL, OK], 1)]
)
def test_only_a_failure_changes_the_exit_code(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    statuses: list[str],
    code: int,
) -> None:
    found(monkeypatch, *(Check(f"check-{at}", one, "[seen]") for at, one in enumerate(statuses)))
    out = output(capsys, "--interface", "lo", code=code)
    assert f"{statuses.count(FAIL)} failed, {statuses.count(WARN)} warnings" in out
    result = json.loads(output(capsys, "--interface", "lo", "--json", code=code))
    assert [one["status"] for one in result["checks"]] == statuses


def test_what_was_found_is_shown_as_it_is_with_what_to_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brackets are markup to the table's library, and rules of firewalls are full of them."""
    found(monkeypatch, Check("firewall", WARN, ":INPUT DROP [0:0] [/red]", "open it"))
    out = output(capsys, "--interface", "lo")
    assert "firewall warn :INPUT DROP [0:0] [/red]. To do: open it" in out


@pytest.mark.parametrize(
    "line",
    ["--interface nosuch0", "--interface 192.0.2.99", "--group " + "x" * 10_000, "--nonsense", "x"],
)
def test_a_mistake_gets_one_line_and_exit_code_2(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", *line.split()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("semcast: ")
    assert err.count("\n") == 1


def test_it_answers_for_as_long_as_it_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--answer", "--seconds", "0.1", "--interface", "lo", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == {"interface": "lo", "answered_questions": 0}
    assert "for 0.1 s" in err


def test_a_time_that_makes_no_sense_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--answer", "--seconds", "0"]) == 2
    assert "--seconds" in capsys.readouterr().err
