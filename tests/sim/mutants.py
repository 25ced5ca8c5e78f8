"""Broken variants of the protocol, and how each is hunted. Run as a script inside a patched copy.

A mutant is a change of text in a file of the package. The copy that has it runs interpreted, in a
process of its own, until a run of it breaks a promise, or after so many that it would have done so
long ago; how fast the machine is does not matter.
"""

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

if TYPE_CHECKING:
    from semcast.sim.scenario import ProtocolScenario

CAUGHT: Final = 1
SURVIVED: Final = 0
# How far a hunt goes: cases, runs of trackers, and states of each scope, nearly all of which have
# fewer. Every variant is caught long before.
BOUNDS: Final = {"trackers": 3_000, "exhaust": 3_000}
CASES: Final = 500


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
    """A broken variant, and how it is hunted.

    `hunt`: "exhaust" small scopes, "explore" cases, or only those by "key"; cases by "rounds", with
    each protocol of STAB in turn, or only those of them in which somebody comes "back"; or
    "trackers" alone, without members, of which many more runs fit into the time. `first`: the seed
    (or the number of the scope) to begin with, near one that was seen to break, where that saves
    much time. `bound`: how many to hunt through.
    """

    name: str
    hunt: str
    patches: tuple[Patch, ...]
    first: int = 1
    bound: int = 0  # of all that are hunted in this way

    @property
    def hunt_max(self) -> int:
        return self.bound or BOUNDS.get(self.hunt, CASES)


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
                "protocol/streams.py",
                "Inbound(source, self._config, self._guard, ",
                "Inbound(source, self._config, None, ",
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
        first=3,
    ),
    Mutant(
        "a cover is forgotten: who asks for a purged message is never answered",
        "explore",
        (
            Patch(
                "protocol/requests.py",
                "        covers.append((int(seq), by_source, by_seq))\n",
                "        covers.extend([])\n",
            ),
        ),
        first=15,
    ),
    Mutant(
        "a message is delivered twice",
        "explore",
        (
            Patch(
                "protocol/streams.py",
                "                message.seq != inbound.next\n",
                "                inbound.next - message.seq not in (0, 1)\n",
            ),
        ),
        first=11,
    ),
    Mutant(
        "FIFO order broken: a message is handed on although an earlier one may come",
        "explore",
        (
            Patch(
                "protocol/streams.py",
                "                message.seq != inbound.next\n",
                "                message.seq < inbound.next\n",
            ),
        ),
        first=11,
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
                "protocol/streams.py",
                "            self._voting.has(inbound.source, seq, now_ns)\n",
                "            self._voting.has(inbound.source, inbound.newest, now_ns)\n",
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
                "protocol/streams.py",
                "        if verdict is _FULL:\n            return False\n",
                "        if verdict is _FULL:\n            return True\n",
            ),
        ),
        first=8,
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
                "        if slot != 0 and takes_turns(message):\n",
                "        if slot != 0 and slot != self._links[0]:\n"
                "            self._unlink(slot)\n"
                "            slot = self._store(lane, message, size, self._links[0])\n"
                "            self._number_places()\n"
                "            return slot\n"
                "        if slot != 0 and takes_turns(message):\n",
            ),
        ),
        first=315,
    ),
    Mutant(
        "in place: a value has its turn before an older one of its key",
        "key",
        (
            Patch(
                "protocol/buffer.py",
                "return fresh if turns.alone(self._at(fresh)) else head",
                "return fresh",
            ),
        ),
        first=198,
    ),
    Mutant(
        "in place: an unmarked message moves too",
        "key",
        (
            Patch(
                "protocol/buffer.py",
                "            before = self._successor_in_stream(message) if late else 0\n",
                "            before = self._links[1] if message.bitmap == 0 else 0\n",
            ),
        ),
    ),
    Mutant(
        "rounds: votes of another epoch count, and so do those of a former life",
        "trackers",
        (
            Patch(
                "protocol/stability/rounds.py",
                "        if told.epoch != self.roll.epoch:\n            self.strange = True\n",
                "        if told.epoch < 0:\n            self.strange = True\n",
            ),
        ),
        first=600,
    ),
    Mutant(
        "rounds: nobody minds that somebody has begun another life",
        "trackers",
        (
            Patch(
                "protocol/stability/roll.py",
                "            self._change(member, self.life(member), life)\n",
                "            self._change(member, life, life)\n",
            ),
        ),
        first=70,
    ),
    Mutant(
        "rounds: a newcomer votes at once instead of abstaining",
        "back",
        (
            Patch(
                "protocol/stability/round_part.py",
                "        self.joined = not joining\n",
                "        self.joined = True\n",
            ),
        ),
    ),
    Mutant(
        "rounds: one ends although a vote is missing",
        "rounds",
        (
            Patch(
                "protocol/stability/round_part.py",
                "(self._missing.count == 0 or ",
                "(self._missing.count <= 1 or ",
            ),
            Patch(
                "protocol/stability/round_part.py",
                "self._votes.count != self.roll.alive_count",
                "self._votes.count < self.roll.alive_count - 1",
            ),
        ),
    ),
    Mutant(
        "rounds: a vote that comes twice counts twice",
        "trackers",
        (
            Patch(
                "protocol/stability/rounds.py",
                "        if self._phase != GATHERING or not self._missing.remove(sender):\n"
                "            return False\n",
                "        if self._phase != GATHERING:\n"
                "            return False\n"
                "        self._missing.remove(sender)\n",
            ),
        ),
    ),
    Mutant(
        "rounds: who waits in vain does not ask again",
        "rounds",
        (
            Patch(
                "protocol/stability/rounds.py",
                "        return self._pull(now_ns) if self._phase == GATHERING else False\n",
                "        return False\n",
            ),
        ),
    ),
)


def exhaust_scopes(first: int, states_max: int) -> str:
    """What breaks in the first of a few small scopes that breaks anything."""
    from semcast.sim.exhaust import exhaust
    from semcast.sim.scope import Scope, relations

    every = relations(3)[1:7]
    # The first of these is large, and is left after a while.
    scopes = [Scope(every[0], ticks=1, losses=2)]
    scopes += [Scope(relation, ticks=1) for relation in every]
    scopes += [Scope(relation, ticks=1, slow=2, delivery_messages=1) for relation in every]
    for scope in scopes[first - 1 :] + scopes[: first - 1]:
        outcome = exhaust(scope, states_max=states_max)
        if outcome.violations:
            return f"{scope.name}: {outcome.violations[0]}"
    return ""


def cases(hunt: str, first: int) -> Iterator["ProtocolScenario"]:
    """The cases of the explorer, from a seed on, that a hunt is after."""
    from semcast.sim.cases import case
    from semcast.sim.scenario import Restart, Stability

    every: tuple[Stability, ...] = get_args(Stability)
    rounds = [name for name in every if name != "gossip"]
    for seed in count(first):
        by_rounds = hunt in ("rounds", "back")
        scenario = case(seed, rounds[seed % len(rounds)] if by_rounds else None)
        # With few bits not all messages of a key name each other: there is most to get wrong.
        if hunt == "key" and (scenario.protocol.order != "key" or scenario.protocol.k > 4):
            continue
        if hunt == "back" and not any(isinstance(one, Restart) for one in scenario.processes):
            continue
        yield scenario


def explore_cases(hunt: str, first: int, cases_max: int) -> str:
    """What breaks in the first of the cases that breaks anything."""
    from semcast.sim.explore import judge

    for scenario in islice(cases(hunt, first), cases_max):
        broken = judge(scenario).broken
        if broken:
            by = scenario.protocol.stability
            return f"case {scenario.seed} ({by}): {next(iter(broken.values()))}"
    return ""


def run_trackers(first: int, runs_max: int) -> str:
    """What breaks in the first group of trackers that breaks: stability or safety, in turn."""
    sys.path.append(str(Path(__file__).parents[2]))
    from tests.protocol.stability.lossy_group import TRACKERS, restless_group

    kinds = sorted(TRACKERS)
    for seed in range(first, first + runs_max):
        kind, members = kinds[seed % len(kinds)], 3 + seed // len(kinds) % 5
        votes = 3 if seed % 2 and members > 3 else members
        try:
            restless_group(kind, members, votes, random.Random(seed))
        except AssertionError as error:
            return f"run {seed} ({kind}), agreed too early: {error}"
    return ""


def main(hunt: str, first: int, hunt_max: int) -> int:
    """Hunt, say what was caught, and exit accordingly."""
    if hunt == "exhaust":
        found = exhaust_scopes(first, hunt_max)
    elif hunt == "trackers":
        found = run_trackers(first, hunt_max)
    else:
        found = explore_cases(hunt, first, hunt_max)
    print(found or "nothing was caught")
    return CAUGHT if found else SURVIVED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
