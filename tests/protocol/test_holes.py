"""Holes: ranges of missing numbers behave as the set of those numbers does."""

from hypothesis import given
from hypothesis import strategies as st

from semcast.protocol.streams.holes import Holes

NUMBERS = st.integers(1, 40)


def in_order(holes: Holes) -> set[int]:
    """The numbers in the ranges, which must be in order, apart and not empty (INV-HOLES)."""
    found: set[int] = set()
    end = -1
    for first, last in holes.ranges():
        assert end + 1 < first <= last
        end = last
        found |= set(range(first, last + 1))
    return found


@given(st.lists(st.tuples(st.booleans(), NUMBERS, st.integers(0, 12))), NUMBERS, NUMBERS)
def test_ranges_hold_what_a_set_of_numbers_would(
    steps: list[tuple[bool, int, int]], first: int, length: int
) -> None:
    holes, naive = Holes(), set[int]()
    for adds, begin, more in steps:
        some = set(range(begin, begin + more + 1))
        if not adds:
            holes.fill(begin, begin + more)
            naive -= some
        elif not naive & some:
            holes.add(begin, begin + more)
            naive |= some
        assert in_order(holes) == naive
        assert [holes.has(seq) for seq in range(60)] == [seq in naive for seq in range(60)]
    last = first + length
    assert holes.has_all(first, last) == (set(range(first, last + 1)) <= naive)
    assert holes.has_any(first, last) == bool(set(range(first, last + 1)) & naive)
    for at, (begin, end) in enumerate(holes.ranges()):
        assert holes.range_at(at) == (begin, end)
