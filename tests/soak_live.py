"""A group of four processes for as long as you like: traffic, a slow reader, kills and restarts.

    python -m tests.soak_live --seconds 1800

Everything that is received is checked against what was sent: unmarked messages all arrive, in
order, and in the end everybody has the newest value of every key. The memory of the members that
live all along has to stay flat. Prints a line each minute; the exit code says whether all is well.
"""

import argparse
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from tests.live.groups import DEADLINE_S, Nodes, wait_until
from tests.live.material import Way

SENDERS = "ab"
SLOW = "c"
RESTARTED = "d"
RATE_S = 200
KEYS = 20
MARKED = 0.7
# The slow one needs so long for a message: less than half of the traffic would be its limit.
BUSY_S = 0.005
ROUND_S = 5.0
# What may be added to memory after the warm-up; a leak of 32 bytes a message is more in 30 minutes.
GROWTH_MAX = 1.15
GROWTH_KB_MAX = 8_000


@dataclass
class Ledger:
    """What was sent, and what each life of each reader has to get next."""

    # By sender: the place of each unmarked message among them.
    places: dict[str, dict[str, int]] = field(
        default_factory=lambda: {name: {} for name in SENDERS}
    )
    newest: dict[str, str] = field(default_factory=dict)
    # By reader and sender: the place of the last one received; None if it begins anywhere.
    last: dict[tuple[str, str], int | None] = field(default_factory=dict)
    values: dict[str, dict[str, str]] = field(default_factory=dict)
    received: int = 0
    skipped: int = 0

    def begin(self, reader: str, anywhere: bool) -> None:
        for sender in SENDERS:
            self.last[reader, sender] = None if anywhere else -1
        self.values[reader] = {}

    def note_sent(self, sender: str, sent: list[list[str]]) -> None:
        for key, text in sent:
            if key:
                self.newest[key] = text
            else:
                self.places[sender][text] = len(self.places[sender])

    def note_received(self, reader: str, got: list[list[Any]]) -> None:
        for sender, _, _, key, text, skipped, _ in got:
            self.received += 1
            self.skipped += len(skipped)
            if key:
                self.values[reader][key] = text
                continue
            place = self.places[sender][text]
            last = self.last[reader, sender]
            assert last is None or place == last + 1, (
                f"{reader} got unmarked message {place} of {sender} after {last}: {text}"
            )
            self.last[reader, sender] = place

    def complete(self, reader: str) -> bool:
        """Whether a reader has the end of everything. One that came late lacks old values."""
        values = self.values[reader]
        return all(
            self.last[reader, sender] in (None, len(self.places[sender]) - 1) for sender in SENDERS
        ) and all(values.get(key, text) == text for key, text in self.newest.items())


class Soak:
    """One run."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._ledger = Ledger()
        self._restarts = 0
        self._began_s = time.monotonic()
        self._warm_kb: dict[str, int] = {}
        for node in nodes:
            self._ledger.begin(node.name, anywhere=False)
            node.call("collect", busy_s=BUSY_S if node.name == SLOW else 0.0)

    def run(self, seconds: float) -> None:
        said_s = restarted_s = time.monotonic()
        number = 0
        while time.monotonic() - self._began_s < seconds:
            self._round(number)
            number += 1
            now_s = time.monotonic()
            if not self._warm_kb and now_s - self._began_s > min(120.0, seconds / 3):
                self._warm_kb = self._memory_kb()
            if now_s - restarted_s > min(60.0, seconds / 4):
                restarted_s = now_s
                self._restart()
            if now_s - said_s > 60.0:
                said_s = now_s
                self._say()
        self._end()

    def _round(self, number: int) -> None:
        count = round(RATE_S * ROUND_S)
        for sender in SENDERS:
            self._nodes[sender].call(
                "traffic", count=count, keys=KEYS, marked=MARKED, size=200,
                gap_s=1 / RATE_S, prefix=f"{number}/",
            )  # fmt: skip
        while any(self._nodes[sender].call("sending") for sender in SENDERS):
            self._look()
            time.sleep(0.2)
        self._look()

    def _look(self) -> None:
        """What was received first, and then what was sent: so that all of it is known."""
        got = {node.name: node.call("collected", forget=True) for node in self._nodes}
        for sender in SENDERS:
            self._ledger.note_sent(sender, self._nodes[sender].call("sent", forget=True))
        for reader, messages in got.items():
            self._ledger.note_received(reader, messages)

    def _restart(self) -> None:
        self._nodes[RESTARTED].kill()
        self._nodes.restart(RESTARTED).call("collect")
        self._ledger.begin(RESTARTED, anywhere=True)
        self._restarts += 1

    def _memory_kb(self) -> dict[str, int]:
        return {node.name: node.call("memory_kb") for node in self._nodes if node.name != RESTARTED}

    def _say(self) -> None:
        memory = " ".join(f"{name} {kb // 1024} MB" for name, kb in self._memory_kb().items())
        sent = sum(map(len, self._ledger.places.values()))
        print(
            f"{time.monotonic() - self._began_s:6.0f} s: {sent} unmarked sent, "
            f"{self._ledger.received} received, {self._ledger.skipped} skipped, "
            f"{self._restarts} restarts; {memory}",
            flush=True,
        )

    def _end(self) -> None:
        for sender in SENDERS:
            self._nodes[sender].call("drain")

        def complete() -> bool:
            self._look()
            return all(self._ledger.complete(node.name) for node in self._nodes)

        wait_until(complete, "everybody has everything", 2 * DEADLINE_S)
        self._say()
        for name, kb in self._memory_kb().items():
            warm_kb = self._warm_kb[name]
            assert kb < warm_kb * GROWTH_MAX + GROWTH_KB_MAX, (
                f"the memory of {name} grew from {warm_kb} to {kb} KB"
            )
        for node in self._nodes:
            node.call("leave")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--unicast", action="store_true", help="without multicast")
    given = parser.parse_args()
    way = Way("unicast" if given.unicast else "multicast", ipv6=False)
    try:
        with Nodes(way, "abcd") as nodes:
            Soak(nodes).run(given.seconds)
    except AssertionError as error:
        print(f"soak failed: {error}", file=sys.stderr)
        return 1
    print("soak: everything arrived, and memory is flat")
    return 0


if __name__ == "__main__":
    sys.exit(main())
