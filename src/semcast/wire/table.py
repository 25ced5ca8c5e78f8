"""The table: the number of a control frame in; its name, its flags and its reader out.

A new family is a file in `families/` and a line in `FAMILIES`; a new frame of a family is a class
there and a line in its `FAMILY`.
"""

from collections.abc import Iterable
from typing import Final

from semcast.wire.body import FrameType
from semcast.wire.families import (
    agreement,
    epidemic,
    lives,
    measures,
    overlay,
    pasts,
    probes,
    propagation,
    pull,
    readers,
    repair,
    rounds,
    state,
    votes,
)
from semcast.wire.frames import DATA, NOTE

FAMILIES: Final[tuple[tuple[FrameType, ...], ...]] = (
    repair.FAMILY,
    votes.FAMILY,
    rounds.FAMILY,
    measures.FAMILY,
    lives.FAMILY,
    agreement.FAMILY,
    probes.FAMILY,
    readers.FAMILY,
    state.FAMILY,
    pasts.FAMILY,
    epidemic.FAMILY,
    overlay.FAMILY,
    pull.FAMILY,
    propagation.FAMILY,
)


def assemble(families: Iterable[tuple[FrameType, ...]]) -> dict[int, FrameType]:
    """The lines of all families by number; each number is claimed once."""
    table: dict[int, FrameType] = {}
    for family in families:
        for line in family:
            kind = int(line.kind)
            assert 0 <= kind <= 0xFF, "a number is one byte"
            assert 0 <= line.flags <= 0xFF, "flags are one byte"
            assert kind not in (DATA, NOTE), "these are no control frames"
            assert kind not in table, f"two claim frame number {kind:#x}"
            table[kind] = line
    return table


TABLE: Final[dict[int, FrameType]] = assemble(FAMILIES)
