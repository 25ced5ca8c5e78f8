"""Small scopes: how many processes and messages, what replaces what, and what may go wrong.

`exhaust` goes through all runs of a scope. Knows nothing of how it does that.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, permutations, product
from typing import Final

from semcast.obsolescence.tagger import Predecessors, Ranked, Replaces
from semcast.protocol.config import MemberConfig
from semcast.wire.limits import Limits

NOBODY: Final = -1


@dataclass(frozen=True)
class Scope:
    """A small group, and what may happen in it."""

    # What each message of process 0 replaces.
    relation: tuple[Replaces, ...]
    processes: int = 3
    reliability: str = "group"
    purging: bool = True
    order: str = "fifo"
    f: int = 1
    # How votes travel, and how many children a member has in the tree; with one, it is a line.
    stability: str = "gossip"
    branching: int = 1
    # The member whose application takes nothing until the end, or nobody.
    slow: int = NOBODY
    delivery_messages: int = 8
    window_messages: int = 8
    # How many timers of all members fire at any time; the rest fire in the closing phase.
    ticks: int = 2
    losses: int = 0
    # Whether a sender that has multicast several messages may send one and then wait (SRM §5.3).
    paced: bool = False
    # Whether equal states of a member are one; off only to show that it makes no difference.
    merging: bool = True

    @property
    def name(self) -> str:
        """What each message replaces, for people: `-, -, 1`, or `a, -, a` (by key), or `a2, a1, -`
        (key and rank).
        """
        return ", ".join(map(_words, self.relation))

    def config(self) -> MemberConfig:
        """How every member is set up: timers as fast as they can be, everybody gossips with all."""
        return MemberConfig(
            reliability=self.reliability,
            purging=self.purging,
            order=self.order,
            k=len(self.relation),
            f=self.f,
            delivery_messages=self.delivery_messages,
            window_messages=self.window_messages,
            gossip_period_ns=1,
            gossip_fanout=self.processes,
            stability=self.stability,
            stability_branching=self.branching,
            nak_delay_ns=1,
            # A datagram with a message takes a nanosecond, so that the next waits for a timer.
            bandwidth_bytes_s=200_000_000_000 if self.paced else 0,
            limits=Limits(path_mtu_bytes=576),
        )


def relations(messages: int) -> list[tuple[Replaces, ...]]:
    """Every way in which messages of one sender can replace each other, by any annotation.

    A message names some earlier ones, or it has a key, or a key and a rank. By key it replaces the
    earlier ones of its key; by rank those of its key with lower ranks, which may come later too. A
    key that nothing else has changes nothing, and names that follow from others are not counted
    again.
    """
    found: dict[tuple[Replaces, ...], None] = {}
    for keyed in _keyed(list(range(messages))):
        subsets = [
            [()] if at in keyed else _subsets(list(range(1, at + 1))) for at in range(messages)
        ]
        for named in product(*subsets):
            closed: list[set[int]] = []
            for names in named:
                closed.append(set(names).union(*(closed[seq - 1] for seq in names)))
            found[
                tuple(
                    keyed.get(at)
                    or (Predecessors(tuple(sorted(closed[at]))) if closed[at] else None)
                    for at in range(messages)
                )
            ] = None
    return list(found)


def _keyed(left: list[int]) -> Iterator[dict[int, str | Ranked]]:
    """Every choice of keys and ranks among these messages; a key has two messages or more."""
    if not left:
        yield {}
        return
    first, *others = left
    yield from _keyed(others)
    for more in range(1, len(others) + 1):
        for chosen in combinations(others, more):
            rest = [at for at in others if at not in chosen]
            key = "abcdef"[first]
            ways: list[dict[int, str | Ranked]] = [dict.fromkeys((first, *chosen), key)]
            ways += [
                {at: Ranked(key, rank) for rank, at in enumerate(order)}
                for order in permutations((first, *chosen))
            ]
            for mine, of_others in product(ways, list(_keyed(rest))):
                yield mine | of_others


def _subsets(values: list[int]) -> list[tuple[int, ...]]:
    return [chosen for size in range(len(values) + 1) for chosen in combinations(values, size)]


def _words(replaces: Replaces) -> str:
    if isinstance(replaces, Predecessors):
        return "+".join(map(str, replaces.seqs))
    if isinstance(replaces, Ranked):
        return f"{replaces.key!s}{replaces.rank}"
    return "-" if replaces is None else str(replaces)
