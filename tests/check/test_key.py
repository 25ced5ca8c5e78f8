"""Key Order and Key Completeness by hand: what order "key" still promises, and what it does not."""

import random
from collections import Counter

import pytest
from tests.check import brute
from tests.check.log import HEADER, Log, broken, only

from semcast.check import check_all, check_safety, fifo_order, key_completeness, key_order
from semcast.check.owed import FIFO_COMPLETENESS
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
    assert broken(fifo_order.PROPERTY, log.journal)
    assert check_safety(log.journal).ok


def test_unmarked_messages_stay_in_order() -> None:
    log = feed()
    log.take("p2", "p1#4", "p1#1")
    text = only(broken(key_order.PROPERTY, log.journal), "p2", "p1#1", "p1#4")
    assert text.startswith("p2.1 delivers p1.1#1 after p1.1#4, which was multicast later")


def test_messages_of_a_key_stay_in_order_even_if_no_annotation_links_them() -> None:
    log = feed()
    log.multicast("p1#6", key="a")
    log.take("p2", "p1#6", "p1#2")
    assert "p1.1#2 after p1.1#6" in only(
        broken(key_order.PROPERTY, log.journal), "p2", "p1#2", "p1#6"
    )


def test_what_is_replaced_never_comes_after_what_replaces_it() -> None:
    """Predecessors are of no stream, but name what they replace."""
    log = feed()
    log.multicast("p1#6", 1, 4)
    log.take("p2", "p1#6", "p1#4", "p1#2")
    only(broken(key_order.PROPERTY, log.journal), "p2", "p1#2", "p1#6")


def test_a_ranked_use_of_a_key_is_a_stream_of_its_own() -> None:
    log = Log(order="key")
    log.multicast("p1#1", key="a")
    log.multicast("p1#2", key="a", rank=1)
    log.multicast("p1#3", key="a", rank=2)
    log.take("p2", "p1#3", "p1#1")
    assert not broken(key_order.PROPERTY, log.journal)
    log.take("p2", "p1#2")
    only(broken(key_order.PROPERTY, log.journal), "p2", "p1#2", "p1#3")


def test_senders_and_nodes_have_streams_of_their_own() -> None:
    log = Log(order="key")
    log.multicast("p1#1")
    log.multicast("p2#1")
    log.multicast("p1#2")
    log.take("p3", "p2#1", "p1#1")
    log.take("p2", "p1#2", "p2#1")
    assert not broken(key_order.PROPERTY, log.journal)


# -- completeness ----------------------------------------------------------------------------------


def test_who_stops_in_the_middle_has_no_gap_among_unmarked_messages() -> None:
    log = feed()
    log.take("p2", "p1#4")
    log.crash("p2")
    text = only(broken(key_completeness.PROPERTY, log.journal), "p2", "p1#1", "p1#4")
    assert text.startswith("p2.1 delivers p1.1#4 but not p1.1#1")
    # SRM Figure 3 promises nothing to those that crash.
    assert not broken(FIFO_COMPLETENESS, log.journal)


def test_who_stops_in_the_middle_may_have_a_new_value_and_lack_an_older_trade() -> None:
    """What order "key" gives up. Those who go on get the trade too."""
    log = feed()
    log.take("p2", "p1#5")
    assert check_safety(log.journal).ok
    log.crash("p2")
    log.take("p3", "p1#5")
    assert not broken(key_completeness.PROPERTY, log.journal)
    # At rest a correct process has it, or completeness is broken as with FIFO order.
    assert {one.node for one in broken(FIFO_COMPLETENESS, log.journal)} == {"p3.1"}
    log.take("p1", "p1#1", "p1#2", "p1#4", "p1#5")
    log.take("p3", "p1#1", "p1#2", "p1#4")
    assert check_all(log.journal).ok


def test_a_replaced_message_of_a_key_may_be_passed_over_once_it_is_replaced() -> None:
    log = feed()
    log.multicast("p1#6", key="b")
    log.take("p2", "p1#6")
    # 3 is replaced by 5, but nothing replaces 5.
    only(broken(key_completeness.PROPERTY, log.journal), "p2", "p1#5", "p1#6")
    for one_order in (True, False):
        log = feed(one_order=one_order)
        log.multicast("p1#6", key="a")
        log.take("p2", "p1#6")
        log.multicast("p1#7", 5)
        assert bool(broken(key_completeness.PROPERTY, log.journal)) == one_order


def test_who_joins_later_owes_nothing_before_its_join_point() -> None:
    log = feed()
    log.join("p3.2", "p1#4")
    log.take("p3.2", "p1#4")
    assert not broken(key_completeness.PROPERTY, log.journal)
    log = feed()
    log.join("p3.2", "p1#1")
    log.take("p3.2", "p1#4")
    only(broken(key_completeness.PROPERTY, log.journal), "p3.2", "p1#1", "p1#4")


# -- the header ------------------------------------------------------------------------------------


def test_the_header_says_which_order_is_judged() -> None:
    by_key = list(check_all(Log(order="key").journal).judged)
    fifo = list(check_all(Log().journal).judged)
    assert by_key[:3] == ["Integrity", "Key Order", "Key Completeness"]
    at = fifo.index("FIFO Order")
    assert fifo[at + 1] == "Stream Completeness"
    assert [*fifo[:at], "Key Order", "Key Completeness", *fifo[at + 2 :]] == by_key


def test_a_header_without_an_order_is_of_the_time_of_fifo() -> None:
    old = HEADER.to_json().replace('"order": "fifo", ', "")
    assert "order" not in old.replace("one_order", "")
    assert Header.from_json(old) == HEADER


def test_a_header_with_an_unknown_order_is_refused() -> None:
    with pytest.raises(InputError, match="order 'total' in the journal's header"):
        Header.from_json(HEADER.to_json().replace('"order": "fifo"', '"order": "total"'))


# -- several keys ----------------------------------------------------------------------------------


def stale() -> Log:
    """Nine trades, "a=1 b=1", "a=2", as they were delivered once."""
    log = Log(order="key")
    trades = [f"p1#{seq}" for seq in range(1, 10)]
    for trade in trades:
        log.multicast(trade)
    log.multicast("p1#10", key='keys:["a", "b"]')
    log.multicast("p1#11", key="a")
    log.receive("p2", *trades, "p1#10", "p1#11")
    log.deliver("p2", *trades[:7], "p1#11", *trades[7:], "p1#10")
    return log


def test_a_message_about_several_keys_has_a_place_in_the_order_of_each() -> None:
    log = stale()
    text = only(broken(key_order.PROPERTY, log.journal), "p2", "p1#10", "p1#11")
    assert text.startswith("p2.1 delivers p1.1#10 after p1.1#11, which was multicast later")
    # Who stops in the middle has a=2, and lacks what was said of b.
    only(broken(key_completeness.PROPERTY, log.journal), "p2", "p1#10", "p1#11")


def test_a_message_about_several_keys_does_not_come_before_an_older_value_of_one() -> None:
    log = Log(order="key")
    log.multicast("p1#1", key="b")
    log.multicast("p1#2", key='keys:["a", "b"]')
    log.take("p2", "p1#2", "p1#1")
    only(broken(key_order.PROPERTY, log.journal), "p2", "p1#1", "p1#2")


def test_what_is_about_several_of_the_keys_is_missed_once() -> None:
    log = Log(order="key")
    log.multicast("p1#1", key='keys:["a", "b"]')
    log.multicast("p1#2", key='keys:["b", "a"]')
    log.take("p2", "p1#2")
    only(broken(key_completeness.PROPERTY, log.journal), "p2", "p1#1", "p1#2")


def test_key_sets_that_share_nothing_come_in_any_order_and_are_not_unmarked() -> None:
    log = Log(order="key")
    log.multicast("p1#1", key='keys:["a", "b"]')
    log.multicast("p1#2", key='keys:["c", "d"]')
    log.multicast("p1#3")
    log.take("p2", "p1#3", "p1#2", "p1#1")
    assert check_safety(log.journal).ok


# -- lives -----------------------------------------------------------------------------------------


def two_lives() -> Log:
    log = Log(order="key")
    log.multicast("p1#1", key="a")
    log.crash("p1")
    log.join("p1.2")
    log.multicast("p1.2#1", key="a")
    return log


def test_a_value_of_a_former_life_that_was_there_does_not_come_last() -> None:
    log = two_lives()
    log.receive("p2", "p1#1", "p1.2#1")
    log.deliver("p2", "p1.2#1", "p1#1")
    text = only(broken(key_order.PROPERTY, log.journal), "p2", "p1#1", "p1.2#1")
    assert text.startswith("p2.1 delivers p1.1#1 after p1.2#1, which is about the same key and of")


def test_a_value_of_a_former_life_that_comes_late_is_delivered_late() -> None:
    """It may not be lost, and the newer one could not wait for what nobody may have."""
    log = two_lives()
    log.take("p2", "p1.2#1", "p1#1")
    assert check_safety(log.journal).ok


def test_lives_are_in_order_by_key_only() -> None:
    log = two_lives()
    log.multicast("p1.2#2", key="b")
    log.multicast("p1.2#3")
    log.receive("p2", "p1#1", "p1.2#1", "p1.2#2", "p1.2#3")
    log.deliver("p2", "p1.2#2", "p1.2#3", "p1#1", "p1.2#1")
    assert check_safety(log.journal).ok


def test_lives_are_judged_as_defined() -> None:
    """Three lives, and messages that come and are delivered in any order."""
    verdicts = Counter[bool]()
    for seed in range(200):
        log, stream = Log(order="key"), random.Random(f"lives/{seed}")
        sent = []
        for life in (1, 2, 3):
            for seq in (1, 2):
                keys = stream.choice(["a", "b", 'keys:["a", "b"]', 'keys:["b", "c"]', None])
                log.multicast(f"p1.{life}#{seq}", key=keys)
                sent.append(f"p1.{life}#{seq}")
        waiting: list[str] = []
        while sent or waiting:
            if sent and stream.random() < 0.6:
                waiting.append(sent.pop(0 if stream.random() < 0.8 else -1))
                log.receive("p2", waiting[-1])
            elif waiting:
                log.deliver("p2", waiting.pop(stream.randrange(len(waiting))))
        found = {(one.time_ns, one.messages[0]) for one in broken(key_order.PROPERTY, log.journal)}
        assert found == brute.key_order(log.journal)
        verdicts[bool(brute.late_lives(brute.Facts(log.journal)))] += 1
    assert min(verdicts.values()) > 20
