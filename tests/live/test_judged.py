"""Live journals, judged: with purging, in both orders; and what was altered in one is found."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.live.groups import Nodes, wait_until
from tests.live.journals import check_journals, leave_all
from tests.live.material import Way

from semcast.check import check_all
from semcast.journal import Event, Journal, write_journal

pytest.importorskip("pyarrow")
COUNT = 500
ORDERS = {"fifo": "FIFO Order", "key": "Key Order"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By order: the journal of a group with a slow reader, for which most of it is replaced."""
    found: dict[str, Path] = {}
    for order in ORDERS:
        found[order] = tmp_path_factory.mktemp(order)
        way = Way("multicast", ipv6=False)
        with Nodes(way, order=order, deliver_own=False, record=str(found[order])) as nodes:
            for node in nodes:
                node.call("collect", busy_s=0.01 if node.name == "c" else 0.0)
            for sender in "ab":
                nodes[sender].call("traffic", count=COUNT, keys=8, marked=0.8)
            for sender in "ab":
                wait_until(lambda s=sender: not nodes[s].call("sending"), f"{sender} sends")  # type: ignore[misc]
            leave_all(nodes)
    return found


@pytest.mark.parametrize("order", ORDERS)
def test_a_group_with_a_slow_reader_keeps_its_order_while_it_purges(
    order: str, folders: dict[str, Path]
) -> None:
    (history,) = check_journals(folders[order], rested=3)
    assert history.counts["purge"] > COUNT / 2
    judged = check_all(history).judged
    assert judged[ORDERS[order]] > COUNT
    assert not judged.keys() & (set(ORDERS.values()) - {ORDERS[order]})
    name = next(line.split()[0] for line in history.header.names if line.endswith(" c"))
    purged = [one for one in history.journal.select(name, "purge") if one.where == "delivery"]
    assert len(purged) > COUNT / 4, "the slow one purges what it cannot take"


def unmarked(events: list[Event]) -> list[int]:
    """Where one reader delivers what is never replaced of one sender."""
    found = [at for at, one in enumerate(events) if one.event == "deliver" and one.key is None]
    first = events[found[0]]
    whose = first.node, first.sender
    return [at for at in found if (events[at].node, events[at].sender) == whose]


def lost(events: list[Event]) -> None:
    del events[unmarked(events)[1]]


def swapped(events: list[Event]) -> None:
    first, second = unmarked(events)[1:3]
    one, other = events[first], events[second]
    events[first], events[second] = (
        one._replace(seq=other.seq, sent_ns=other.sent_ns),
        other._replace(seq=one.seq, sent_ns=one.sent_ns),
    )


def repeated(events: list[Event]) -> None:
    first, second = unmarked(events)[1:3]
    events[second] = events[second]._replace(seq=events[first].seq)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("alter", "broken"),
    [(lost, "Agreement"), (swapped, "Order"), (repeated, "Integrity")],
    ids=["lost", "swapped", "repeated"],
)
def test_what_is_altered_in_a_live_journal_is_found(
    order: str,
    alter: Callable[[list[Event]], None],
    broken: str,
    folders: dict[str, Path],
    tmp_path: Path,
) -> None:
    """As it is, the same journal passes."""
    (history,) = check_journals(folders[order], rested=3)
    for change in (lambda _: None, alter):
        events = list(history.journal)
        change(events)
        journal = Journal(history.header)
        for event in events:
            journal.append(event)
        write_journal(journal, tmp_path)
        if change is alter:
            with pytest.raises(AssertionError, match=rf"{broken}.* [1-9]\d*\n"):
                check_journals(tmp_path, rested=3)
        else:
            check_journals(tmp_path, rested=3)
