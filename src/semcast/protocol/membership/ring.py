"""The ring: a view in; whom a member watches, and who watches it, out.

The ring has the order of sender ids. These are hashes in live groups, so neighbours on the ring are
not neighbours elsewhere, and a member that comes or goes changes little for anybody else. Everybody
with the same view knows the same ring.
"""

from bisect import bisect_left
from collections.abc import Set as AbstractSet

from semcast.ids import Randomness


def watchers_of(ring: list[int], me: int, count: int) -> list[int]:
    """Those who follow on the ring, which is in order: as many as watch each member."""
    at, size = bisect_left(ring, me), len(ring)
    if at == size or ring[at] != me:
        return []
    return [ring[(at + step) % size] for step in range(1, min(count, size - 1) + 1)]


def watched_by(ring: list[int], me: int, count: int, accused: AbstractSet[int]) -> list[int]:
    """Those who go before on the ring, from the nearest on: as many as a member watches, and for
    each of them that is accused another one, since whoever else would watch that may be dead, too.
    """
    at, size = bisect_left(ring, me), len(ring)
    found: list[int] = []
    if at == size or ring[at] != me:
        return found
    trusted = 0
    for step in range(1, size):
        if trusted == count:
            break
        found.append(ring[at - step])
        trusted += 0 if found[-1] in accused else 1
    return found


def draw(among: list[int], count: int, without: AbstractSet[int], random: Randomness) -> list[int]:
    """Some of these, but none of those; fewer if chance would have it, so that it takes no time."""
    drawn: list[int] = []
    for _ in range(4 * count if among else 0):
        sender = among[random.randrange(len(among))]
        if sender not in without and sender not in drawn:
            drawn.append(sender)
            if len(drawn) == count:
                break
    return drawn
