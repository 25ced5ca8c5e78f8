"""Views and changes survive being cut into parts; anything else is refused."""

import random
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.errors import RemoteProtocolError
from semcast.ids import ID_MAX, NEVER, Source
from semcast.protocol.membership.collecting import ANSWER_PARTS_MAX, COLLECTED_MAX, Collecting
from semcast.protocol.membership.parcels import (
    MEMBERS_MAX,
    change_parcel,
    intern_change,
    parcel_name,
    read_change,
    read_view,
    view_after,
    view_parcel,
)
from semcast.protocol.membership.view import Change, View
from semcast.settings.table import GROUP_SIZE_MAX
from semcast.wire.families.agreement import PART_BYTES_MAX, PARTS_MAX, VIEW_PARCEL, PartOf

MS = 1_000_000
IDS = st.integers(0, ID_MAX) | st.sampled_from([0, 1, ID_MAX])
SENDERS = st.lists(IDS, max_size=6, unique=True).map(lambda ids: tuple(sorted(ids)))


@st.composite
def changes(draw: st.DrawFn) -> Change:
    joins = tuple((sender, draw(IDS), draw(st.text(max_size=20))) for sender in draw(SENDERS))
    return Change(joins, draw(SENDERS), draw(SENDERS))


def view_of(members: int, name: str = "p") -> View:
    ids = tuple(range(members))
    names = tuple(f"{name}{at}" for at in ids)
    since = tuple(1 + at % 3 for at in ids)
    return View(3, ids, tuple(7 + at for at in ids), 1, names, 0b10 if members > 2 else 0, since, 9)


@given(change=changes(), number=st.integers(1, 1 << 31))
def test_a_change_comes_back_as_it_was(change: Change, number: int) -> None:
    parcel = change_parcel(change, number)
    assert (parcel.number, read_change(parcel.data)) == (number, change)
    assert intern_change(parcel.data, int(parcel.name)) == change


@pytest.mark.parametrize("members", [1, 3, 100])
def test_a_view_comes_back_as_it_was(members: int) -> None:
    view = view_of(members)
    parcel = view_parcel(view)
    back = read_view(parcel.data, int(parcel.name))
    assert (back.digest, back.number, back.names) == (view.digest, view.number, view.names)
    assert (back.since, back.origin, back.f, back.gone) == (view.since, 9, 1, view.gone)
    # All who are told the same view share it.
    assert read_view(parcel.data, int(parcel.name)) is back


def test_a_view_of_the_largest_group_fits_the_parts_that_there_may_be() -> None:
    assert MEMBERS_MAX == GROUP_SIZE_MAX
    row_bytes = 8 + 8 + 4 + 1 + 1 + 255
    assert 24 + MEMBERS_MAX * row_bytes <= PARTS_MAX * PART_BYTES_MAX


def test_a_name_that_is_too_long_is_cut_between_characters() -> None:
    view = View.alone(Source(1, 1), "é" * 200, 5)
    parcel = view_parcel(view)
    assert read_view(parcel.data, int(parcel.name)).names == ("é" * 127,)


def test_views_that_follow_from_the_same_are_shared() -> None:
    view = view_of(4)
    change = Change(gone=(2,))
    after = view_after(view, change, 1)
    assert view_after(view, Change(gone=(2,)), 1) is after
    assert view_after(view, Change(gone=(3,)), 1).digest != after.digest
    assert view_after(view, change, 0).f == 0


@given(data=st.binary(max_size=200))
def test_any_bytes_are_a_parcel_or_are_refused(data: bytes) -> None:
    with suppress(RemoteProtocolError):
        read_change(data)
    with suppress(RemoteProtocolError):
        read_view(data, parcel_name(data))


@pytest.mark.parametrize("view", [True, False])
def test_parcels_with_one_byte_changed_are_read_or_refused(view: bool) -> None:
    change = Change(((5, 1, "p5"), (6, 2, "p6")), (1,), (2, 3))
    data = view_parcel(view_of(4)).data if view else change_parcel(change, 3).data
    for at in range(len(data)):
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            changed = data[:at] + bytes([value]) + data[at + 1 :]
            with suppress(RemoteProtocolError):
                if view:
                    read_view(changed, parcel_name(changed))
                else:
                    read_change(changed)
    for size in range(len(data)):
        with pytest.raises(RemoteProtocolError):
            read_change(data[:size]) if not view else read_view(data[:size], 0)


# -- parts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_parts_come_in_any_order_and_more_than_once(seed: int) -> None:
    parcel = view_parcel(view_of(200))
    assert parcel.count > 10
    parts = [parcel.part(index) for index in range(parcel.count)] * 2
    random.Random(seed).shuffle(parts)
    collecting = Collecting()
    whole = [found for part in parts if (found := collecting.take(part, 1, 0)) is not None]
    assert whole
    assert whole[0].data == parcel.data


def test_what_is_missing_is_asked_for_ever_less_often_and_then_no_more() -> None:
    parcel = view_parcel(view_of(200))
    collecting = Collecting()
    missing = {3, 4, 5, 9}
    for index in range(parcel.count):
        if index not in missing:
            assert collecting.take(parcel.part(index), 7, 0) is None
    asked = []
    while (at_ns := collecting.next_deadline_ns()) < NEVER:
        asked += [(at_ns, to, ask.ranges) for to, ask in collecting.questions(at_ns)]
    assert asked[0][1:] == (7, [(3, 5), (9, 9)])
    gaps = [later[0] - sooner[0] for sooner, later in pairwise(asked)]
    assert gaps == sorted(gaps)
    assert len(asked) < 20
    assert not collecting.has(int(parcel.name))


def test_no_more_is_asked_for_at_once_than_is_answered() -> None:
    parcel = view_parcel(view_of(3_000))
    collecting = Collecting()
    collecting.take(parcel.part(0), 7, 0)
    ((_, ask),) = collecting.questions(collecting.next_deadline_ns())
    assert ask.ranges == [(1, ANSWER_PARTS_MAX)]


def test_parts_that_do_not_belong_together_are_no_parcel() -> None:
    collecting = Collecting()
    assert collecting.take(PartOf(5, VIEW_PARCEL, 1, 0, 2, b"one"), 1, 0) is None
    assert collecting.take(PartOf(5, VIEW_PARCEL, 1, 1, 2, b"other"), 1, 0) is None
    assert collecting.next_deadline_ns() == NEVER


def test_only_so_many_parcels_are_collected_at_a_time() -> None:
    collecting = Collecting()
    for name in range(1, 1_000):
        collecting.take(PartOf(name, VIEW_PARCEL, name, 0, 9, b"part"), 1, name)
    held = [name for name in range(1, 1_000) if collecting.has(name)]
    assert held == list(range(1_000 - COLLECTED_MAX, 1_000))
    collecting.forget(998)
    assert [name for name in held if collecting.has(name)] == [998, 999]
