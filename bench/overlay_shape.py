"""The shape of an overlay, measured from outside: what no member of it can know."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from random import Random
from statistics import fmean, pstdev

from semcast.protocol.epidemic.overlay.overlay import Overlay

# Clustering is looked at for so many members.
_SAMPLE = 1_000
# Shortest ways are looked for from so many members.
_STARTS = 5


@dataclass(frozen=True)
class Shape:
    """What the links and the passive views of all members make together."""

    members: int
    islands: int
    largest_island: int
    # Of all links that one end holds, the share that the other end holds too.
    symmetric: float
    degree_mean: float
    # How many members have so many neighbours.
    degrees: dict[int, int]
    # In how many passive views a member is.
    passive_in_mean: float
    passive_in_spread: float
    passive_in_min: int
    passive_size_mean: float
    # Of the entries of passive views, the share that names a member which is not there.
    passive_dead: float
    # Of the pairs of neighbours of a member, the share that are neighbours of each other.
    clustering: float
    # Links between two members on the shortest way, over some members.
    path_mean: float
    path_max: int


def shape_of(members: Mapping[int, Overlay]) -> Shape:
    """Measure the members that are alive."""
    held = {number: overlay.neighbours() for number, overlay in members.items()}
    links = sum(len(those) for those in held.values())
    both = {
        number: [other for other in those if number in held.get(other, ())]
        for number, those in held.items()
    }
    islands = _islands(both)
    paths = _paths(both)
    entered: Counter[int] = Counter()
    dead = entries = 0
    for overlay in members.values():
        for entry in overlay.views.passive.all():
            entries += 1
            other = members.get(int(entry.source.sender))
            if other is None or other.me.source != entry.source:
                dead += 1
            else:
                entered[int(entry.source.sender)] += 1
    ins = [entered[number] for number in members]
    return Shape(
        members=len(members),
        islands=len(islands),
        largest_island=max(islands, default=0),
        symmetric=sum(map(len, both.values())) / links if links else 1.0,
        degree_mean=links / max(len(members), 1),
        degrees=dict(sorted(Counter(map(len, held.values())).items())),
        passive_in_mean=fmean(ins) if ins else 0.0,
        passive_in_spread=pstdev(ins) if ins else 0.0,
        passive_in_min=min(ins, default=0),
        passive_size_mean=entries / max(len(members), 1),
        passive_dead=dead / entries if entries else 0.0,
        clustering=_clustering(both),
        path_mean=fmean(paths) if paths else 0.0,
        path_max=max(paths, default=0),
    )


def faults(members: Mapping[int, Overlay], passive_dead_max: float = 0.1) -> list[str]:
    """What is wrong with an overlay that had time to settle; nothing, if the list is empty."""
    shape = shape_of(members)
    found = []
    if shape.islands > 1:
        found.append(f"{shape.islands} islands, the largest of {shape.largest_island}")
    if shape.symmetric < 1.0:
        found.append(f"{1 - shape.symmetric:.1%} of the links are held at one end only")
    if shape.passive_dead > passive_dead_max:
        found.append(f"{shape.passive_dead:.0%} of the passive entries are dead")
    for number, overlay in members.items():
        active, passive = overlay.neighbours(), overlay.views.passive.all()
        others = [int(entry.source.sender) for entry in passive]
        if len(active) > overlay.config.active_max or len(others) > overlay.config.passive_max:
            found.append(f"views of {len(active)} and {len(others)} at {number}")
        if number in active or number in others or set(active) & set(others):
            found.append(f"{number} knows itself, or a neighbour twice")
    return found


def _islands(links: Mapping[int, list[int]]) -> list[int]:
    """The sizes of the sets of members that are connected with each other."""
    sizes = []
    left = set(links)
    while left:
        reached = [left.pop()]
        for number in reached:
            for other in links[number]:
                if other in left:
                    left.discard(other)
                    reached.append(other)
        sizes.append(len(reached))
    return sizes


def _paths(links: Mapping[int, list[int]]) -> list[int]:
    """The lengths of the shortest ways from a few members to all that they are connected with."""
    lengths: list[int] = []
    for number in Random("paths").sample(sorted(links), min(_STARTS, len(links))):
        steps = {number: 0}
        line = [number]
        for one in line:
            for other in links[one]:
                if other not in steps:
                    steps[other] = steps[one] + 1
                    line.append(other)
        lengths.extend(steps[other] for other in line[1:])
    return lengths


def _clustering(links: Mapping[int, list[int]]) -> float:
    some = Random("clustering").sample(sorted(links), min(_SAMPLE, len(links)))
    shares = []
    for number in some:
        those = links[number]
        pairs = len(those) * (len(those) - 1) // 2
        if pairs:
            near = sum(two in links[one] for one, two in combinations(those, 2))
            shares.append(near / pairs)
    return fmean(shares) if shares else 0.0
