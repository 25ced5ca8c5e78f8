"""Checks of trees and rings: indices in, what is wrong with them out, if anything.

Trees from the network and trees given by users are checked here. Knows nothing of bytes.
"""

from collections.abc import Sequence


def tree_fault(parents: Sequence[int], ring: Sequence[int]) -> str:
    """What is wrong with a tree over members 0 to n - 1, in one line, or "".

    The root is its own parent. The ring begins at the root and has each member once.
    """
    members = len(parents)
    if members == 0 or len(ring) != members:
        return f"tree of {members} members with a ring of {len(ring)}"
    on_ring = bytearray(members)
    for member in ring:
        if not 0 <= member < members or on_ring[member]:
            return f"ring of {members} members has member {member} twice, or there is none"
        on_ring[member] = 1
    for member, parent in enumerate(parents):
        if not 0 <= parent < members:
            return f"member {member} of {members} hangs on member {parent}, who does not exist"
    root = ring[0]
    if parents[root] != root:
        return f"ring begins at member {root}, who is not the root but hangs on {parents[root]}"
    return _cycle(parents, root)


def _cycle(parents: Sequence[int], root: int) -> str:
    """Says which member never reaches the root, or "" if all do."""
    # Members that are known to reach the root; so each is passed at most twice.
    reaches = bytearray(len(parents))
    reaches[root] = 1
    for member in range(len(parents)):
        way: list[int] = []
        at = member
        while not reaches[at] and len(way) <= len(parents):
            way.append(at)
            at = parents[at]
        if not reaches[at]:
            return f"member {member} of {len(parents)} never reaches the root, member {root}"
        for passed in way:
            reaches[passed] = 1
    return ""
