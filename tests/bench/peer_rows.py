"""Made-up reports, figures and rows for tests of the benchmark's arithmetic."""

from typing import Any

from bench.peers import case as cases
from bench.peers.api import Peer, Variant
from bench.peers.judge import Requirement
from bench.peers.plan import Entry, Row
from bench.peers.trial import Facts
from tests.bench.fake_peer import FakeReceiver, FakeSender


def facts(sent: int, counts: tuple[int, int], **changes: Any) -> Facts:
    sender = {
        "sent": sent,
        "unreplaced": 10,
        "last": [[0, 90], [1, 91]],
        "began_ns": 0,
        "stopped_ns": 10**9,
        "cpu_s": 1.0,
        "rss_bytes": [1 << 20] * 4,
    }
    receivers = [
        {
            "count": count,
            "first_ns": 0,
            "last_ns": 2 * 10**9,
            "cpu_s": 0.5,
            "rss_bytes": [1 << 20, 2 << 20, 2 << 20, 3 << 20],
            "drained": True,
            "cut_off": "",
            "unreplaced": 8,
            "unreplaced_waited": 3,
            "last": [[0, 90], [1, 80]],
            "age_p50_ns": 5_000.0,
            "age_p99_ns": 9_000.0,
            "keyed_age_p50_ns": None,
            "keyed_age_p99_ns": 4e6,
            **changes,
        }
        for count in counts
    ]
    return Facts(sender, receivers, 1.0)


def row(case: cases.Case, peer: str, name: str, found: dict[str, Any] | None, **more: Any) -> Row:
    variant = Variant(name, FakeSender, FakeReceiver, **more)
    return Row(case, Entry("", Peer(peer, (variant,)), variant), [found] if found else [])


def slow(age_ms: float, lost: int = 0, fast_us: float = 100.0) -> dict[str, Any]:
    return {
        "kept_share": 1.0,
        "fast_p99_us": fast_us,
        "fast_unreplaced_lost": 0,
        "slow_unreplaced_lost": lost,
        "slow_stale_keys": 0,
        "slow_keyed_age_p50_ms": age_ms,
        "slow_keyed_age_p99_ms": age_ms,
        "slow_turn_ms": 20.0,
        "sender_rss_growth_share": 0.0,
        "slow_rss_growth_share": 0.2,
    }


def by_name(found: list[Requirement]) -> dict[str, bool | None]:
    return {one.name.split(", ", 1)[1]: one.met for one in found}
