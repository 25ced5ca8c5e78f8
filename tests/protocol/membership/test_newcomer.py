"""A process that is not in yet: what it says, what it waits for, and when it goes on alone."""

import random
from itertools import pairwise

import pytest

from semcast.errors import RemoteProtocolError
from semcast.ids import EVERYBODY, NEVER, Source
from semcast.protocol.membership.newcomer import FOUND_AFTER_NS, Newcomer
from semcast.protocol.membership.parcels import view_parcel
from semcast.protocol.membership.view import Change, View
from semcast.wire.decode import Decoder
from semcast.wire.encode import FrameWriter
from semcast.wire.families.agreement import Join, Lack, Wishes
from semcast.wire.frames import ControlFrame
from semcast.wire.limits import Limits

MS = 1_000_000
ME = Source(5, 9)
MEMBER = Source(1, 2)
GROUP = View.alone(MEMBER, "first", 77)


def newcomer(contact: int = EVERYBODY, found_after_ns: int = FOUND_AFTER_NS) -> Newcomer:
    limits = Limits(path_mtu_bytes=576)
    return Newcomer(ME, "p5", limits, random.Random(1), contact, found_after_ns)


def said(process: Newcomer, now_ns: int) -> list[tuple[int, ControlFrame]]:
    found: list[tuple[int, ControlFrame]] = []
    for outgoing in process.datagrams(now_ns):
        control = Decoder().decode(outgoing.frames, ME).control
        found += [(outgoing.to, frame) for frame in control]
    return found


def is_in(process: Newcomer) -> bool:
    return process.view is not None


def tell(process: Newcomer, frame: ControlFrame, source: Source, now_ns: int) -> None:
    writer = FrameWriter(source, 476)
    assert writer.add(frame)
    process.receive(writer.take(), source, now_ns)


def word(present: int = 1, group: int = 77, answer: bool = False) -> Wishes:
    return Wishes(GROUP.digest, 1, group, present, [], answer)


def asked(process: Newcomer, until_ns: int) -> list[tuple[int, int, Join]]:
    """When it asked to be let in, whom, and how; until it has a view."""
    found = []
    while process.next_deadline_ns() <= until_ns:
        now_ns = process.next_deadline_ns()
        process.on_timer(now_ns)
        found += [(now_ns, to, f) for to, f in said(process, now_ns) if isinstance(f, Join)]
    return found


def test_it_asks_everybody_ever_less_often() -> None:
    times = [now_ns for now_ns, _, _ in asked(newcomer(found_after_ns=NEVER), 5_000 * MS)]
    assert times[0] == 0
    gaps = [later - sooner for sooner, later in pairwise(times[:6])]
    assert gaps == sorted(gaps)
    assert 8 < len(times) < 20


def test_it_asks_its_contact_and_now_and_then_everybody() -> None:
    rows = asked(newcomer(contact=1, found_after_ns=NEVER), 3_000 * MS)
    assert {to for _, to, _ in rows} == {1, EVERYBODY}
    assert rows[0][1] == 1
    assert all(frame.contact == (to == 1) for _, to, frame in rows)


def test_it_begins_the_group_if_nobody_answers() -> None:
    process = newcomer()
    asked(process, FOUND_AFTER_NS - 1)
    assert not is_in(process)
    process.on_timer(FOUND_AFTER_NS)
    assert process.view is not None
    assert process.view.holds(ME)
    assert process.view.origin > 0
    assert process.next_deadline_ns() == NEVER
    assert not process.answered


def test_it_does_not_begin_a_group_while_members_are_heard() -> None:
    process = newcomer()
    process.on_timer(0)
    for now_ns in range(0, 5_000 * MS, 100 * MS):
        tell(process, word(answer=True), MEMBER, now_ns)
        process.on_timer(now_ns)
    assert not is_in(process)
    assert process.answered
    # If they fall silent for good, another life of it may.
    asked(process, 20_000 * MS)
    assert not is_in(process)
    assert process.over


def test_a_life_asks_one_group_only_whichever_others_it_hears_of() -> None:
    """A group that counts a life which is in another group would wait for it for ever."""
    process = newcomer()
    process.on_timer(0)
    assert [frame.group for _, frame in said(process, 0) if isinstance(frame, Join)] == [0]
    tell(process, word(group=77), MEMBER, MS)
    tell(process, word(present=9, group=78), Source(3, 3), MS)
    groups = {frame.group for _, _, frame in asked(process, 350 * MS)}
    assert groups == {77}
    assert not process.over


def test_it_gives_up_a_smaller_group_that_falls_silent_sooner() -> None:
    over_ns = []
    for present, group in ((0, 70), (9, 78)):
        process = newcomer()
        process.on_timer(0)
        tell(process, word(group=77), MEMBER, 0)
        tell(process, word(present=present, group=group), Source(3, 3), MS)
        for now_ns in range(0, 4_000 * MS, 10 * MS):
            process.on_timer(now_ns)
            if process.over:
                over_ns.append(now_ns)
                break
    assert over_ns == [3_000 * MS, 400 * MS]


def test_it_takes_no_view_of_a_group_that_it_did_not_ask() -> None:
    process = newcomer()
    process.on_timer(0)
    tell(process, word(group=78), MEMBER, 0)
    parcel = view_parcel(GROUP.changed(Change(((5, 9, "p5"),)), 1))
    for index in range(parcel.count):
        tell(process, parcel.part(index), MEMBER, MS)
    assert not is_in(process)


def test_a_member_that_has_not_heard_of_it_is_asked_at_once() -> None:
    process = newcomer()
    process.on_timer(0)
    said(process, 0)
    tell(process, word(), MEMBER, 5 * MS)
    assert process.next_deadline_ns() == 5 * MS
    process.on_timer(5 * MS)
    ((to, frame),) = said(process, 5 * MS)
    assert to == MEMBER.sender
    assert isinstance(frame, Join)
    assert frame.contact
    # One that has heard of it is not asked again so soon.
    tell(process, word(answer=True), MEMBER, 6 * MS)
    assert process.next_deadline_ns() > 50 * MS


def test_of_two_groups_it_asks_the_larger_one() -> None:
    process = newcomer()
    process.on_timer(0)
    said(process, 0)
    other = Source(3, 1)
    tell(process, word(present=4, group=5), other, MS)
    tell(process, word(present=2, group=9), MEMBER, MS)
    process.on_timer(MS)
    assert [to for to, _ in said(process, MS)] == [other.sender]


def test_it_leaves_the_beginning_to_an_earlier_newcomer_but_not_for_ever() -> None:
    process = newcomer()
    process.on_timer(0)
    now_ns = 0
    while process.view is None:
        tell(process, Join(Source(9, 8), "p9", 0, False, 0), Source(9, 8), now_ns)
        now_ns += 10 * MS
        process.on_timer(now_ns)
        assert now_ns < 10_000 * MS
    assert now_ns > 4 * FOUND_AFTER_NS
    # A later one is not waited for.
    process = newcomer()
    process.on_timer(0)
    tell(process, Join(Source(9, 10), "p9", 0, False, 0), Source(9, 10), 0)
    for now_ns in range(10 * MS, FOUND_AFTER_NS + 1, 10 * MS):
        process.on_timer(now_ns)
    assert process.view is not None


def test_who_hears_an_earlier_newcomer_asks_less_often_but_goes_on_asking() -> None:
    """In a crowd all hear what is answered to the first; and the first may be deaf."""
    times: dict[int, list[int]] = {}
    for life in (8, 10):
        other = Source(9, life)
        process = newcomer(found_after_ns=NEVER)
        times[life] = []
        for now_ns in range(0, 3_000 * MS, 5 * MS):
            process.on_timer(now_ns)
            times[life] += [now_ns for _, frame in said(process, now_ns) if isinstance(frame, Join)]
            tell(process, Join(other, "p9", 0, False, 0), other, now_ns)
    earlier, later = times[8], times[10]
    assert sum(when_ns < 200 * MS for when_ns in later) > 3
    assert sum(when_ns < 200 * MS for when_ns in earlier) == 1
    assert max(b - a for a, b in pairwise(earlier)) <= 1_000 * MS
    # As soon as there is a group, it asks to be let in.
    tell(process, word(), MEMBER, 3_000 * MS)
    assert process.next_deadline_ns() == 3_000 * MS


def test_it_waits_longer_if_it_is_woken_late_but_not_for_ever() -> None:
    """On a busy machine what others say is on its way for as long."""
    for late_ns, at_least_ns in ((0, FOUND_AFTER_NS), (100 * MS, 4 * FOUND_AFTER_NS)):
        process = newcomer()
        process.on_timer(0)
        now_ns = 0
        while process.view is None:
            now_ns = max(now_ns, process.next_deadline_ns()) + late_ns
            process.on_timer(now_ns)
            assert now_ns < 10_000 * MS
        assert at_least_ns <= now_ns
        assert late_ns > 0 or now_ns < 2 * FOUND_AFTER_NS


def test_a_later_newcomer_that_asked_only_this_one_is_told_of_it() -> None:
    process = newcomer()
    later = Source(9, 10)
    tell(process, Join(later, "p9", 0, True, 0), later, 0)
    ((to, frame),) = said(process, 0)
    assert (to, frame) == (9, Join(ME, "p5", 0, False, 0))


def test_it_is_in_when_it_has_all_parts_of_a_view_that_has_it() -> None:
    process = newcomer()
    process.on_timer(0)
    tell(process, word(), MEMBER, 0)
    process.on_timer(0)
    said(process, 0)
    joins = tuple((sender, 9, f"p{sender}") for sender in range(5, 60))
    view = GROUP.changed(Change(joins), 1)
    parcel = view_parcel(view)
    assert parcel.count > 3
    for index in range(parcel.count):
        if index != 2:
            tell(process, parcel.part(index), MEMBER, MS)
    assert not is_in(process)
    process.on_timer(15 * MS)
    ((to, frame),) = said(process, 15 * MS)
    assert (to, frame) == (MEMBER.sender, Lack(parcel.name, 2, [(2, 2)]))
    tell(process, parcel.part(2), MEMBER, 16 * MS)
    assert process.view is not None
    assert process.view.digest == view.digest


@pytest.mark.parametrize(("life", "over"), [(9, True), (10, True), (8, False)])
def test_a_view_without_it_says_whether_its_life_is_over(life: int, over: bool) -> None:
    process = newcomer()
    view = GROUP.changed(Change(((5, life, "p5"),)), 1).changed(Change(gone=(5,)), 1)
    tell(process, view_parcel(view).part(0), MEMBER, 0)
    assert not is_in(process)
    assert process.over == over


def test_frames_that_make_no_sense_are_refused_and_change_nothing() -> None:
    process = newcomer()
    with pytest.raises(RemoteProtocolError):
        process.receive(b"\x11\x00\x00\x00", MEMBER, 0)
    process.on_timer(0)
    assert len(said(process, 0)) == 1


def test_what_it_says_itself_does_not_matter_to_it() -> None:
    process = newcomer()
    process.on_timer(0)
    for outgoing in process.datagrams(0):
        process.receive(outgoing.frames, ME, 0)
    assert not process.answered
