"""`python -m bench.stability`: what a round costs one member, by each of the six trackers.

A round is run once among n members without a network, and what reaches two of them is recorded: the
root, which in CoordP hears everybody, and the last member. Then each of the two is made anew and
gets the same messages again, this time measured: processor time for one round, and the bytes that
it holds at most and after the round, its tree included, as in a process of its own.

Once with 16 senders and once with all n, as in the paper. Gossip keeps senders in pages of four,
all alike: one page is measured and counted as often as there are pages. JSON goes to standard
output, a table to standard error.
"""

import json
import random
import sys
import time
import tracemalloc
from collections import deque
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

import semcast.protocol.stability.gossip.tracker
import semcast.protocol.stability.rounds.tracker
from semcast.ids import Source
from semcast.protocol.membership.view import View
from semcast.protocol.stability.followed import SENDERS_PER_PAGE, Followed
from semcast.protocol.stability.gossip.tracker import GossipTracker
from semcast.protocol.stability.rounds.shape import filled_tree
from semcast.protocol.stability.rounds.tracker import EVERYBODY, RoundMessage, RoundTracker
from semcast.sim.stability.parties import TRACKERS
from semcast.wire.families.votes import Progress, Vector

SIZES = (16, 256, 4096)
FEW_SENDERS = 16
BRANCHING = 4
FANOUT = 3
ROUNDS = 5
SECONDS_MIN = 0.05
TICKS_MAX = 200
Heard = list[tuple[RoundMessage, int]]


@dataclass
class Cost:
    """One member, one round."""

    cpu_us: float
    held_bytes: int
    peak_bytes: int
    messages: int


def tracker(name: str, members: int, me: int, width: int) -> RoundTracker:
    """A member that has something of every sender."""
    found = TRACKERS[name](members, me, width, members, filled_tree(members, BRANCHING))
    found.own = np.arange(1, width + 1) + me % 5
    return found


def record(name: str, members: int, width: int, observed: tuple[int, ...]) -> dict[int, Heard]:
    """One round; what reaches the observed members.

    In FullDist everybody hears everybody. What the others hear of each other changes nothing for
    those observed, so it is left out.
    """
    shape = filled_tree(members, BRANCHING)
    group = [TRACKERS[name](members, me, width, members, shape) for me in range(members)]
    owns = [np.arange(1, width + 1) + at for at in range(5)]
    heard: dict[int, Heard] = {me: [] for me in observed}
    waiting: deque[tuple[int, int, RoundMessage]] = deque()

    def collect(me: int) -> None:
        for to, message in group[me].take_out():
            everybody = range(members) if name != "fulldist" or me == 0 else observed
            targets = everybody if to == EVERYBODY else (to,)
            waiting.extend((me, target, message) for target in targets if target != me)

    for me, one in enumerate(group):
        one.own = owns[me % 5]
    group[0].start(0)
    collect(0)
    while waiting:
        sender, target, message = waiting.popleft()
        if target in heard:
            heard[target].append((message, sender))
        group[target].on_round_message(message, sender, 0)
        collect(target)
    for me in observed:
        if not (group[me].agreed == owns[0]).all():
            sys.exit(f"bench: {name} with {members} members did not agree at member {me}")
    return heard


def replay(one: RoundTracker, heard: Heard) -> None:
    if one.me == 0:
        one.start(0)
        one.take_out()
    for message, sender in heard:
        one.on_round_message(message, sender, 0)
        one.take_out()


def from_wire(heard: Heard) -> Heard:
    """The same messages with arrays of their own, as they come from a decoder."""
    return [
        (
            RoundMessage(
                message.kind,
                message.epoch,
                message.round,
                message.root,
                message.count,
                None if message.values is None else message.values.copy(),
            ),
            sender,
        )
        for message, sender in heard
    ]


def measure(name: str, members: int, width: int, me: int, heard: Heard) -> Cost:
    best = float("inf")
    for _ in range(ROUNDS):
        spent, times = 0.0, 0
        while spent < SECONDS_MIN:
            one = tracker(name, members, me, width)
            started = time.process_time()
            replay(one, heard)
            spent += time.process_time() - started
            times += 1
        best = min(best, spent / times)
    tracemalloc.start()
    one = tracker(name, members, me, width)
    if one.me == 0:
        one.start(0)
        one.take_out()
    for at in range(len(heard)):
        # One message after another comes from the wire and goes.
        message, sender = from_wire(heard[at : at + 1])[0]
        one.on_round_message(message, sender, 0)
        one.take_out()
        del message
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return Cost(best * 1e6, held, peak, len(heard))


# -- gossip ----------------------------------------------------------------------------------------


def gossip_tracker(members: int, me: int) -> GossipTracker:
    """A member that has nothing."""
    followed = Followed(View.first(list(range(members)), 0), True)
    return GossipTracker(followed, Source(me, 1), safety=False, votes=0)


def gossip_member(members: int, me: int) -> GossipTracker:
    """One page of senders."""
    one = gossip_tracker(members, me)
    for sender in range(SENDERS_PER_PAGE):
        one.has(Source(sender, 1), 1 + sender + me % 5)
    return one


def record_gossip(members: int, me: int) -> list[list[Vector]]:
    """What reaches a member, period by period, until a round is over there."""
    stream = random.Random(f"{members}/gossip")
    group = [gossip_member(members, at) for at in range(members)]
    source = Source(0, 1)
    periods: list[list[Vector]] = []
    for _ in range(TICKS_MAX):
        vectors: list[Vector] = []
        for at, one in enumerate(group):
            vectors = one.vectors()
            for peer in stream.sample(range(members), FANOUT):
                for vector in vectors if peer != at else ():
                    # As it would be decoded: the rows of a vector are the tracker's own.
                    rows = [Progress(r.source, r.agreed, r.lowest, r.newest) for r in vector.rows]
                    copy = Vector(
                        vector.view, vector.number, False, vector.round, vector.voters, rows
                    )
                    group[peer].on_vector(copy)
                    if peer == me:
                        vectors.append(copy)
        periods.append(vectors)
        if group[me].agreed(source) > 0:
            return periods
    sys.exit(f"bench: gossip among {members} did not agree in {TICKS_MAX} periods")


def replay_gossip(one: GossipTracker, periods: list[list[Vector]]) -> None:
    for vectors in periods:
        one.on_period()
        one.vectors()
        for vector in vectors:
            one.on_vector(vector)


def measure_gossip(members: int, width: int, me: int, periods: list[list[Vector]]) -> Cost:
    pages = -(-width // SENDERS_PER_PAGE)
    best = float("inf")
    for _ in range(ROUNDS):
        one = gossip_member(members, me)
        started = time.process_time()
        replay_gossip(one, periods)
        best = min(best, time.process_time() - started)
    tracemalloc.start()
    empty = gossip_tracker(members, me)
    shared = tracemalloc.get_traced_memory()[0]
    one = gossip_member(members, me)
    replay_gossip(one, periods)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del empty
    # Twice the view was made; only the page is there as often as there are pages.
    page, page_peak = held - 2 * shared, peak - 2 * shared
    messages = sum(len(vectors) for vectors in periods) * pages
    held, peak = shared + page * pages, shared + page * (pages - 1) + page_peak
    return Cost(best * 1e6 * pages, max(held, 0), max(peak, 0), messages)


# -- results ---------------------------------------------------------------------------------------


def run(members: int, width: int) -> dict[str, dict[str, Cost]]:
    """For each tracker, the cost of the root and of the last member."""
    found: dict[str, dict[str, Cost]] = {}
    roles = {"root": 0, "last": members - 1}
    for name in TRACKERS:
        heard = record(name, members, width, tuple(roles.values()))
        found[name] = {
            role: measure(name, members, width, me, heard[me]) for role, me in roles.items()
        }
    periods = record_gossip(members, members - 1)
    found["gossip"] = {"last": measure_gossip(members, width, members - 1, periods)}
    return found


def show(console: Console, results: dict[str, dict[str, dict[str, Cost]]]) -> None:
    table = Table(title="One round at one member: CPU / bytes held", title_justify="left")
    table.add_column("")
    for title in results:
        table.add_column(title, justify="right")
    for name in [*TRACKERS, "gossip"]:
        for role in ("root", "last"):
            cells = []
            for by_name in results.values():
                cost = by_name[name].get(role)
                cells.append(f"{cost.cpu_us:,.0f} µs / {cost.held_bytes:,}" if cost else "")
            if any(cells):
                table.add_row(
                    f"{name}, {role} member" if role == "last" else f"{name}, root", *cells
                )
    console.print(table)


def build() -> str:
    """All trackers must be built alike, or the comparison says nothing."""
    compiled = {
        not str(module.__file__).endswith(".py")
        for module in (
            semcast.protocol.stability.gossip.tracker,
            semcast.protocol.stability.rounds.tracker,
        )
    }
    if len(compiled) > 1:
        sys.exit("bench: some trackers are compiled and others are not: run make setup")
    return "compiled" if compiled.pop() else "interpreted"


def main() -> None:
    console = Console(stderr=True)
    built = build()
    results: dict[str, dict[str, dict[str, Cost]]] = {}
    for members in SIZES:
        for width in sorted({min(FEW_SENDERS, members), members}):
            console.print(f"{members:,} members, {width:,} senders ...")
            results[f"n = {members:,}, {width:,} send"] = run(members, width)
    show(console, results)
    report = {
        "build": built,
        "rounds": {
            title: {
                name: {role: vars(cost) for role, cost in by_role.items()}
                for name, by_role in by_name.items()
            }
            for title, by_name in results.items()
        },
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
