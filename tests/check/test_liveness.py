"""What is judged at the end, by hand: who owes which message, and what a cover makes good."""

import pytest
from tests.check.log import Log, broken, message, node

from semcast.check import Violation, check_all
from semcast.check.owed import AGREEMENT, FIFO_COMPLETENESS, SENDER_RELIABILITY, VALIDITY


def owed(found: list[Violation]) -> list[tuple[str, str]]:
    return [(one.node, str(one.messages[0])) for one in found]


# -- FIFO Completeness -----------------------------------------------------------------------------


def m1_m2_m3() -> Log:
    """SRM §4.3: p multicasts m1, m2, m3 with m1 ⊏ m3 only; p purges m1; q gets m2."""
    log = Log(members=("p1.1", "p2.1"), f=1)
    log.multicast("p1#1")
    log.multicast("p1#2")
    log.multicast("p1#3", 2)
    log.take("p1", "p1#1", "p1#2", "p1#3")
    log.purge("p1", "p1#1", "p1#3", "retransmit")
    log.take("p2", "p1#2")
    return log


def test_the_run_of_the_paper_breaks_fifo_completeness() -> None:
    """It says: "p crashes. Clearly, this sequence violates FIFO Completeness.". SRM §4.3"""
    log = m1_m2_m3()
    log.crash("p1")
    (violation,) = broken(FIFO_COMPLETENESS, log.journal)
    assert violation.node == node("p2")
    assert violation.messages == (message("p1#1"), message("p1#2"))
    assert violation.text == (
        "p2.1 delivered p1.1#2 but neither p1.1#1, which was multicast before it, "
        "nor anything that replaces it"
    )
    # What a crashed sender multicast and nobody correct delivered owes nothing.
    assert not broken(AGREEMENT, log.journal)


@pytest.mark.parametrize(
    "how", ["m3 arrives", "m3 arrives although p crashed", "q crashes too", "q leaves", "m2 never"]
)
def test_the_run_of_the_paper_breaks_nothing_if_it_goes_on_well(how: str) -> None:
    """m3 covers m1 whenever it comes; and only correct processes owe anything. SRM Figure 3"""
    log = m1_m2_m3()
    if how == "m2 never":
        log = Log(members=("p1.1", "p2.1"), f=1)
        log.multicast("p1#1")
        log.multicast("p1#2")
        log.crash("p1")
    elif how == "m3 arrives":
        log.take("p2", "p1#3")
    elif how == "m3 arrives although p crashed":
        log.crash("p1")
        log.take("p2", "p1#3")
    else:
        log.crash("p1")
        log.world("p2", "leave" if how == "q leaves" else "crash")
    assert not broken(FIFO_COMPLETENESS, log.journal)


def test_a_cover_of_a_cover_makes_good_too() -> None:
    """1 ⊏ 3 ⊏ 4, and no annotation says 1 ⊏ 4."""
    log = m1_m2_m3()
    log.multicast("p1#4", 1)
    log.take("p2", "p1#4")
    assert not broken(FIFO_COMPLETENESS, log.journal)


def test_a_chain_of_ten_thousand_links_is_one_cover() -> None:
    """The specification's relation is untruncated, whatever k is."""
    log = Log(members=("p1.1", "p2.1"))
    log.multicast("p1#1")
    for seq in range(2, 10_001):
        log.multicast(f"p1#{seq}", 1)
    log.take("p1", "p1#10000")
    log.take("p2", "p1#10000")
    log.skip("p2", "p1#1", "p1#10000")
    assert check_all(log.journal).ok


# -- Validity, Agreement, Sender Reliability -------------------------------------------------------


def test_a_correct_sender_delivers_its_own_messages_or_covers() -> None:
    """SRM Figure 3"""
    log = Log()
    log.multicast("p1#1")
    log.multicast("p1#2", 1)
    log.multicast("p1#3")
    log.take("p1", "p1#2")
    assert owed(broken(VALIDITY, log.journal)) == [("p1.1", "p1.1#3")]
    log.crash("p1")
    assert not broken(VALIDITY, log.journal)


def test_a_member_that_does_not_deliver_its_own_messages_has_them_all_the_same() -> None:
    log = Log(deliver_own=False)
    log.multicast("p1#1")
    log.take("p2", "p1#1")
    log.take("p3", "p1#1")
    assert check_all(log.journal).ok


@pytest.mark.parametrize("settled", [False, True])
def test_what_a_member_delivered_that_left_when_it_was_allowed_to_all_others_have(
    settled: bool,
) -> None:
    """It was correct until then; one that left before it was allowed to is owed nothing."""
    log = Log()
    log.multicast("p1#1")
    log.crash("p1")
    log.take("p2", "p1#1")
    if settled:
        log.world("p2", "settled")
    log.world("p2", "leave")
    assert owed(broken(AGREEMENT, log.journal)) == ([("p3.1", "p1.1#1")] if settled else [])
    log.take("p3", "p1#1")
    assert not broken(AGREEMENT, log.journal)


@pytest.mark.parametrize("settled", [False, True])
def test_what_a_sender_sent_that_left_when_it_was_allowed_to_all_others_have(settled: bool) -> None:
    log = Log(reliability="sender")
    log.multicast("p1#1")
    log.take("p2", "p1#1")
    if settled:
        log.world("p1", "settled")
    log.world("p1", "leave")
    assert owed(broken(SENDER_RELIABILITY, log.journal)) == (
        [("p3.1", "p1.1#1")] if settled else []
    )


def test_what_one_correct_member_delivered_all_correct_members_have() -> None:
    """SRM Figure 3"""
    log = Log()
    log.multicast("p1#1")
    log.crash("p1")
    assert not broken(AGREEMENT, log.journal)
    log.take("p2", "p1#1")
    assert owed(broken(AGREEMENT, log.journal)) == [("p3.1", "p1.1#1")]
    assert broken(AGREEMENT, log.journal)[0].text.endswith("although p2.1 delivered it")
    log.crash("p3")
    assert not broken(AGREEMENT, log.journal)


def test_what_only_the_dead_delivered_owes_nothing() -> None:
    log = Log()
    log.multicast("p1#1")
    log.take("p1", "p1#1")
    log.crash("p1")
    assert check_all(log.journal).ok


def test_a_member_that_did_nothing_at_all_owes_what_others_delivered() -> None:
    log = Log()
    log.multicast("p1#1")
    log.take("p1", "p1#1")
    assert owed(broken(AGREEMENT, log.journal)) == [("p2.1", "p1.1#1"), ("p3.1", "p1.1#1")]


def test_a_ranked_message_of_another_sender_makes_good() -> None:
    """PSRM §2.4"""
    log = Log(members=("p1.1", "p2.1"))
    log.multicast("p1#1", key="bid", rank=5)
    log.multicast("p2#1", key="bid", rank=7)
    log.take("p1", "p1#1", "p2#1")
    log.take("p2", "p2#1")
    assert not broken(AGREEMENT, log.journal)
    log.multicast("p1#2", key="bid", rank=6)
    log.take("p1", "p1#2")
    assert not broken(AGREEMENT, log.journal)
    log.multicast("p1#3", key="ask", rank=6)
    log.take("p1", "p1#3")
    assert owed(broken(AGREEMENT, log.journal)) == [("p2.1", "p1.1#3")]


def test_an_unranked_message_covers_what_it_names_and_what_that_outranks() -> None:
    log = Log(members=("p1.1", "p2.1"))
    log.multicast("p1#1", key="bid", rank=5)
    log.multicast("p2#1", key="bid", rank=7)
    log.multicast("p2#2", 1)
    log.take("p1", "p1#1", "p2#1", "p2#2")
    log.take("p2", "p2#2")
    assert not check_all(log.journal).missing


def test_sender_reliability_speaks_of_correct_senders_only() -> None:
    """If a sender crashes, S-SM "is allowed to deliver messages to some but not all". SRM §4.2"""
    log = Log(reliability="sender")
    log.multicast("p1#1")
    log.take("p1", "p1#1")
    log.take("p2", "p1#1")
    assert owed(broken(SENDER_RELIABILITY, log.journal)) == [("p3.1", "p1.1#1")]
    assert not check_all(log.journal).ok
    log.crash("p1")
    assert check_all(log.journal).ok


def test_with_purging_off_every_message_is_owed() -> None:
    """An empty relation "defaults to conventional reliability". SRM §4.2"""
    for purging in (True, False):
        log = Log(members=("p1.1", "p2.1"), purging=purging)
        log.multicast("p1#1")
        log.multicast("p1#2", 1)
        log.take("p1", "p1#1", "p1#2")
        log.take("p2", "p1#2")
        assert bool(broken(AGREEMENT, log.journal)) != purging


# -- restarts --------------------------------------------------------------------------------------


def restarted() -> Log:
    """p3 got p1#1, crashed and came back; p1#2 came in between, p1#3 after its join point."""
    log = Log()
    log.multicast("p1#1")
    for at in ("p1", "p2", "p3"):
        log.take(at, "p1#1")
    log.crash("p3")
    log.multicast("p1#2")
    log.take("p1", "p1#2")
    log.take("p2", "p1#2")
    log.join("p3.2")
    return log


def test_a_restarted_process_owes_nothing_before_its_join_point() -> None:
    log = restarted()
    log.join("p3.2", "p1#3")
    log.multicast("p1#3")
    for at in ("p1", "p2", "p3.2"):
        log.take(at, "p1#3")
    assert check_all(log.journal).ok


def test_a_restarted_process_owes_what_comes_after_its_join_point() -> None:
    log = restarted()
    log.join("p3.2", "p1#2")
    log.multicast("p1#3")
    log.take("p1", "p1#3")
    log.take("p2", "p1#3")
    assert owed(broken(AGREEMENT, log.journal)) == [("p3.2", "p1.1#2"), ("p3.2", "p1.1#3")]


def test_a_restarted_process_that_never_joins_owes_what_was_multicast_since_it_came() -> None:
    log = restarted()
    log.multicast("p1#3")
    log.take("p1", "p1#3")
    log.take("p2", "p1#3")
    assert owed(broken(AGREEMENT, log.journal)) == [("p3.2", "p1.1#3")]


def test_what_lies_before_the_join_point_covers_as_well() -> None:
    """A newcomer is taken to know the state at its join points, so nothing older is owed."""
    log = Log()
    log.multicast("p2#1", key="bid", rank=9)
    log.take("p1", "p2#1")
    log.take("p2", "p2#1")
    log.crash("p3")
    log.join("p3.2", "p2#2")
    log.join("p3.2", "p1#1")
    log.multicast("p1#1", key="bid", rank=1)
    log.take("p1", "p1#1")
    log.take("p2", "p1#1")
    assert not check_all(log.journal).missing


def test_a_second_join_point_excuses_nothing_more() -> None:
    log = restarted()
    log.join("p3.2", "p1#2")
    log.join("p3.2", "p1#3")
    assert owed(broken(AGREEMENT, log.journal)) == [("p3.2", "p1.1#2")]


def test_a_join_of_somebody_who_was_there_excuses_nothing() -> None:
    log = Log()
    log.multicast("p1#1")
    log.join("p3", "p1#2")
    log.take("p1", "p1#1")
    log.take("p2", "p1#1")
    assert owed(broken(AGREEMENT, log.journal)) == [("p3.1", "p1.1#1")]


def test_a_former_life_owes_nothing_even_if_nobody_saw_it_crash() -> None:
    log = Log()
    log.multicast("p1#1")
    log.take("p1", "p1#1")
    log.take("p2", "p1#1")
    log.join("p3.2", "p1#2")
    assert check_all(log.journal).ok


def test_what_a_newcomer_delivered_others_owe() -> None:
    log = Log()
    log.crash("p3")
    log.join("p3.2")
    log.multicast("p3.2#1")
    log.take("p3.2", "p3.2#1")
    log.take("p1", "p3.2#1")
    assert owed(broken(AGREEMENT, log.journal)) == [("p2.1", "p3.2#1")]
