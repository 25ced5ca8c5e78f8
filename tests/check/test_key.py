"""Key Order and Key Completeness by hand: what order "key" still promises, and what it does not."""

import pytest
from tests.check.log import HEADER, Log, only

from semcast.check import (
    check_all,
    check_safety,
    fifo_completeness,
    fifo_order,
    key_completeness,
    key_order,
)
from semcast.errors import InputError
from semcast.journal import Header


def feed(one_order: bool = True) -> Log:
    """A trade, two quotes, a trade, and a quote that replaces the second one."""
    log = Log(order="key", one_order=one_order)
    log.multicast("p1#1")
    log.multicast("p1#2", key="a")
    log.multicast("p1#3", key="b")
    log.multicast("p1#4")
    log.multicast("p1#5", 2, key="b")
    return log


def test_a_new_value_may_overtake_what_is_not_of_its_key() -> None:
    log = feed()
    log.receive("p2", "p1#1", "p1#2", "p1#3", "p1#4", "p1#5")
    log.purge("p2", "p1#3", "p1#5")
    log.deliver("p2", "p1#5", "p1#2", "p1#1", "p1#4")
    assert fifo_order.check(log.journal)
    assert check_safety(log.journal).ok


def test_unmarked_messages_stay_in_order() -> None:
    log = feed()
    log.take("p2", "p1#4", "p1#1")
    text = only(key_order.check(log.journal), "p2", "p1#1", "p1#4")
    assert text.startswith("p2.1 delivers p1.1#1 after p1.1#4, which was multicast later")


def test_messages_of_a_key_stay_in_order_even_if_no_annotation_links_them() -> None:
    log = feed()
    log.multicast("p1#6", key="a")
    log.take("p2", "p1#6", "p1#2")
    assert "p1.1#2 after p1.1#6" in only(key_order.check(log.journal), "p2", "p1#2", "p1#6")


def test_what_is_replaced_never_comes_after_what_replaces_it() -> None:
    """Several keys at once are of no stream, but name what they replace."""
    log = feed()
    log.multicast("p1#6", 1, 4)
    log.take("p2", "p1#6", "p1#4", "p1#2")
    only(key_order.check(log.journal), "p2", "p1#2", "p1#6")


def test_a_ranked_use_of_a_key_is_a_stream_of_its_own() -> None:
    log = Log(order="key")
    log.multicast("p1#1", key="a")
    log.multicast("p1#2", key="a", rank=1)
    log.multicast("p1#3", key="a", rank=2)
    log.take("p2", "p1#3", "p1#1")
    assert not key_order.check(log.journal)
    log.take("p2", "p1#2")
    only(key_order.check(log.journal), "p2", "p1#2", "p1#3")


def test_senders_and_nodes_have_streams_of_their_own() -> None:
    log = Log(order="key")
    log.multicast("p1#1")
    log.multicast("p2#1")
    log.multicast("p1#2")
    log.take("p3", "p2#1", "p1#1")
    log.take("p2", "p1#2", "p2#1")
    assert not key_order.check(log.journal)


# -- completeness ----------------------------------------------------------------------------------


def test_who_stops_in_the_middle_has_no_gap_among_unmarked_messages() -> None:
    log = feed()
    log.take("p2", "p1#4")
    log.crash("p2")
    text = only(key_completeness.check(log.journal), "p2", "p1#1", "p1#4")
    assert text.startswith("p2.1 delivers p1.1#4 but not p1.1#1")
    # SRM Figure 3 promises nothing to those that crash.
    assert not fifo_completeness.check(log.journal)


def test_who_stops_in_the_middle_may_have_a_new_value_and_lack_an_older_trade() -> None:
    """What order "key" gives up. Those who go on get the trade too."""
    log = feed()
    log.take("p2", "p1#5")
    assert check_safety(log.journal).ok
    log.crash("p2")
    log.take("p3", "p1#5")
    assert not key_completeness.check(log.journal)
    # At rest a correct process has it, or completeness is broken as with FIFO order.
    assert {one.node for one in fifo_completeness.check(log.journal)} == {"p3.1"}
    log.take("p1", "p1#1", "p1#2", "p1#4", "p1#5")
    log.take("p3", "p1#1", "p1#2", "p1#4")
    assert check_all(log.journal).ok


def test_a_replaced_message_of_a_key_may_be_passed_over_once_it_is_replaced() -> None:
    log = feed()
    log.multicast("p1#6", key="b")
    log.take("p2", "p1#6")
    # 3 is replaced by 5, but nothing replaces 5.
    only(key_completeness.check(log.journal), "p2", "p1#5", "p1#6")
    for one_order in (True, False):
        log = feed(one_order=one_order)
        log.multicast("p1#6", key="a")
        log.take("p2", "p1#6")
        log.multicast("p1#7", 5)
        assert bool(key_completeness.check(log.journal)) == one_order


def test_who_joins_later_owes_nothing_before_its_join_point() -> None:
    log = feed()
    log.join("p3.2", "p1#4")
    log.take("p3.2", "p1#4")
    assert not key_completeness.check(log.journal)
    log = feed()
    log.join("p3.2", "p1#1")
    log.take("p3.2", "p1#4")
    only(key_completeness.check(log.journal), "p3.2", "p1#1", "p1#4")


# -- the header ------------------------------------------------------------------------------------


def test_the_header_says_which_order_is_judged() -> None:
    by_key = list(check_all(Log(order="key").journal).judged)
    fifo = list(check_all(Log().journal).judged)
    assert by_key[:3] == ["Integrity", "Key Order", "Key Completeness"]
    at = fifo.index("FIFO Order")
    assert [*fifo[:at], "Key Order", "Key Completeness", *fifo[at + 1 :]] == by_key


def test_a_header_without_an_order_is_of_the_time_of_fifo() -> None:
    old = HEADER.to_json().replace('"order": "fifo", ', "")
    assert "order" not in old.replace("one_order", "")
    assert Header.from_json(old) == HEADER


def test_a_header_with_an_unknown_order_is_refused() -> None:
    with pytest.raises(InputError, match="order 'total' in the journal's header"):
        Header.from_json(HEADER.to_json().replace('"order": "fifo"', '"order": "total"'))
