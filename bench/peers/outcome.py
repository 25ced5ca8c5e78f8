"""From what three processes reported to the figures of one row. Pure functions.

Goes in: `Facts` of the rounds of one case. Comes out: a flat mapping of figures with their units in
the names, the same for every peer.
"""

from typing import Any

from bench.peers.api import LATENCY, THROUGHPUT
from bench.peers.case import Case
from bench.peers.trial import Facts

Figures = dict[str, Any]
_MIB = 1 << 20


def figures(case: Case, facts: Facts) -> Figures:
    """The figures of one round."""
    kinds = {THROUGHPUT: _throughput, LATENCY: _latency}
    return kinds.get(case.workload, _slow_reader)(case, facts)


def best(case: Case, rounds: list[Figures]) -> Figures:
    """The best of several rounds; of what must not happen, such as loss, the worst."""
    if case.workload == THROUGHPUT:
        chosen = dict(max(rounds, key=lambda found: float(found["delivered_per_s"])))
        chosen["lost_share"] = max(found["lost_share"] for found in rounds)
        chosen["drained"] = all(found["drained"] for found in rounds)
        return chosen
    if case.workload == LATENCY:
        return {
            "p50_us": min(found["p50_us"] for found in rounds),
            "p99_us": min(found["p99_us"] for found in rounds),
            "kept_share": max(found["kept_share"] for found in rounds),
            "lost_share": max(found["lost_share"] for found in rounds),
            "cpu_s_per_million": min(found["cpu_s_per_million"] for found in rounds),
        }
    return min(rounds, key=lambda found: float(found["slow_keyed_age_p99_ms"]))


def _throughput(case: Case, facts: Facts) -> Figures:  # noqa: ARG001
    sent = facts.sender["sent"]
    counts = [found["count"] for found in facts.receivers]
    return {
        "delivered_per_s": min(
            found["count"] * 1e9 / max(1, found["last_ns"] - found["first_ns"])
            for found in facts.receivers
        ),
        "lost_share": 1 - min(counts) / sent if sent else 0.0,
        "cpu_s_per_million": _cpu_s_per_million(facts),
        "sent": sent,
        **_ends(facts),
    }


def _latency(case: Case, facts: Facts) -> Figures:
    sent = facts.sender["sent"]
    counts = [found["count"] for found in facts.receivers]
    return {
        "p50_us": max(_scaled(found["age_p50_ns"], 1e3) for found in facts.receivers),
        "p99_us": max(_scaled(found["age_p99_ns"], 1e3) for found in facts.receivers),
        "kept_share": sent / case.messages_max,
        "lost_share": 1 - min(counts) / sent if sent else 0.0,
        "cpu_s_per_million": _cpu_s_per_million(facts),
        **_ends(facts),
    }


def _cpu_s_per_million(facts: Facts) -> float:
    cpu_s: float = facts.sender["cpu_s"] + facts.server_cpu_s
    cpu_s += sum(found["cpu_s"] for found in facts.receivers)
    messages: int = min(found["count"] for found in facts.receivers)
    return cpu_s * 1e6 / max(1, messages)


def _slow_reader(case: Case, facts: Facts) -> Figures:
    sender = facts.sender
    fast, slow = facts.receivers
    return {
        "kept_share": sender["sent"] / case.messages_max,
        "fast_p50_us": _scaled(fast["age_p50_ns"], 1e3),
        "fast_p99_us": _scaled(fast["age_p99_ns"], 1e3),
        "fast_unreplaced_lost": sender["unreplaced"] - fast["unreplaced"],
        "fast_stale_keys": _stale(sender, fast),
        "slow_unreplaced_lost": sender["unreplaced"] - slow["unreplaced"],
        "slow_unreplaced_lost_share": 1 - slow["unreplaced"] / max(1, sender["unreplaced"]),
        "slow_stale_keys": _stale(sender, slow),
        "slow_taken": slow["count"],
        "slow_age_p50_ms": _scaled(slow["age_p50_ns"], 1e6),
        "slow_age_p99_ms": _scaled(slow["age_p99_ns"], 1e6),
        "slow_keyed_age_p50_ms": _scaled(slow["keyed_age_p50_ns"], 1e6),
        "slow_keyed_age_p99_ms": _scaled(slow["keyed_age_p99_ns"], 1e6),
        "slow_turn_ms": _turn_ms(sender, slow) if case.slow else None,
        "slow_drain_s": max(0.0, (slow["last_ns"] - sender["stopped_ns"]) / 1e9),
        **_memory("sender", sender["rss_bytes"]),
        **_memory("slow", slow["rss_bytes"]),
        **_ends(facts),
    }


def _ends(facts: Facts) -> Figures:
    cut_off = [found["cut_off"] for found in facts.receivers if found["cut_off"]]
    return {
        "drained": all(found["drained"] for found in facts.receivers),
        "cut_off": cut_off[0][:200] if cut_off else "",
    }


def _turn_ms(sender: dict[str, Any], slow: dict[str, Any]) -> float:
    """What the reader needs to take everything that waits, once.

    A value of every key that was sent waits, and what is never replaced and was still to be taken
    when the sender stopped. The time for each is the reader's own, over all that it took: there
    is always something for it to take.
    """
    waiting: int = len(sender["last"]) + slow["unreplaced_waited"]
    each_ns: float = (slow["last_ns"] - slow["first_ns"]) / max(1, slow["count"] - 1)
    return waiting * each_ns / 1e6


def _stale(sender: dict[str, Any], receiver: dict[str, Any]) -> int:
    """Keys whose last value at the receiver is not the last that was sent."""
    had = dict(map(tuple, receiver["last"]))
    return sum(had.get(key) != seq for key, seq in sender["last"])


def _memory(who: str, samples: list[int]) -> Figures:
    """Growth is counted from a quarter of the run on: buffers may fill up first."""
    settled = samples[len(samples) // 4]
    return {
        f"{who}_rss_start_mib": samples[0] / _MIB,
        f"{who}_rss_end_mib": samples[-1] / _MIB,
        f"{who}_rss_max_mib": max(samples) / _MIB,
        f"{who}_rss_growth_share": samples[-1] / settled - 1,
    }


def _scaled(value_ns: float | None, unit_ns: float) -> float:
    """In another unit; endless where nothing came."""
    return float("inf") if value_ns is None else value_ns / unit_ns
