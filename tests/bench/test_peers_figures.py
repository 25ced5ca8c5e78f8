"""The benchmark's own arithmetic: payloads, percentiles, plans, verdicts. Nothing is run here."""

import io
import json
import re
from array import array
from pathlib import Path
from typing import Any

import pytest
from bench.page import END
from bench.peers import case as cases
from bench.peers import environment, payload
from bench.peers.__main__ import _given, main
from bench.peers.api import ALL, SPIN
from bench.peers.judge import requirements
from bench.peers.outcome import best, figures
from bench.peers.plan import ADAPTERS, cases_of, entries, steps_of
from bench.peers.receiving import Aging, Counting
from bench.peers.show import BEGIN, absences, show, to_json, to_markdown
from bench.peers.trial import find_binary
from bench.peers.usage import MemoryLog, cpu_s_of, percentile
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from tests.bench.peer_rows import by_name, facts, row, slow

I64 = st.integers(-(2**63), 2**63 - 1)


@given(I64, I64, st.integers(-1, 2**31 - 1), st.integers(payload.SIZE_BYTES_MIN, 2_000))
def test_a_payload_carries_number_time_and_key_in_the_size_asked_for(
    seq: int, sent_ns: int, key: int, size_bytes: int
) -> None:
    packed = payload.pack(seq, sent_ns, key, size_bytes)
    assert len(packed) == size_bytes
    assert payload.unpack(packed) == (seq, sent_ns, key)
    assert payload.number(packed) == seq


@given(st.integers(0, 2**62), st.integers(1, 300))
def test_a_batch_is_what_single_payloads_are(first: int, count: int) -> None:
    many = payload.pack_many(first, count, 7, 64)
    assert many == [payload.pack(first + i, 7, payload.UNREPLACED, 64) for i in range(count)]


def test_a_payload_too_small_for_its_head_is_refused() -> None:
    with pytest.raises(ValueError, match="payload of 19 bytes; it must have 20 or more"):
        payload.pack(1, 2, 3, 19)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.2, 1.0])
def test_the_pattern_of_keys_has_the_share_and_is_the_same_each_time(share: float) -> None:
    pattern, again = payload.KeyPattern(share), payload.KeyPattern(share)
    keys = [pattern.key(seq) for seq in range(9_973)]
    unreplaced = keys.count(payload.UNREPLACED)
    assert unreplaced == pytest.approx(share * len(keys), rel=0.1)
    assert keys == [again.key(seq) for seq in range(9_973)]
    assert set(keys) <= {payload.UNREPLACED, *range(payload.KEYS)}


@given(st.lists(st.integers(0, 10**9), min_size=1), st.sampled_from([0.5, 0.99]))
def test_a_percentile_is_a_value_with_no_more_than_its_share_below(
    values: list[int], share: float
) -> None:
    middle = percentile(values, share)
    assert middle in values
    assert sum(v < middle for v in values) <= share * len(values)
    assert percentile([], share) is None


@given(st.lists(st.integers(1, 5), min_size=1), st.data())
def test_counting_sees_every_gap_between_and_within_batches(
    sizes: list[int], data: st.DataObject
) -> None:
    every = payload.pack_many(0, sum(sizes), 0, 64)
    lost = data.draw(st.integers(0, len(every) - 2)) if len(every) > 1 else None
    for missing in {None, lost}:
        record, at, came = Counting(), 0, 0
        for size in sizes:
            batch = [m for i, m in enumerate(every[at : at + size], at) if i != missing]
            at += size
            if batch:
                record.add(batch, 0)
                came += len(batch)
        assert record.count == came
        # A loss at the very end leaves no gap; the count tells.
        assert (record.found(None)["gaps"] > 0) == (missing is not None)


def test_ages_are_those_at_the_time_of_taking_and_the_last_value_is_the_last_taken() -> None:
    record = Aging(keys=4, messages_max=7)
    record.add([payload.pack(5, 100, 3, 64), payload.pack(6, 200, -1, 64)], 1_000)
    record.add([payload.pack(4, 50, 3, 64)], 2_000)
    found = record.found(stopped_ns=None)
    assert dict(found["last"]) == {3: 4}
    assert found["unreplaced"] == 1
    assert found["unreplaced_age_p50_ns"] == 800
    assert found["keyed_age_p99_ns"] == 1_950


def test_memory_is_sampled_at_most_twice_a_second() -> None:
    log = MemoryLog()
    for now_ns in range(0, 2_000_000_000, 1_000_000):
        log.tick(now_ns)
    assert len(log.samples) == 4
    assert all(sample > 0 for sample in log.end())


def test_a_process_that_is_gone_used_nothing_more() -> None:
    assert cpu_s_of(2**22 + 1) == 0


def test_throughput_is_that_of_the_slower_receiver_and_everybodys_cpu_counts() -> None:
    found = figures(cases.throughput(64, 1), facts(1_000, (1_000, 500)))
    assert found["delivered_per_s"] == 250
    assert found["lost_share"] == 0.5
    assert found["cpu_s_per_million"] == pytest.approx(3.0 / 500 * 1e6)


def test_slow_reader_figures_tell_loss_staleness_and_memory() -> None:
    found = figures(cases.slow_reader(0.1, True, 1.0), facts(2_500, (2_500, 40)))
    assert found["kept_share"] == 0.5
    assert found["slow_unreplaced_lost"] == 2
    assert found["slow_stale_keys"] == 1
    assert found["slow_drain_s"] == 1.0
    assert found["slow_rss_growth_share"] == pytest.approx(0.5)
    assert found["slow_keyed_age_p50_ms"] == float("inf")


def test_the_best_round_counts_but_a_loss_in_any_round_is_a_loss() -> None:
    case = cases.throughput(64, 1)
    rounds = [
        {"delivered_per_s": 5.0, "lost_share": 0.2, "drained": True},
        {"delivered_per_s": 9.0, "lost_share": 0.0, "drained": True},
    ]
    assert best(case, rounds) == {"delivered_per_s": 9.0, "lost_share": 0.2, "drained": True}


def speed(rate: float, lost: float = 0.0) -> dict[str, Any]:
    figures = {"delivered_per_s": rate, "lost_share": lost, "cpu_s_per_million": 1.0}
    return {**figures, "drained": True}


@pytest.mark.parametrize(
    ("ours", "plain", "met"),
    [
        (speed(200), False, True),
        (speed(199), False, False),
        (speed(300, 0.001), False, False),
        (speed(100), True, True),
        (speed(99), True, False),
        (None, False, None),
    ],
)
def test_throughput_is_held_to_twice_the_best_peer_without_loss(
    ours: dict[str, Any] | None, plain: bool, met: bool | None
) -> None:
    case = cases.throughput(64, 1)
    rows = [
        row(case, "semcast", "semcast", ours, plain=plain),
        row(case, "zmq", "zmq NODROP", speed(100)),
        row(case, "nats", "NATS core", speed(30)),
    ]
    (one,) = requirements(rows)
    assert one.met is met
    assert (one.peer, one.theirs) == ("zmq NODROP", 100)


def test_latency_is_compared_with_pyzmq_only() -> None:
    case = cases.latency(1_000, 1)
    common = {"kept_share": 1.0, "lost_share": 0.0, "cpu_s_per_million": 1.0}
    rows = [
        row(case, "semcast", "semcast", {"p50_us": 50.0, "p99_us": 300.0, **common}),
        row(case, "zmq", "zmq NODROP", {"p50_us": 60.0, "p99_us": 200.0, **common}),
        row(case, "nats", "NATS core", {"p50_us": 1.0, "p99_us": 1.0, **common}),
    ]
    assert [(one.met, one.peer) for one in requirements(rows)] == [
        (True, "zmq NODROP"),
        (False, "zmq NODROP"),
    ]


def test_pyzmq_is_taken_as_it_receives_not_as_an_application_can_make_it() -> None:
    case = cases.latency(1_000, 1)
    common = {"p50_us": 60.0, "kept_share": 1.0, "lost_share": 0.0, "cpu_s_per_million": 1.0}
    rows = [
        row(case, "semcast", "semcast", {"p99_us": 150.0, **common}),
        row(case, "zmq", "zmq NODROP", {"p99_us": 200.0, **common}),
        row(case, "zmq", "zmq spin", {"p99_us": 100.0, **common}, options={SPIN: True}),
    ]
    assert [(one.met, one.peer) for one in requirements(rows)] == [(True, "zmq NODROP")] * 2


def test_the_slow_readers_age_is_compared_with_peers_that_lose_nothing() -> None:
    case, alone = (cases.slow_reader(0.1, is_slow, 1.0) for is_slow in (True, False))
    options = {"options": {"order": "key"}}
    rows = [
        row(alone, "semcast", "semcast key", slow(1, fast_us=70), **options),
        row(case, "semcast", "semcast key", slow(20), **options),
        row(case, "zmq", "zmq CONFLATE", slow(1, lost=5)),
        row(case, "dds", "DDS KEEP_LAST(1)", slow(30)),
    ]
    met = by_name(requirements(rows))
    assert met["age of a key's value at the slow reader, p50 in ms"] is True
    assert met["age of a key's value at the slow reader, p99 in ms"] is True
    assert met["the fast reader's p99 in µs"] is True
    assert met["growth of the slow's memory"] is False
    assert met["unreplaced messages that the slow reader lost"] is True


def test_where_nobody_can_keep_up_only_loss_and_staleness_are_judged() -> None:
    case = cases.slow_reader(0.2, True, 1.0)
    met = by_name(requirements([row(case, "semcast", "semcast fifo", slow(20, lost=1))]))
    assert met == {
        "unreplaced messages that the slow reader lost": False,
        "stale keys at the slow reader": True,
        "unreplaced messages that the fast reader lost": True,
    }


def test_rounds_are_interleaved_peer_after_peer_then_again() -> None:
    who = [
        e for e in entries(["tests.bench.fake_peer"]) if e.variant.name in ("fake", "fake lossy")
    ]
    steps = steps_of([cases.throughput(64, 1), cases.slow_reader(0.1, True, 1)], who, None)
    order = [(s.round, s.row.case.workload, s.row.entry.variant.name) for s in steps]
    first = [(0, w, v) for w in ("throughput", "slow-reader") for v in ("fake", "fake lossy")]
    again = [(n, "throughput", v) for n in (1, 2) for v in ("fake", "fake lossy")]
    assert order == first + again


def test_the_workloads_are_those_that_were_asked_for() -> None:
    assert [c.size_bytes for c in cases_of(["throughput"], sizes_bytes=[64], seconds=2)] == [64]
    shares = [(c.unreplaced_share, c.slow) for c in cases_of(["slow-reader"])]
    assert shares == [(0.1, False), (0.1, True), (0.2, False), (0.2, True)]


def test_every_adapter_can_be_read_without_its_library_and_its_packages_are_pinned() -> None:
    every = entries(ADAPTERS)
    assert {e.peer.name for e in every} == {
        "semcast", "zmq", "zenoh", "dds", "nats", "redis", "mqtt",
    }  # fmt: skip
    pinned = environment.pinned()
    for one in every:
        assert set(one.peer.packages) <= set(pinned)
        assert set(one.variant.workloads) <= set(ALL)
    for workload in ALL:
        names = [e.variant.name for e in every if workload in e.variant.workloads]
        assert len(names) == len(set(names))


def test_constraints_hold_versions_only() -> None:
    for line in environment.CONSTRAINTS.read_text().splitlines():
        assert re.fullmatch(r"[a-z-]+==\d+(\.\d+)+", line)


def test_only_chooses_peers_and_variants_and_refuses_what_is_neither() -> None:
    assert {e.peer.name for e in entries(ADAPTERS, ["zmq", "keep_last"])} == {"zmq", "dds"}
    with pytest.raises(ValueError, match="no peer or variant is called 'kafka'; peers: semcast"):
        entries(ADAPTERS, ["kafka"])


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--only", "kafka"], "no peer or variant is called 'kafka'"),
        (["--workload", "speed"], "no workload is called 'speed'"),
        (["--seconds", "0"], "--seconds is 0"),
        (["--rounds", "0"], "--rounds is 0"),
        (["--size", "4"], "--size must be 20 to 60000 bytes"),
        (["--rate", "0"], "--rate must be 1 to 1000000"),
        (["--share", "2"], "--share must be 0 to 1"),
        (["--markdown", "/nowhere/at/all/page.md"], "cannot be written"),
        (["--json", "."], "cannot be written"),
    ],
)
def test_a_choice_that_makes_no_sense_is_one_clear_line(
    words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(words)
    except SystemExit as stopped:
        code = int(str(stopped.code))
    assert code == 2
    assert text in capsys.readouterr().err.splitlines()[-1]


def test_what_never_came_is_null_in_json() -> None:
    case = cases.slow_reader(0.1, True, 1.0)
    rows = [row(case, "zmq", "zmq", {"slow_keyed_age_p99_ms": float("inf")})]
    document = json.loads(to_json(rows, [], {"versions": {}}))
    assert document["rows"][0]["figures"] == {"slow_keyed_age_p99_ms": None}
    assert document["rows"][0]["variant"] == "zmq"


def test_every_reason_is_shown_once_with_all_that_it_holds_for() -> None:
    sizes = [cases.throughput(size, 1) for size in (64, 1_000)]
    rows = [row(case, "redis", name, None) for case in sizes for name in ("pub/sub", "Streams")]
    for one in rows:
        one.reason = "not here: apt-get install redis-server [or not]"
    assert absences(rows) == ["pub/sub; Streams: not here: apt-get install redis-server [or not]"]
    text = io.StringIO()
    show(Console(file=text, width=120), rows, [])
    assert absences(rows)[0] in text.getvalue()


def test_tables_show_every_row_and_verdict() -> None:
    case = cases.slow_reader(0.1, True, 1.0)
    found = figures(case, facts(2_500, (2_500, 40)))
    rows = [
        row(cases.throughput(64, 1), "zmq", "zmq NODROP", speed(1_234, 0.5)),
        row(case, "semcast", "semcast fifo", found),
    ]
    text = io.StringIO()
    show(Console(file=text, width=170), rows, requirements(rows))
    for part in ("1,234", "50.0%", "semcast fifo", "20.0%", "not measured", "no"):
        assert part in text.getvalue()


def test_the_page_has_every_row_and_the_command_that_makes_it() -> None:
    rows = [
        row(cases.throughput(64, 1), "zmq", "zmq NODROP", speed(1_234, 0.5)),
        row(cases.throughput(64, 1), "redis", "Redis Streams", None),
    ]
    machine = {"cores": 2, "system": "Linux", "python": "3.11"}
    about = {
        "command": "python -m bench.peers --only zmq", "machine": machine,
        "semcast_build": "compiled", "versions": {"pyzmq": "1"},
    }  # fmt: skip
    page = to_markdown(rows, requirements(rows), about)
    assert "    python -m bench.peers --only zmq\n" in page
    assert "| zmq NODROP | 1,234 | 50.0% |" in page
    assert "Redis Streams: not run" in page
    lines = [line for line in page.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines[:4]}) == 1, "all lines have as many cells"


def test_the_page_of_the_docs_has_the_marks_between_which_tables_go() -> None:
    text = (Path(__file__).parents[2] / "docs" / "peers.md").read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    assert text.index(BEGIN) < text.index(END)


def test_where_figures_are_saved_is_not_part_of_the_command() -> None:
    assert _given(["--only", "zmq", "--json", "x.json", "--rounds", "2"]) == [
        "--only", "zmq", "--rounds", "2",
    ]  # fmt: skip


def test_a_server_is_found_beside_the_interpreter(tmp_path: Path) -> None:
    server = tmp_path / "some-server"
    server.write_text("#!/bin/sh\n")
    server.chmod(0o755)
    assert find_binary("some-server", str(tmp_path / "python")) == str(server)
    assert find_binary("no-such-server", str(tmp_path / "python")) is None


def test_percentiles_take_arrays_too() -> None:
    assert percentile(array("q", [3, 1, 2]), 0.5) == 2
