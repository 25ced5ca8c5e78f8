"""Processes that come and go: their views, what stands for them, their streams, what they want."""

import pytest
from tests.check.log import Log, broken, only

from semcast.check import (
    accounting,
    check_all,
    fifo_order,
    flow_bounds,
    integrity,
    owed,
    safe_purging,
    stability,
    state,
    stream_completeness,
    view_sequence,
)
from semcast.journal import Header, Journal


def group(**changes: object) -> Log:
    """An open group of p1 and p2, to which p3 comes later."""
    log = Log(Header("open", (), membership="open", state="keys"), **changes)
    log.view("p1", 1, "p1")
    log.view("p1", 2, "p1", "p2")
    log.view("p2", 2, "p1", "p2")
    return log


def with_third() -> Log:
    """Values of two keys, one of them twice; then p3 comes and begins after them."""
    log = group()
    log.multicast("p1#1", 0, key="a")
    log.multicast("p1#2", 0, key="b")
    log.multicast("p1#3", 0, key="a")
    for node in ("p1", "p2"):
        log.take(node, "p1#1", "p1#2", "p1#3")
        log.view(node, 3, "p1", "p2", "p3")
        log.stable(node, "p1#3")
    log.view("p3", 3, "p1", "p2", "p3")
    log.join("p3", "p1#4")
    return log


# -- views -----------------------------------------------------------------------------------------


def views_broken(log: Log) -> list[str]:
    return [one.text for one in broken(view_sequence.PROPERTY, log.journal)]


def test_members_that_agree_on_every_view_break_nothing() -> None:
    log = group()
    log.view("p2", 4, "p1", "p2")
    log.view("p1", 3, "p1")
    log.view("p1", 4, "p1", "p2")
    assert not views_broken(log)


def test_two_contents_with_one_number_are_two_sequences() -> None:
    """What two halves of a group do that go on by themselves."""
    log = group()
    log.view("p1", 3, "p1")
    log.view("p2", 3, "p2")
    assert views_broken(log) == ["p2.1 goes by view 3 with another content than p1.1"]


def test_the_number_of_a_view_only_grows() -> None:
    log = group()
    log.view("p1", 1, "p1")
    assert views_broken(log) == ["p1.1 goes by view 1 after view 2"]


def test_who_is_not_in_a_view_does_not_go_by_it() -> None:
    log = group()
    log.view("p2", 3, "p1")
    assert views_broken(log) == ["p2.1 goes by view 3 although it is not in it"]


def test_a_life_is_in_one_group() -> None:
    log = group()
    log.view("p2", 3, "p2", origin=8)
    assert views_broken(log) == ["p2.1 goes by view 3 of another group than its own"]


def test_a_crashed_process_goes_by_no_view() -> None:
    log = group()
    log.crash("p2")
    log.view("p2", 3, "p2")
    assert views_broken(log) == ["p2.1 goes by view 3 after it crashed"]


def test_a_journal_without_views_is_read_as_before() -> None:
    """Schema version 1, from before views were events."""
    log = Log()
    log.multicast("p1#1")
    assert not views_broken(log)
    assert "View Sequence" not in check_all(log.journal).judged


# -- who owes what ---------------------------------------------------------------------------------


def agreed(log: Log) -> list[tuple[str, str]]:
    found = broken(owed.AGREEMENT, log.journal)
    return [(one.node, str(one.messages[0])) for one in found]


def test_a_member_owes_all_of_those_who_came_later() -> None:
    log = with_third()
    log.multicast("p3#1")
    log.take("p3", "p3#1")
    log.state("p3", "p1#2", "p1#3")
    log.take("p1", "p3#1")
    assert agreed(log) == [("p2.1", "p3.1#1")]
    assert broken(stream_completeness.PROPERTY, log.journal) == []
    log.multicast("p3#2")
    log.take("p2", "p3#2")
    found = broken(stream_completeness.PROPERTY, log.journal)
    assert "but not p3.1#1" in only(found, "p2", "p3#1", "p3#2")


def test_a_newcomer_owes_nothing_of_what_was_before_it() -> None:
    log = with_third()
    log.state("p3", "p1#2", "p1#3")
    assert agreed(log) == []
    log.multicast("p1#4")
    log.take("p1", "p1#4")
    log.take("p2", "p1#4")
    assert agreed(log) == [("p3.1", "p1.1#4")]


def test_stability_is_asked_of_those_in_the_view() -> None:
    """p2 was put out, so that p1 waits for it no longer, although it is still there."""
    log = group()
    log.multicast("p1#1")
    log.receive("p1", "p1#1")
    log.multicast("p2#1")
    log.receive("p2", "p2#1", "p1#1")
    log.multicast("p1#2")
    log.receive("p1", "p1#2")
    log.stable("p1", "p1#2")
    found = broken(stability.PROPERTY, log.journal)
    assert "p2.1 has only what comes up to 1" in only(found, "p1", "p1#2")
    put_out = Log(log.journal.header)
    put_out.journal.events.extend(log.journal.events[:-1])
    put_out.view("p1", 3, "p1")
    put_out.stable("p1", "p1#2")
    assert not broken(stability.PROPERTY, put_out.journal)


def test_f_follows_the_view_of_the_member_that_purges() -> None:
    log = Log(Header("open", (), membership="open", f=2))
    members = ("p1", "p2")
    log.view("p1", 1, *members)
    log.multicast("p1#1")
    log.multicast("p1#2", 1)
    log.receive("p2", "p1#2")
    log.purge("p1", "p1#1", "p1#2", "retransmit")
    assert not broken(safe_purging.PROPERTY, log.journal)
    log.view("p1", 2, *members, "p3", "p4")
    log.join("p3", "p1#3")
    log.join("p4", "p1#4")
    log.multicast("p1#3", 1)
    log.receive("p2", "p1#3")
    log.purge("p1", "p1#2", "p1#3", "retransmit")
    text = only(broken(safe_purging.PROPERTY, log.journal), "p1", "p1#2", "p1#3")
    assert "2 have it, and 3 must" in text


# -- state -----------------------------------------------------------------------------------------


def test_a_newcomer_has_all_that_stands() -> None:
    log = with_third()
    log.state("p3", "p1#2", "p1#3")
    report = check_all(log.journal)
    assert report.ok, str(report)
    assert report.judged["State"] == 3


def test_a_newcomer_lacks_what_stands() -> None:
    log = with_third()
    log.state("p3", "p1#3")
    found = broken(state.PROPERTY, log.journal)
    assert "begins with p1.1#4" in only(found, "p3", "p1#2")


def test_whose_stream_begins_anew_lacks_what_changed_meanwhile() -> None:
    log = with_third()
    log.state("p3", "p1#2", "p1#3")
    log.multicast("p1#4", 0, key="c")
    log.multicast("p1#5", 0, key="d")
    for node in ("p1", "p2"):
        log.take(node, "p1#4", "p1#5")
    log.join("p3", "p1#6")
    log.state("p3", "p1#5")
    assert "begins with p1.1#6" in only(broken(state.PROPERTY, log.journal), "p3", "p1#4")


def test_what_was_replaced_does_not_stand() -> None:
    log = with_third()
    log.state("p3", "p1#3")
    log.multicast("p1#4", 0, key="b")
    assert not broken(state.PROPERTY, log.journal), "Agreement says that it lacks what replaces it"


def test_nothing_of_the_state_comes_twice() -> None:
    log = with_third()
    log.state("p3", "p1#2", "p1#3", "p1#3")
    only(broken(integrity.PROPERTY, log.journal), "p3", "p1#3")
    log = with_third()
    log.state("p3", "p1#2", "p1#3")
    log.receive("p3", "p1#3")
    text = only(broken(accounting.PROPERTY, log.journal), "p3", "p1#3")
    assert "again" in text


def test_what_stands_comes_before_what_is_live() -> None:
    log = with_third()
    log.multicast("p1#4", 0, key="c")
    log.take("p3", "p1#4")
    log.state("p3", "p1#2", "p1#3")
    late = broken(fifo_order.PROPERTY, log.journal)
    assert [str(one.messages[0]) for one in late] == ["p1.1#2", "p1.1#3"]


def test_what_nobody_multicast_is_no_state() -> None:
    log = with_third()
    log.state("p3", "p1#9")
    only(broken(integrity.PROPERTY, log.journal), "p3", "p1#9")


def test_who_comes_back_has_what_it_had() -> None:
    """Unless it crashed: then it knows nothing any more."""
    for end, lacking in (("leave", []), ("crash", ["p1.1#2", "p1.1#3"])):
        log = group()
        log.multicast("p1#1", 0, key="a")
        log.multicast("p1#2", 0, key="b")
        log.take("p2", "p1#1", "p1#2")
        log.multicast("p1#3", 0, key="a")
        log.take("p2", "p1#3")
        log.world("p2", end)
        log.view("p2.2", 4, "p1", "p2.2")
        log.join("p2.2", "p1#4")
        found = broken(state.PROPERTY, log.journal)
        assert [str(one.messages[0]) for one in found] == lacking


def test_in_a_feed_what_stands_goes_with_its_sender() -> None:
    for gone, lacking in ((True, []), (False, ["p1.1#1"])):
        log = Log(Header("feed", (), membership="open", reliability="sender", state="keys"))
        log.multicast("p1#1", 0, key="a")
        log.take("p2", "p1#1")
        log.join("p3", "p1#2")
        if gone:
            log.world("p1", "leave")
        found = broken(state.PROPERTY, log.journal)
        assert [str(one.messages[0]) for one in found] == lacking


def test_who_comes_back_has_what_it_sent_itself() -> None:
    """If it is to get its own messages, it may not have taken them all; or it crashed."""
    for own, end, lacking in (
        (False, "leave", []),
        (True, "leave", ["p1.1#1"]),
        (False, "crash", ["p1.1#1"]),
    ):
        log = Log(Header("open", (), membership="open", state="keys", deliver_own=own))
        log.view("p1", 1, "p1", "p2")
        log.view("p2", 1, "p1", "p2")
        log.multicast("p1#1", 0, key="a")
        log.take("p2", "p1#1")
        log.world("p1", end)
        log.view("p1.2", 2, "p1.2", "p2")
        log.join("p1.2", "p1#9")
        found = broken(state.PROPERTY, log.journal)
        assert [str(one.messages[0]) for one in found] == lacking


# -- readers ---------------------------------------------------------------------------------------


def feed() -> Log:
    log = Log(Header("feed", (), membership="open", reliability="sender"))
    log.view("p1", 1, "p1", origin=1)
    log.view("p5", 1, "p5", origin=5)
    for seq in range(1, 6):
        log.multicast(f"p1#{seq}")
    return log


def test_the_stream_of_a_reader_has_no_holes_until_it_leaves() -> None:
    log = feed()
    log.join("p5", "p1#2")
    log.take("p5", "p1#2", "p1#3", "p1#4")
    log.world("p5", "leave")
    assert not broken(stream_completeness.PROPERTY, log.journal)


def test_a_hole_in_the_stream_of_a_reader_is_found_though_it_left() -> None:
    for first, hole in (("p1#3", "p1#2"), ("p1#2", "p1#3")):
        log = feed()
        log.join("p5", "p1#2")
        log.take("p5", first, "p1#4") if first == "p1#2" else log.take("p5", first)
        log.world("p5", "leave")
        found = broken(stream_completeness.PROPERTY, log.journal)
        only(found, "p5", hole, "p1#4" if first == "p1#2" else "p1#3")


def test_a_reader_that_stays_gets_all_that_follows() -> None:
    log = feed()
    log.join("p5", "p1#3")
    log.take("p5", "p1#3", "p1#4")
    found = broken(owed.SENDER_RELIABILITY, log.journal)
    assert ("p5.1", "p1.1#5") in [(one.node, str(one.messages[0])) for one in found]
    assert ("p5.1", "p1.1#2") not in [(one.node, str(one.messages[0])) for one in found]


@pytest.mark.parametrize("knows", [True, False])
def test_a_sender_that_left_owes_nothing_to_readers_that_it_had_forgotten(knows: bool) -> None:
    log = feed()
    log.join("p5", "p1#3")
    log.take("p5", "p1#3", "p1#4")
    log.view("p1", 2, "p1", "p5", origin=1)
    if not knows:
        log.view("p1", 3, "p1", origin=1)
    log.world("p1", "settled")
    log.world("p1", "leave")
    found = [
        (one.node, str(one.messages[0])) for one in broken(owed.SENDER_RELIABILITY, log.journal)
    ]
    assert (("p5.1", "p1.1#5") in found) == knows


@pytest.mark.parametrize("readers", [(), ("p3",)])
def test_what_only_a_reader_delivered_nobody_owes(readers: tuple[str, ...]) -> None:
    log = Log(Header("group", ("p1.1", "p2.1", "p3.1"), readers=readers))
    log.multicast("p1#1")
    log.take("p3", "p1#1")
    log.world("p1", "crash")
    found = [one.node for one in broken(owed.AGREEMENT, log.journal)]
    assert found == ([] if readers else ["p2.1"])


# -- interest --------------------------------------------------------------------------------------


def ignoring() -> Log:
    log = Log(f=1, window_messages=1)
    log.multicast("p1#1")
    log.take("p1", "p1#1")
    log.ignore("p2", "p1#1")
    log.take("p3", "p1#1")
    return log


def test_what_is_not_wanted_is_not_owed() -> None:
    log = ignoring()
    log.stable("p1", "p1#1")
    log.multicast("p1#2")
    for node in ("p1", "p2", "p3"):
        log.take(node, "p1#2")
    found = {one.property for one in check_all(log.journal).violations}
    assert found == {"Flow Bounds"}, "p2 and p3 keep the first for others, too"


def test_what_is_not_wanted_counts_as_received() -> None:
    log = ignoring()
    log.stable("p1", "p1#1")
    assert not broken(stability.PROPERTY, log.journal)
    assert not broken(flow_bounds.PROPERTY, log.journal)


def test_what_is_not_wanted_is_not_delivered() -> None:
    log = ignoring()
    log.deliver("p2", "p1#1")
    only(broken(accounting.PROPERTY, log.journal), "p2", "p1#1")
    log = ignoring()
    log.ignore("p3", "p1#1")
    only(broken(accounting.PROPERTY, log.journal), "p3", "p1#1")


def test_a_header_says_whether_the_group_is_open() -> None:
    header = Header("open", (), membership="open", state="keys")
    assert Header.from_json(header.to_json()) == header
    assert Journal(header).header.open
