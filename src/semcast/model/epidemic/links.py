"""Which links a message is to take, and to whom they lead. Sets of links are the bits of a word."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semcast.model.epidemic.settings import Epidemic

Words: TypeAlias = NDArray[np.unsignedinteger[Any]]
Indices: TypeAlias = NDArray[np.intp]


def word_type(links: int) -> np.dtype[np.unsignedinteger[Any]]:
    """The smallest word that has a bit for each link."""
    for name, width in (("<u1", 8), ("<u2", 16), ("<u4", 32)):
        if links <= width:
            return np.dtype(name)
    return np.dtype("<u8")


def random_sets(rng: np.random.Generator, count: int, size: int, links: int) -> Words:
    """So many sets of `size` links each, every set as likely as any other.

    Links are added until a set is complete. No link is treated differently from another, so
    neither are sets.
    """
    kind = word_type(links)
    if 2 * size > links:  # fewer draws name those that are left out
        everything = kind.type((1 << links) - 1)
        sets: Words = random_sets(rng, count, links - size, links) ^ everything
        return sets
    bits = np.left_shift(kind.type(1), np.arange(links, dtype=kind))
    chosen: Words = np.zeros(count, kind)
    for _ in range(size):
        chosen |= bits[rng.integers(0, links, count, dtype=np.uint8)]
    short = np.flatnonzero(np.bitwise_count(chosen) < size)
    while len(short):
        chosen[short] |= bits[rng.integers(0, links, len(short), dtype=np.uint8)]
        short = short[np.bitwise_count(chosen[short]) < size]
    return chosen


def each_link(sets: Words) -> tuple[Indices, Indices]:
    """Every link of every set, one by one: the set's place in the array, and the link."""
    width = 8 * sets.dtype.itemsize
    bits = np.unpackbits(sets.view(np.uint8), bitorder="little")
    at = np.flatnonzero(bits.view(np.bool_))
    return at // width, at % width


class Overlay:
    """To whom each link of each member leads."""

    def __init__(self, settings: Epidemic, rng: np.random.Generator) -> None:
        self._members = settings.members
        self._rng = rng  # with a full view, for whom a copy is
        # With as many links as there are others, each link has another one at its end.
        self._complete = settings.used_links == settings.members - 1
        self._peers: NDArray[np.int32] | None = None
        if settings.view == "partial" and not self._complete:
            self._peers = random_views(rng, settings.members, settings.used_links)

    def targets(self, senders: Indices, links: Indices) -> Indices:
        """Who gets the copy that each of the senders puts on the link beside it."""
        if self._peers is not None:
            found: Indices = self._peers[senders, links].astype(np.intp)
            return found
        ahead = links if self._complete else self._rng.integers(0, self._members - 1, len(senders))
        # Nobody gossips to itself.
        targets = senders + ahead + 1
        targets[targets >= self._members] -= self._members
        return targets


def random_views(rng: np.random.Generator, members: int, links: int) -> NDArray[np.int32]:
    """For each member so many others, all different, every choice as likely as any other."""
    ahead = rng.integers(0, members - 1, (members, links), dtype=np.int32)
    rows = np.arange(members)
    while len(rows):
        part = np.sort(ahead[rows], axis=1)
        again = np.zeros(part.shape, np.bool_)
        again[:, 1:] = part[:, 1:] == part[:, :-1]
        part[again] = rng.integers(0, members - 1, int(again.sum()), dtype=np.int32)
        ahead[rows] = part
        rows = rows[again.any(axis=1)]
    own = np.arange(members, dtype=np.int32)[:, None]
    return (own + 1 + ahead) % members
