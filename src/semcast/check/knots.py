"""Whether sequences fit into one order: numbered messages in, *knots* out.

The union of the sequences is a graph of which only the edges between neighbours are needed. If it
has no cycle, any topological order of it is one order that all sequences follow, and no two of them
disagree about any pair. A knot is a set of messages that all come before each other, on cycles
(a strongly connected component); where there are none, that took time linear in the rows, beside
one sort. Knots are small if little is wrong, and only they are searched for what to tell.
"""

from array import array
from collections.abc import Sequence
from typing import Final, NamedTuple, final

import numpy as np

from semcast.check.rows import Longs


def knots_in(sequences: Sequence[Longs], count: int) -> list[list[int]]:
    """The knots of these sequences, in each of which a message is at most once."""
    pairs = [one for one in sequences if len(one) > 1]
    if not pairs:
        return []
    before = np.concatenate([one[:-1] for one in pairs])
    after = np.concatenate([one[1:] for one in pairs])
    # Members of one group mostly deliver the same messages one after the other.
    edges = np.unique(before * count + after)
    before, after = edges // count, edges % count
    left = _left_over(before, after, count)
    if not len(left):
        return []
    kept = np.isin(before, left) & np.isin(after, left)
    return _components(left.tolist(), before[kept], after[kept], count)


def _starts(before: Longs, count: int) -> "array[int]":
    """Where the edges of each message begin; they are sorted by it."""
    return array("q", np.searchsorted(before, np.arange(count + 1)).astype(np.int64).tobytes())


def _left_over(before: Longs, after: Longs, count: int) -> Longs:
    """What no topological order reaches: cycles, and what comes after them (Kahn)."""
    missing = array("q", np.bincount(after, minlength=count).astype(np.int64).tobytes())
    starts = _starts(before, count)
    targets = array("q", after.astype(np.int64).tobytes())
    ready = array("q", np.flatnonzero(np.frombuffer(missing, np.int64) == 0).tobytes())
    for message in ready:
        for further in targets[starts[message] : starts[message + 1]]:
            missing[further] -= 1
            if not missing[further]:
                ready.append(further)
    return np.flatnonzero(np.array(missing, np.int64))


def _components(left: list[int], before: Longs, after: Longs, count: int) -> list[list[int]]:
    """The strongly connected components of more than one message (Tarjan, without recursion)."""
    starts, targets = _starts(before, count), after.tolist()
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()
    found: list[list[int]] = []
    for root in left:
        work = [(root, starts[root])] if root not in index else []
        while work:
            message, edge = work.pop()
            if message not in index:
                index[message] = low[message] = len(index)
                path.append(message)
                on_path.add(message)
            if edge < starts[message + 1]:
                work.append((message, edge + 1))
                further = targets[edge]
                if further not in index:
                    work.append((further, starts[further]))
                elif further in on_path:
                    low[message] = min(low[message], index[further])
                continue
            if low[message] == index[message]:
                knot = [path.pop()]
                while knot[-1] != message:
                    knot.append(path.pop())
                on_path.difference_update(knot)
                if len(knot) > 1:
                    found.append(knot)
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[message])
    return found


class Inversion(NamedTuple):
    """One sequence has the first message before the second, and another has it after that."""

    first: int
    second: int


@final
class Knot:
    """The messages of one knot as sequences have them: by sequence, in their order."""

    def __init__(self, sequences: dict[int, list[int]]) -> None:
        self.sequences: Final = sequences
        self.places: Final = {
            number: {message: place for place, message in enumerate(messages)}
            for number, messages in sequences.items()
        }

    def inversions(
        self, one: int, other: int, gids: dict[int, int]
    ) -> tuple[Inversion | None, Inversion | None]:
        """The first pair about which two sequences disagree; and the first of one group."""
        places = self.places[other]
        latest: int | None = None
        of_group: dict[int, int] = {}
        any_pair: Inversion | None = None
        for message in self.sequences[one]:
            place = places.get(message)
            if place is None:
                continue
            gid = gids[message]
            last = of_group.get(gid)
            if last is not None and places[last] > place:
                return any_pair or Inversion(last, message), Inversion(last, message)
            of_group[gid] = message
            if latest is not None and places[latest] > place:
                any_pair = any_pair or Inversion(latest, message)
            else:
                latest = message
        return any_pair, None

    def shortest_cycle(self, start: int) -> list[tuple[int, int, int]]:
        """A cycle through a message with as few sequences as there can be: (number of a sequence,
        a message, one that comes after it there), the last of which is `start`.
        """
        came: dict[int, tuple[int, int]] = {}
        # By sequence: everything from here on was reached. INV-ONCE: nothing is looked at twice.
        reached = {number: len(messages) for number, messages in self.sequences.items()}
        front = [start]
        while front:
            following = []
            for message in front:
                for number, places in self.places.items():
                    place = places.get(message)
                    if place is None:
                        continue
                    messages = self.sequences[number]
                    for after in messages[place + 1 : reached[number]]:
                        if after not in came:
                            came[after] = (number, message)
                            following.append(after)
                    reached[number] = min(reached[number], place + 1)
                    if start in came:
                        return self._traced(came, start)
            front = following
        raise AssertionError("a message of a knot is on no cycle")

    def _traced(self, came: dict[int, tuple[int, int]], start: int) -> list[tuple[int, int, int]]:
        steps: list[tuple[int, int, int]] = []
        message = start
        while not steps or message != start:
            number, before = came[message]
            steps.append((number, before, message))
            message = before
        return steps[::-1]
