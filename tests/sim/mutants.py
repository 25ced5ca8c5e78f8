"""Broken variants of the protocol, and how each is hunted. Run as a script inside a patched copy.

A mutant is a change of text in a file of the package. The copy that has it runs interpreted, in a
process of its own, until a run of it breaks a promise or the time is up.
"""

import sys
import time
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

CAUGHT: Final = 1
SURVIVED: Final = 0
HUNT_S: Final = 55.0


@dataclass(frozen=True)
class Patch:
    """One change in one file of the package."""

    file: str
    old: str
    new: str

    def apply(self, package: Path) -> None:
        """Change the file; the old text must be there exactly once."""
        path = package / self.file
        text = path.read_text()
        found = text.count(self.old)
        if found != 1:
            raise LookupError(f"{self.file} has {found} times, not once: {self.old!r}")
        path.write_text(text.replace(self.old, self.new))


@dataclass(frozen=True)
class Mutant:
    """A broken variant. `hunt`: "exhaust" small scopes, "explore" cases, or those by "key" only."""

    name: str
    hunt: str
    patches: tuple[Patch, ...]


MUTANTS: Final = (
    Mutant(
        "no safety guard: what an unsafe message covers is purged (SRM §4.3: m1, m2, m3)",
        "exhaust",
        (
            Patch(
                "protocol/guard.py",
                "        return cover.seq <= self._last_safe",
                "        return cover.seq > 0",
            ),
        ),
    ),
    Mutant(
        "safety with one vote too few",
        "exhaust",
        (
            Patch(
                "protocol/stability/gossiping.py",
                "GossipTracker(members, index, True, config.f + 1)",
                "GossipTracker(members, index, True, config.f)",
            ),
        ),
    ),
    Mutant(
        "what waits is purged by an unsafe cover",
        "exhaust",
        (
            Patch(
                "protocol/member.py",
                "Inbound(source, self.config, self._guard, ",
                "Inbound(source, self.config, None, ",
            ),
        ),
    ),
    Mutant(
        "an unmarked message is purged",
        "exhaust",
        (
            Patch(
                "protocol/buffer.py",
                "        bits = cover.bitmap\n        nearest = cover.seq - 1\n",
                "        bits = cover.bitmap | 1\n        nearest = cover.seq - 1\n",
            ),
        ),
    ),
    Mutant(
        "off by one in the bitmap",
        "exhaust",
        (
            Patch(
                "protocol/buffer.py",
                "        bits = cover.bitmap\n        nearest = cover.seq - 1\n",
                "        bits = cover.bitmap\n        nearest = cover.seq - 2\n",
            ),
        ),
    ),
    Mutant(
        "a cover is forgotten: who asks for a purged message is never answered",
        "explore",
        (
            Patch(
                "protocol/member.py",
                "        covers.append((int(seq), by_source, by_seq))\n",
                "        covers.extend([])\n",
            ),
        ),
    ),
    Mutant(
        "a message is delivered twice",
        "explore",
        (
            Patch(
                "protocol/member.py",
                "                message.seq != inbound.next\n",
                "                inbound.next - message.seq not in (0, 1)\n",
            ),
        ),
    ),
    Mutant(
        "FIFO order broken: a message is handed on although an earlier one may come",
        "explore",
        (
            Patch(
                "protocol/member.py",
                "                message.seq != inbound.next\n",
                "                message.seq < inbound.next\n",
            ),
        ),
    ),
    Mutant(
        "stability with one vote too few: messages are released too early",
        "exhaust",
        (
            Patch(
                "protocol/stability/gossip.py",
                "            if voters != self._alive:\n",
                "            if (self._alive & ~voters).bit_count() > 1:\n",
            ),
        ),
    ),
    Mutant(
        "votes for what was only heard of",
        "explore",
        (
            Patch(
                "protocol/member.py",
                "            self._has(inbound.source, seq, now_ns)\n",
                "            self._has(inbound.source, inbound.newest, now_ns)\n",
            ),
        ),
    ),
    Mutant(
        "stale incarnation mixed in: lives of a sender are one source",
        "explore",
        (
            Patch(
                "ids.py",
                "return self.sender == other.sender and self.incarnation == other.incarnation",
                "return self.sender == other.sender",
            ),
            Patch("ids.py", "hash((sender, incarnation))", "hash(sender)"),
        ),
    ),
    Mutant(
        "a full buffer drops instead of refusing",
        "exhaust",
        (
            Patch(
                "protocol/member.py",
                "        if verdict is _FULL:\n            return False\n",
                "        if verdict is _FULL:\n            return True\n",
            ),
        ),
    ),
    Mutant(
        "a request is never repeated",
        "explore",
        (
            Patch(
                "protocol/repair.py",
                "want.due_ns = now_ns + min(patience, _RTO_MAX_NS)",
                "want.due_ns = now_ns + (patience << 40)",
            ),
        ),
    ),
    Mutant(
        "in place: a message goes to the front, and not where the one was that it replaces",
        "key",
        (
            Patch(
                "protocol/buffer.py",
                "        slot = self._vacated\n        if slot != 0:\n",
                "        slot = self._vacated\n"
                "        if slot != 0 and slot != self._links[0]:\n"
                "            self._vacated = 0\n"
                "            self._unlink(slot)\n"
                "            slot = self._store(lane, message, size, self._links[0])\n"
                "            self._number_places()\n"
                "            return slot\n"
                "        if slot != 0:\n",
            ),
        ),
    ),
    Mutant(
        "in place: an unmarked message moves too",
        "key",
        (
            Patch(
                "protocol/buffer.py",
                "        before = self._successor_in_stream(message) if late else 0\n",
                "        before = self._links[1] if message.bitmap == 0 else 0\n",
            ),
        ),
    ),
)


def exhaust_scopes() -> str:
    """What breaks in the first of a few small scopes that breaks anything."""
    from semcast.sim.exhaust import exhaust
    from semcast.sim.scope import Scope, relations

    every = relations(3)[1:7]
    # The first of these is large, and is left when it takes long.
    scopes = [Scope(every[0], ticks=1, losses=2)]
    scopes += [Scope(relation, ticks=1) for relation in every]
    scopes += [Scope(relation, ticks=1, slow=2, delivery_messages=1) for relation in every]
    for scope in scopes:
        outcome = exhaust(scope, seconds=8.0)
        if outcome.violations:
            return f"{scope.name}: {outcome.violations[0]}"
    return ""


def explore_cases(until_s: float, by_key: bool) -> str:
    """What breaks in the first case of the explorer, or of those by key, that breaks anything."""
    from semcast.sim.cases import case
    from semcast.sim.explore import judge

    for seed in count(1):
        scenario = case(seed)
        # With few bits not all messages of a key name each other: there is most to get wrong.
        if by_key and (scenario.protocol.order != "key" or scenario.protocol.k > 4):
            continue
        broken = judge(scenario).broken
        if broken:
            return f"case {seed}: {next(iter(broken.values()))}"
        if time.monotonic() > until_s:
            break
    return ""


def main(hunt: str) -> int:
    """Hunt, say what was caught, and exit accordingly."""
    until_s = time.monotonic() + HUNT_S
    found = exhaust_scopes() if hunt == "exhaust" else explore_cases(until_s, hunt == "key")
    print(found or "nothing was caught")
    return CAUGHT if found else SURVIVED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
