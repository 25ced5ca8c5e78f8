"""Tables are readable at 80 columns: whatever is in them, and those of every command as they are.

The commands on Spark are in tests/pipeline/test_tables.py.
"""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from tests.check.log import Log
from tests.cli.tables import WIDTH, watched

from semcast.cli import _tables, analyse, doctor, main, members, monitor, top
from semcast.cli._output import print_table
from semcast.journal import write_journal
from semcast.live.insight.diagnosis import Check

ROOT = Path(__file__).parents[2]
SCENARIOS = ROOT / "examples/scenarios"
SHORT = "--set duration_s=2 --set warm_up_s=0.5"
COMMANDS = [
    "model purge --r 0.5 --d 5 --buffer 20 --sender-rate 100 --receiver-rate 40",
    "model stability --branching 4 --height 5 --leaf-degree 3",
    "model trigger --buffer 100 --rate 0.2 --rtt 50 --alpha 0.9",
    "model propagation --members 5 --latency-ms 10 --processing-ms 1 --depth 2",
    "model epidemic --sizes 20,30 --policy eager,random --rounds 3",
    f"sim run {SCENARIOS}/fig5-purging.toml {SHORT}",
    f"sim run {SCENARIOS}/fig5-protocol.toml {SHORT}",
    f"sim run {SCENARIOS}/stability.toml --branching 3 --height 2",
    f"sim run {SCENARIOS}/stability.toml --branching 3 --height 2 --protocol all",
    "sim exhaust --ticks 0 --seconds 5 --states-max 200",
]
words = st.text("abcdefg0123456789,.%/", min_size=1, max_size=30)
cells = st.lists(words, max_size=3).map(" ".join)


@given(st.data())
def test_whatever_is_in_a_table_no_word_is_cut(data: st.DataObject) -> None:
    columns = data.draw(st.lists(cells, min_size=1, max_size=16))
    row = st.lists(cells, min_size=len(columns), max_size=len(columns))
    rows = data.draw(st.lists(row, max_size=4))
    console = Console(file=io.StringIO(), width=WIDTH, highlight=False)
    console.print(_tables.fitted(console, "a title", columns, rows))
    assert isinstance(console.file, io.StringIO)
    out = console.file.getvalue()
    assert max(map(len, out.splitlines())) <= WIDTH
    printed = out.split()
    for text in (*columns, *(cell for row in rows for cell in row)):
        assert set(printed).issuperset(text.split()), (text, out)


def test_brackets_in_a_cell_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("[red]", ["a", "[b]"], [["[bold]x", "1"]])
    out = capsys.readouterr().out
    assert all(text in out for text in ("[red]", "[b]", "[bold]x"))


def test_a_word_that_alone_is_too_long_is_folded_and_nothing_is_lost() -> None:
    console = Console(file=io.StringIO(), width=WIDTH, highlight=False)
    path = "/folder" * 20
    console.print(_tables.fitted(console, "", ["file", "rows"], [[path, "1"]]))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert "".join(line.split()[0] for line in lines if "/" in line or "er" in line) == path


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: " ".join(one.split()[:2]))
def test_commands(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with watched() as seen:
        assert main(command.split()) == 0, capsys.readouterr().err
    seen.assert_readable(capsys.readouterr().out)


def test_check_and_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = Log(run="lossy-quotes-of-a-long-name")
    for seq in range(1, 12):
        log.multicast(f"p1#{seq}")
        log.deliver("p1", f"p1#{seq}")
    write_journal(log.journal, tmp_path)
    with watched() as seen:
        assert main(["check", str(tmp_path), "--at-rest", "--show", "0"]) == 1
    assert len(seen.tables) == 2
    seen.assert_readable(capsys.readouterr().out)


def test_ingest_of_journals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = Log(run="quotes-of-a-long-name")
    log.multicast("p1#1")
    write_journal(log.journal, tmp_path / "journals")
    with watched() as seen:
        assert main(["ingest", str(tmp_path / "journals"), "--out", str(tmp_path / "lake")]) == 0
    seen.assert_readable(capsys.readouterr().out)


@pytest.mark.parametrize("name", list(analyse._COLUMNS))
def test_analyse(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every table, of members and numbers as they may be; most of them need not be split."""
    values = dict.fromkeys(analyse._COLUMNS[name], 1234.5) | {"buffer": "retransmit"}
    shares = {one: 0.123 for one in values if one.endswith("_share") or one == "share_of_sent"}
    words = {"place": "retransmit", "reason": "cover forgotten", "of": "never replaced"}
    rows: list[dict[str, object]] = [
        {**values, **shares, **words, "run": "quotes-1", "node": node} for node in ("p0.1", "p1.1")
    ]
    with watched() as seen:
        analyse._print_rows(name, "what it is about", rows, {("quotes-1", "p0.1"): "feed"})
    seen.assert_readable(
        capsys.readouterr().out, whole=name not in ("rounds", "semantic", "gossip")
    )


def test_doctor(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    advice = "sysctl -w net.core.rmem_max=8388608, and again after each start of the machine"
    doctor._print([Check("receive buffer", "warn", "212,992 bytes is little", advice)])
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= WIDTH
    assert set(out.split()).issuperset(advice.split())


def test_what_is_asked_of_groups(capsys: pytest.CaptureFixture[str]) -> None:
    """Members with long names and large numbers, without a group to ask."""
    names = ["market-data-feed-1", "reader"]
    asked = [
        {
            "name": name, "state": "suspected", "slow": True,
            "address": "192.168.100.200 port 45678",
            "sent_messages": 12_345_678, "delivered_messages": 12_345_678, "held_messages": 65_536,
            "behind_ms": 123_456.0, "purge_ratio": 0.99,
        }
        for name in names
    ]  # fmt: skip
    rates = dict.fromkeys([*top.RATES, *top.LEVELS], 1_234_567.0)
    senders = [
        {
            "name": name, "messages_s": 123_456.0, "messages": 12_345_678,
            "skipped_messages": 1_234_567, "last_seq": 12_345_678, "age_ms_p99": 12_345.6,
        }
        for name in names
    ]  # fmt: skip
    found = {
        "group": "quotes", "distance_p90": 64, "violations": 0, "messages_s": 123_456.0,
        "bytes_s": 1e9, "skipped_share": 0.5, "keys": 5_000, "senders": senders,
        "first_violations": [],
    }  # fmt: skip
    with watched() as seen:
        console = Console(highlight=False)
        members._print("quotes", asked)
        console.print(top._table(console, "quotes", [{"name": name} | rates for name in names], ()))
        console.print(monitor._page(console, found))
    assert len(seen.tables) == 3
    seen.assert_readable(capsys.readouterr().out, whole=False)
