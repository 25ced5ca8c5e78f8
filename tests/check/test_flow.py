"""Flow Bounds, Safe Purging and Stability by hand: journals that break them, or just do not."""

import pytest
from tests.check.log import Log, broken, only

from semcast.check import check_safety, flow_bounds, safe_purging, stability

# -- Flow Bounds -----------------------------------------------------------------------------------


def test_a_delivery_buffer_holds_no_more_than_its_bound() -> None:
    """SRM §5.3"""
    log = Log(delivery_messages=2)
    for seq in (1, 2, 3, 4):
        log.multicast(f"p1#{seq}")
    log.receive("p2", "p1#1", "p1#2")
    log.deliver("p2", "p1#1")
    log.receive("p2", "p1#3")
    assert not broken(flow_bounds.PROPERTY, log.journal)
    log.receive("p2", "p1#4")
    text = only(broken(flow_bounds.PROPERTY, log.journal), "p2", "p1#4")
    assert text == "p2.1 holds 3 messages for delivery after p1.1#4; the bound is 2"


def test_a_full_buffer_may_take_a_message_in_place_of_those_it_replaces() -> None:
    for purged in (True, False):
        log = Log(delivery_messages=1)
        log.multicast("p1#1")
        log.multicast("p1#2", 1)
        log.receive("p2", "p1#1", "p1#2")
        # What other nodes do in between does not matter.
        log.receive("p3", "p1#1")
        if purged:
            log.purge("p2", "p1#1", "p1#2")
        assert bool(broken(flow_bounds.PROPERTY, log.journal)) != purged


def test_a_purge_for_another_message_comes_too_late() -> None:
    log = Log(delivery_messages=1)
    log.multicast("p1#1")
    log.multicast("p1#2")
    log.multicast("p1#3", 2)
    log.receive("p2", "p1#1", "p1#2")
    log.purge("p2", "p1#1", "p1#3")
    only(broken(flow_bounds.PROPERTY, log.journal), "p2", "p1#2")


def test_a_full_buffer_may_turn_away_what_is_obsolete_already() -> None:
    log = Log(delivery_messages=1)
    log.multicast("p1#1", key="bid", rank=1)
    log.multicast("p2#1", key="bid", rank=2)
    log.receive("p3", "p2#1", "p1#1")
    log.purge("p3", "p1#1", "p2#1")
    assert not broken(flow_bounds.PROPERTY, log.journal)


def test_bytes_are_bounded_too() -> None:
    log = Log(delivery_bytes=100)
    log.multicast("p1#1")
    log.multicast("p1#2")
    log.receive("p2", "p1#1", size=60)
    log.receive("p2", "p1#2", size=41)
    assert "101 bytes" in only(broken(flow_bounds.PROPERTY, log.journal), "p2", "p1#2")


def test_what_is_kept_for_others_is_bounded_by_source_until_it_is_stable() -> None:
    log = Log(window_messages=2)
    for seq in (1, 2, 3, 4):
        log.multicast(f"p2#{seq}")
        log.stable("p2", f"p2#{seq}")
    log.multicast("p1#1")
    log.receive("p1", "p2#1", "p2#2")
    log.stable("p1", "p2#1")
    log.receive("p1", "p2#3")
    assert not broken(flow_bounds.PROPERTY, log.journal)
    log.receive("p1", "p2#4")
    text = only(broken(flow_bounds.PROPERTY, log.journal), "p1", "p2#4")
    assert text == "p1.1 holds 3 messages for retransmission of p2.1 after p2.1#4; the bound is 2"


def test_a_sender_keeps_its_message_once_although_it_receives_it_too() -> None:
    log = Log(window_messages=1)
    log.multicast("p1#1")
    log.stable("p1", "p1#1")
    log.receive("p1", "p1#1")
    log.multicast("p1#2")
    assert not broken(flow_bounds.PROPERTY, log.journal)


def test_only_its_own_messages_are_kept_by_a_member_of_a_sender_reliable_group() -> None:
    """S-SM has to "buffer and retransmit just its own messages". SRM §4.2"""
    log = Log(window_messages=1, reliability="sender")
    log.multicast("p1#1")
    log.stable("p1", "p1#1")
    log.multicast("p1#2")
    log.receive("p2", "p1#1", "p1#2")
    assert not broken(flow_bounds.PROPERTY, log.journal)
    log.multicast("p1#3")
    assert len(broken(flow_bounds.PROPERTY, log.journal)) == 1


def test_bytes_kept_for_others_are_bounded_for_all_sources_together() -> None:
    log = Log(window_bytes=10)
    for sender in ("p1", "p2", "p3"):
        log.multicast(f"{sender}#1", size=10)
        if sender != "p1":
            log.receive("p1", f"{sender}#1", size=10)
    assert not broken(flow_bounds.PROPERTY, log.journal)
    log.multicast("p1#2", size=1)
    assert "31 bytes" in only(broken(flow_bounds.PROPERTY, log.journal), "p1", "p1#2")


# -- Safe Purging ----------------------------------------------------------------------------------


def three(f: int = 1, members: int = 3) -> Log:
    """SRM §4.3: m1, m2, m3 with m1 ⊏ m3 only."""
    log = Log(f=f, members=tuple(f"p{at}.1" for at in range(1, members + 1)))
    log.multicast("p1#1")
    log.multicast("p1#2")
    log.multicast("p1#3", 2)
    return log


def test_a_cover_that_only_its_sender_has_is_not_safe() -> None:
    """It says: "avoided if purging of m1 was delayed until m3 was known to be safe". SRM §4.3"""
    log = three()
    log.purge("p1", "p1#1", "p1#3", "retransmit")
    text = only(broken(safe_purging.PROPERTY, log.journal), "p1", "p1#1", "p1#3")
    assert text.endswith("which is not safe: 1 have it, and 2 must")
    log = three()
    log.receive("p2", "p1#3")
    log.purge("p1", "p1#1", "p1#3", "retransmit")
    assert not broken(safe_purging.PROPERTY, log.journal)


def test_delivery_queues_are_purged_for_unsafe_messages_as_well() -> None:
    """It says: "purging of the delivery queue does not need to be restricted". SRM §4.3"""
    log = three()
    log.receive("p1", "p1#1", "p1#3")
    log.purge("p1", "p1#1", "p1#3")
    assert not check_safety(log.journal).violations


def test_whoever_skipped_the_cover_has_it_once_it_has_what_it_skipped_it_for() -> None:
    for there in (True, False):
        log = three()
        log.multicast("p1#4", 1)
        log.skip("p2", "p1#3", "p1#4")
        if there:
            log.receive("p2", "p1#4")
        log.purge("p1", "p1#1", "p1#3", "retransmit")
        assert bool(broken(safe_purging.PROPERTY, log.journal)) != there


def test_what_is_there_instead_counts_even_if_it_is_not_safe_itself() -> None:
    for there in (True, False):
        log = three(f=2, members=4)
        log.multicast("p1#4", 1)
        log.receive("p3", "p1#3")
        log.skip("p2", "p1#3", "p1#4")
        if there:
            log.receive("p2", "p1#4")
        log.purge("p1", "p1#1", "p1#3", "retransmit")
        assert bool(broken(safe_purging.PROPERTY, log.journal)) != there


def test_what_is_safe_instead_counts_even_if_it_is_not_there() -> None:
    for safe in (True, False):
        log = three(members=4)
        log.multicast("p1#4", 1)
        log.skip("p2", "p1#3", "p1#4")
        if safe:
            log.receive("p3", "p1#4")
        log.purge("p1", "p1#1", "p1#3", "retransmit")
        assert bool(broken(safe_purging.PROPERTY, log.journal)) != safe


def test_two_lives_of_a_member_are_one_vote() -> None:
    log = three(f=2)
    log.receive("p2", "p1#3")
    log.crash("p2")
    log.receive("p2.2", "p1#3")
    log.purge("p1", "p1#1", "p1#3", "retransmit")
    assert len(broken(safe_purging.PROPERTY, log.journal)) == 1


def test_what_everybody_has_who_is_left_is_safe() -> None:
    log = three(f=2)
    log.receive("p2", "p1#3")
    log.crash("p3")
    log.purge("p1", "p1#1", "p1#3", "retransmit")
    assert not broken(safe_purging.PROPERTY, log.journal)


# -- Stability -------------------------------------------------------------------------------------


def test_what_one_member_lacks_is_not_stable() -> None:
    """STAB §2"""
    log = Log()
    log.multicast("p1#1")
    log.multicast("p1#2", 1)
    log.receive("p2", "p1#1", "p1#2")
    log.receive("p3", "p1#2")
    log.stable("p1", "p1#1")
    text = only(broken(stability.PROPERTY, log.journal), "p1", "p1#1")
    assert text == "p1.1 takes p1.1#1 for stable, but p3.1 has only what comes up to 0"


@pytest.mark.parametrize("how", ["receive", "skip", "crash", "leave"])
def test_what_everybody_has_or_skipped_is_stable(how: str) -> None:
    log = Log()
    log.multicast("p1#1")
    log.multicast("p1#2", 1)
    log.receive("p2", "p1#1", "p1#2")
    if how == "receive":
        log.receive("p3", "p1#1")
    elif how == "skip":
        log.skip("p3", "p1#1", "p1#2")
    else:
        log.world("p3", how)
    log.stable("p1", "p1#1")
    assert not broken(stability.PROPERTY, log.journal)
