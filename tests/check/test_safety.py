"""Integrity, FIFO Order and Accounting by hand: journals that break them, or just do not."""

from collections.abc import Callable

import pytest
from tests.check.log import Log, broken, only

from semcast.check import accounting, check_all, fifo_order, integrity
from semcast.journal import Journal

# -- Integrity -------------------------------------------------------------------------------------


def test_delivering_twice_breaks_integrity() -> None:
    """SRM Figure 2"""
    log = Log()
    log.multicast("p1#1")
    log.take("p2", "p1#1")
    log.take("p3", "p1#1")
    assert not broken(integrity.PROPERTY, log.journal)
    log.deliver("p2", "p1#1")
    assert (
        only(broken(integrity.PROPERTY, log.journal), "p2", "p1#1") == "p2.1 delivers p1.1#1 again"
    )


def test_delivering_what_nobody_multicast_breaks_integrity() -> None:
    log = Log()
    log.multicast("p1#1")
    log.deliver("p2", "p1#2")
    text = only(broken(integrity.PROPERTY, log.journal), "p2", "p1#2")
    assert text == "p2.1 delivers p1.1#2, which nobody had multicast"


def test_delivering_before_it_was_multicast_breaks_integrity_if_the_order_is_known() -> None:
    for one_order in (True, False):
        log = Log(one_order=one_order)
        log.deliver("p2", "p1#1")
        log.multicast("p1#1")
        assert bool(broken(integrity.PROPERTY, log.journal)) == one_order


def test_a_number_names_one_message_of_one_sender() -> None:
    log = Log()
    log.multicast("p1#1")
    log.multicast("p1#1", 1)
    assert "second time" in only(broken(integrity.PROPERTY, log.journal), "p1", "p1#1")
    log = Log()
    log.event("p2", "multicast", "p1#1", obsoletes=())
    assert "in the name of another" in only(broken(integrity.PROPERTY, log.journal), "p2", "p1#1")


# -- FIFO Order ------------------------------------------------------------------------------------


def test_the_printed_algorithm_breaks_fifo_order() -> None:
    """The run of erratum (2) to SRM Figure 4: no crash, and all three messages are delivered.

    p1 multicasts m1, m2, m3 with m1 ⊏ m3 only; p2 has all three, knows that m3 is safe, purges m1
    from what it relays to p3, relays m2; p1's own m1 then reaches p3 after m2.
    """
    log = Log(reliability="group", f=1)
    log.multicast("p1#1")
    log.multicast("p1#2")
    log.multicast("p1#3", 2)
    log.take("p1", "p1#1", "p1#2", "p1#3")
    log.take("p2", "p1#1", "p1#2", "p1#3")
    log.purge("p2", "p1#1", "p1#3", "retransmit")
    log.take("p3", "p1#2", "p1#1", "p1#3")
    text = only(broken(fifo_order.PROPERTY, log.journal), "p3", "p1#1", "p1#2")
    assert text == "p3.1 delivers p1.1#1 after p1.1#2, which was multicast later"
    # It is the only thing wrong with that run.
    assert [one.property for one in check_all(log.journal).violations] == ["FIFO Order"]


def test_order_counts_within_a_stream_at_a_node() -> None:
    log = Log()
    log.multicast("p1#1")
    log.multicast("p2#1")
    log.multicast("p1#2")
    log.take("p3", "p2#1", "p1#1", "p1#2")
    log.take("p2", "p1#2", "p2#1")
    assert not broken(fifo_order.PROPERTY, log.journal)
    log.deliver("p2", "p1#1")
    assert len(broken(fifo_order.PROPERTY, log.journal)) == 1


# -- Accounting ------------------------------------------------------------------------------------


def chain() -> Log:
    """1 ⊏ 2 ⊏ 4 by two links, and 3 is unmarked; all four are at p2."""
    log = Log()
    log.multicast("p1#1")
    log.multicast("p1#2", 1)
    log.multicast("p1#3")
    log.multicast("p1#4", 2)
    log.receive("p2", "p1#1", "p1#2", "p1#3", "p1#4")
    return log


def test_a_purge_for_a_cover_is_in_order_even_if_only_a_chain_links_them() -> None:
    """SRM §3.2: transitive; no annotation says 1 ⊏ 4"""
    log = chain()
    log.purge("p2", "p1#1", "p1#4")
    log.purge("p2", "p1#2", "p1#4", "retransmit")
    log.deliver("p2", "p1#2", "p1#3", "p1#4")
    assert not broken(accounting.PROPERTY, log.journal)


def test_an_unmarked_message_is_never_purged() -> None:
    log = chain()
    log.purge("p2", "p1#3", "p1#4")
    text = only(broken(accounting.PROPERTY, log.journal), "p2", "p1#3", "p1#4")
    assert text == "p2.1 purges p1.1#3 for p1.1#4, which does not replace it"


def test_a_purge_for_nothing_is_loss() -> None:
    log = chain()
    log.purge("p2", "p1#1", None)
    assert "for no other message" in only(broken(accounting.PROPERTY, log.journal), "p2", "p1#1")


def test_a_message_is_not_purged_for_an_older_one() -> None:
    log = chain()
    log.purge("p2", "p1#2", "p1#1")
    assert "does not replace it" in only(
        broken(accounting.PROPERTY, log.journal), "p2", "p1#2", "p1#1"
    )


def test_nothing_replaces_itself_or_what_is_yet_to_come() -> None:
    """The relation is a strict order within the causal one. SRM §3.2"""
    for distance, by in ((0, "p1#1"), (-1, "p1#1")):
        log = Log()
        log.multicast("p1#1", distance)
        log.multicast("p1#2")
        log.receive("p2", "p1#1", "p1#2")
        log.purge("p2", f"p1#{1 - distance}", by)
        assert len(broken(accounting.PROPERTY, log.journal)) == 1


def test_no_purge_counts_if_purging_is_off() -> None:
    log = Log(purging=False)
    log.multicast("p1#1")
    log.multicast("p1#2", 1)
    log.receive("p2", "p1#1", "p1#2")
    log.purge("p2", "p1#1", "p1#2")
    assert len(broken(accounting.PROPERTY, log.journal)) == 1


def test_a_cover_must_have_been_multicast_and_be_here() -> None:
    """SRM §4.3: both are in the queue"""
    log = Log()
    log.multicast("p1#1")
    log.receive("p2", "p1#1")
    log.purge("p2", "p1#1", "p1#2")
    assert "nobody had multicast" in only(
        broken(accounting.PROPERTY, log.journal), "p2", "p1#1", "p1#2"
    )
    log = Log()
    log.multicast("p1#1")
    log.multicast("p1#2", 1)
    log.receive("p2", "p1#1")
    log.purge("p2", "p1#1", "p1#2")
    assert "has not received" in only(
        broken(accounting.PROPERTY, log.journal), "p2", "p1#1", "p1#2"
    )


def test_ranked_messages_are_covered_across_senders_and_ties_go_by_sender() -> None:
    """PSRM §2.4"""
    for rank, sender, good in (
        (1, "p1", False),
        (2, "p1", False),
        (2, "p3", True),
        (3, "p1", True),
    ):
        log = Log()
        log.multicast("p2#1", key="bid", rank=2)
        log.multicast(f"{sender}#1", key="bid", rank=rank)
        log.receive("p1", "p2#1", f"{sender}#1")
        log.purge("p1", "p2#1", f"{sender}#1")
        assert bool(broken(accounting.PROPERTY, log.journal)) != good
    log = Log()
    log.multicast("p2#1", key="bid", rank=2)
    log.multicast("p1#1", key="ask", rank=9)
    log.receive("p1", "p2#1", "p1#1")
    log.purge("p1", "p2#1", "p1#1")
    assert len(broken(accounting.PROPERTY, log.journal)) == 1


def test_senders_order_by_number_and_not_by_name() -> None:
    log = Log(members=("p9.1", "p10.1"))
    log.multicast("p9#1", key="bid", rank=1)
    log.multicast("p10#1", key="bid", rank=1)
    log.receive("p9", "p9#1", "p10#1")
    log.purge("p9", "p9#1", "p10#1")
    assert not broken(accounting.PROPERTY, log.journal)


def test_a_skipped_message_has_a_cover_too() -> None:
    """It says: "purged and should be skipped". SRM §5.3"""
    log = chain()
    log.skip("p3", "p1#1", "p1#4")
    # Covered by itself: by what is forgotten.
    log.skip("p3", "p1#2", "p1#2")
    assert not broken(accounting.PROPERTY, log.journal)
    log.skip("p3", "p1#3", "p1#3")
    # A cover that comes later is none yet.
    log.multicast("p1#5", 2)
    assert "nothing that was multicast" in only(
        broken(accounting.PROPERTY, log.journal), "p3", "p1#3", "p1#3"
    )


Play = Callable[[Log], None]


@pytest.mark.parametrize(
    ("play", "text"),
    [
        (lambda log: log.deliver("p3", "p1#1"), "does not hold: it was never received there"),
        (lambda log: log.receive("p2", "p1#1"), "receives p1.1#1 again: it was purged there"),
        (lambda log: log.deliver("p2", "p1#1"), "does not hold: it was purged there"),
        (lambda log: log.purge("p2", "p1#1", "p1#2"), "hold it: it was purged there"),
        (lambda log: log.purge("p2", "p1#3", "p1#4"), "hold it: it was delivered there"),
        (lambda log: log.purge("p3", "p1#1", "p1#2"), "hold it: it was never received there"),
        (lambda log: log.skip("p2", "p1#2", "p1#4"), "skips p1.1#2, which is held there"),
        (lambda log: log.purge("p2", "p1#1", "p1#2", "retransmit"), "hold it: it was purged"),
        (lambda log: log.purge("p3", "p1#1", "p1#2", "retransmit"), "hold it: it was never"),
        (lambda log: log.deliver("p1", "p1#1"), "crashed, and yet there is a later event"),
    ],
)
def test_a_message_leaves_once_and_only_from_where_it_is(play: Play, text: str) -> None:
    log = chain()
    log.purge("p2", "p1#1", "p1#2")
    log.purge("p2", "p1#1", "p1#2", "retransmit")
    log.deliver("p2", "p1#3")
    log.crash("p1")
    assert not broken(accounting.PROPERTY, log.journal)
    play(log)
    (violation,) = broken(accounting.PROPERTY, log.journal)
    assert text in violation.text


def test_an_empty_journal_breaks_nothing() -> None:
    assert check_all(Journal(Log().journal.header)).ok
