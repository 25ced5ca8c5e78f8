"""Whatever others say about views: nothing grows without bound, and nothing raises."""

import random
from contextlib import suppress
from types import GetSetDescriptorType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.wire.material import agreements, encoded

from semcast.errors import RemoteProtocolError
from semcast.ids import EVERYBODY, ID_MAX, Source
from semcast.protocol.membership.agreed import AgreedViews
from semcast.protocol.membership.parcels import MEMBERS_MAX
from semcast.protocol.membership.view import View
from semcast.protocol.outbox import Outbox
from semcast.wire.decode import Decoder
from semcast.wire.families.agreement import Ballot, Join, Lack, PartOf, Wishes
from semcast.wire.frames import ControlFrame
from semcast.wire.limits import Limits

MS = 1_000_000
ME = Source(0, 1)


def member(members: int = 3) -> AgreedViews:
    ids = tuple(range(members))
    names = tuple(f"p{at}" for at in ids)
    view = View(4, ids, (1,) * members, 1, names, 0, (1,) * members, 77)
    return AgreedViews(ME, view, 1, "majority", random.Random(1))


def packed(views: AgreedViews, now_ns: int) -> list[tuple[int, ControlFrame]]:
    outbox = Outbox(ME, Limits(path_mtu_bytes=576))
    views.pack(outbox, now_ns)
    found: list[tuple[int, ControlFrame]] = []
    for outgoing in outbox.take():
        control = Decoder().decode(outgoing.frames, ME).control
        found += [(outgoing.to, frame) for frame in control]
    return found


def held_bytes(views: AgreedViews) -> int:
    """About how much it holds: everything that can be reached from it is written out."""
    return _size(views, set())


def _size(value: object, seen: set[int]) -> int:
    if id(value) in seen or isinstance(value, (int, float, type(None), random.Random)):
        return 0
    seen.add(id(value))
    if isinstance(value, (bytes, str)):
        return len(value)
    if isinstance(value, dict):
        return sum(8 + _size(one, seen) for pair in value.items() for one in pair)
    if isinstance(value, (list, tuple, set)):
        return sum(8 + _size(one, seen) for one in value)
    # Compiled objects have descriptors in place of a dictionary.
    native = [
        name
        for cls in type(value).__mro__
        for name, entry in vars(cls).items()
        if isinstance(entry, GetSetDescriptorType) and not name.startswith("__")
    ]
    names = list(getattr(value, "__dict__", native))
    return sum(8 + _size(getattr(value, name, None), seen) for name in names)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    frames=st.lists(st.tuples(agreements(), st.integers(0, 4), st.integers(1, 2)), max_size=30),
    step_ns=st.integers(0, 300 * MS),
)
def test_any_frames_from_anybody_in_any_order_are_survived(
    frames: list[tuple[ControlFrame, int, int]], step_ns: int
) -> None:
    views = member()
    number = views.view.number
    now_ns = 0
    for frame, sender, life in frames:
        source = Source(sender, life)
        for decoded in Decoder().decode(encoded([frame], source), source).control:
            with suppress(RemoteProtocolError):
                views.on_frame(decoded, source, now_ns)
        now_ns += step_ns
        views.on_timer(now_ns)
        for to, _ in packed(views, now_ns):
            assert to == EVERYBODY or 0 <= to <= ID_MAX
        assert views.view.number >= number
        number = views.view.number


def test_a_flood_of_words_fills_nothing_beyond_its_bound() -> None:
    views = member()
    sizes = []
    for turn in range(4):
        for at in range(3_000):
            name = turn * 3_000 + at
            other = Source(1, 1)
            stranger = Source(1_000 + name, 1)
            views.on_frame(
                Join(stranger, "x" * 200, 0, False, int(views.view.origin)), stranger, name * MS
            )
            views.on_frame(PartOf(1 + name, 2, 5 + name, 0, 9, b"part"), other, name * MS)
            views.on_frame(Ballot(views.view.digest, 4, 4, 0, -1, 1 + name), other, name * MS)
            views.on_frame(Wishes(1, 9 + name, 77, 3, [(5, name, 1)]), other, name * MS)
            views.stranger(stranger, name * MS)
            views.on_frame(Lack(1, 4, [(0, 4095)]), stranger, name * MS)
            packed(views, name * MS)
        sizes.append(held_bytes(views))
        assert sizes[-1] > 1_000
    assert views.view.number == 4
    assert sizes[-1] <= 1.1 * sizes[1] + 100_000


def test_no_more_newcomers_are_remembered_than_a_group_may_have() -> None:
    views = member()
    for sender in range(10, 2 * MEMBERS_MAX):
        source = Source(sender, 1)
        views.on_frame(Join(source, "p", 0, False, int(views.view.origin)), source, 0)
    assert len(views.wishes.change(0).joins) == MEMBERS_MAX - 3


def test_one_question_is_answered_with_so_many_parts_at_the_most() -> None:
    views = member(2_000)
    views.on_frame(Lack(0, 1, []), Source(1, 1), 0)
    first = packed(views, 0)
    assert 0 < len(first) <= 64
    (_, part) = first[0]
    assert isinstance(part, PartOf)
    views.on_frame(Lack(part.parcel, 4, [(0, 4095)] * 40), Source(1, 1), 0)
    assert 0 < len(packed(views, 0)) <= 64


def test_an_idle_member_says_next_to_nothing() -> None:
    """The first says now and then which view it has; others are silent."""
    views = member(100)
    said = 0
    for now_ms in range(0, 100_000, 25):
        views.on_timer(now_ms * MS)
        said += len(packed(views, now_ms * MS))
    assert said <= 30
    late = AgreedViews(Source(50, 1), views.view, 1, "majority", random.Random(1))
    late.on_timer(0)
    assert late.next_deadline_ns() > 1_000_000 * MS


def test_many_wishes_are_said_a_few_at_a_time_and_all_in_turn() -> None:
    views = member(1_000)
    for sender in range(1, 1_000):
        views.accuse(sender)
    named = set()
    for now_ms in range(0, 60_000, 50):
        views.on_timer(now_ms * MS)
        rows = [f.rows for _, f in packed(views, now_ms * MS) if isinstance(f, Wishes)]
        assert len(rows) <= 9
        named |= {sender for row in rows for _, sender, _ in row}
    assert len(named) == 999
    assert views.minority


@pytest.mark.parametrize("quorum", ["majority", "all", "one"])
def test_the_same_words_lead_to_the_same_state(quorum: str) -> None:
    """No order of sets, no clock and no chance of its own: runs can be replayed."""
    found = []
    for _ in range(2):
        view = View.alone(ME, "p0", 77)
        views = AgreedViews(ME, view, 1, quorum, random.Random(3))
        for sender in (9, 3, 7):
            source = Source(sender, 1)
            views.on_frame(
                Join(source, f"p{sender}", 0, False, int(views.view.origin)), source, sender * MS
            )
        for now_ms in range(0, 300, 5):
            views.on_timer(now_ms * MS)
            found.append([repr(frame) for _, frame in packed(views, now_ms * MS)])
    half = len(found) // 2
    assert found[:half] == found[half:]
