"""A line keeps the order of what waits, and tells what was purged in its place (SRM §4.3)."""

from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.propagation.samples import STREAMS

from semcast.ids import Source
from semcast.protocol.propagation.entries import Entry
from semcast.protocol.propagation.line import Line, Order
from semcast.protocol.propagation.neighbour import NotOwn
from semcast.protocol.queue.policy import Purging
from semcast.wire.message import Message

A, B = STREAMS.stream(1, 1, "alpha"), STREAMS.stream(2, 1, "alpha")


def line(messages_max: int = 100, purging: Purging = Purging.EAGER) -> Line:
    return Line(messages_max, purging, "forward", None, None)


def entry(seq: int, key: bytes = b"", stream: Source = A) -> Entry:
    """A message at the place of its number; with a key it replaces earlier ones of that key."""
    message = Message(stream, seq, key + b"=", len(key), by_key=bool(key))
    return Entry(1, "alpha", seq, stream, seq, message)


def said(item: Entry | Order | None) -> tuple[str, int, int]:
    """What a reader sees of one: whose, which number, and what replaced it."""
    if item is None:
        return "nothing", 0, 0
    if isinstance(item, Order):
        return "order", item.record[0], 0
    return f"site {item.stream.site}", item.seq, item.cover


def all_of(one: Line) -> list[tuple[str, int, int]]:
    found = []
    while (item := one.pop()) is not None:
        found.append(said(item))
    return found


class NaiveLine:
    """A list, and every earlier message of the same stretch looked at each time."""

    def __init__(self) -> None:
        self.items: list[Entry | Order] = []

    def put(self, one: Entry) -> None:
        message = one.message
        at = len(self.items)
        while message is not None and message.by_key and at > 0:
            at -= 1
            earlier = self.items[at]
            if isinstance(earlier, Order):
                break
            old = earlier.message
            same = old is not None and old.by_key and old.source == message.source
            if same and old is not None and old.key == message.key:
                self.items[at] = earlier.purged(one.seq)
        self.items.append(one)


_OPS = st.lists(
    st.sampled_from(["put"] * 6 + ["told", "order", "pop", "pop", "pop"]).flatmap(
        lambda what: st.tuples(
            st.just(what), st.sampled_from([A, B]), st.sampled_from([b"", b"x", b"y"])
        )
    ),
    max_size=60,
)


@given(_OPS)
def test_a_line_says_what_a_list_says(ops: list[tuple[str, Source, bytes]]) -> None:
    """Order is kept, what is purged is told in its place, and nothing is purged across an order."""
    one, naive = line(), NaiveLine()
    for at, (what, stream, key) in enumerate(ops):
        seq = at + 1
        if what == "put":
            one.put(entry(seq, key, stream))
            naive.put(entry(seq, key, stream))
        elif what == "told":
            purged = entry(seq, b"z", stream).purged(seq + 1_000)
            one.put(purged)
            naive.put(purged)
        elif what == "order":
            one.put_order(bytes([at]))
            naive.items.append(Order(bytes([at])))
        else:
            head = said(one.head())
            assert head == said(one.pop())
            assert head == said(naive.items.pop(0) if naive.items else None)
        messages = [
            item for item in naive.items if isinstance(item, Entry) and item.message is not None
        ]
        assert len(one) == len(naive.items)
        assert one.held == len(messages)
        assert one.empty == (not naive.items)
    assert all_of(one) == [said(item) for item in naive.items]


def test_what_is_replaced_keeps_its_place_without_its_message() -> None:
    one = line()
    for number, key in ((1, b"x"), (2, b""), (3, b"y"), (4, b"x")):
        one.put(entry(number, key))
    assert one.purged == 1
    assert all_of(one) == [
        ("site 1", number, cover) for number, cover in ((1, 4), (2, 0), (3, 0), (4, 0))
    ]


def test_nothing_is_purged_across_an_order() -> None:
    """Behind a Close or an Open the group may have other members (PROP §5.1)."""
    one = line()
    one.put(entry(1, b"x"))
    one.put_order(b"\x02")
    one.put(entry(2, b"x"))
    assert one.purged == 0
    assert all_of(one) == [("site 1", 1, 0), ("order", 2, 0), ("site 1", 2, 0)]


def test_a_full_line_takes_a_message_that_replaces_one_and_no_other() -> None:
    one = line(2)
    one.put(entry(1, b"x"))
    one.put(entry(2, b"y"))
    assert one.room() == 0
    assert not one.admits(entry(3, b"z").message or Message(A, 3, b""))
    last = entry(3, b"x")
    assert last.message is not None
    assert one.admits(last.message)
    one.put(last)
    assert one.held == 2


def test_told_ones_are_bounded_too() -> None:
    one = line(2)
    for number in range(1, 9):
        assert not one.told_full
        one.put(entry(number, b"x").purged(100))
    assert one.told_full
    assert one.room() == 0
    assert not one.admits(Message(A, 9, b""))
    one.pop()
    assert not one.told_full


def test_an_own_message_at_its_own_primary_purges_nothing_in_a_forward_line() -> None:
    """Only this site may have it: if the site fails, both would be lost (guard NotOwn)."""
    guarded = Line(10, Purging.EAGER, "forward", None, NotOwn(Source(1, 1)))
    for stream in (A, B):
        guarded.put(entry(1 + 10 * stream.site, b"x", stream))
        guarded.put(entry(2 + 10 * stream.site, b"x", stream))
    assert all_of(guarded) == [
        ("site 1", 11, 0),
        ("site 1", 12, 0),
        ("site 2", 21, 22),
        ("site 2", 22, 0),
    ]


def test_without_purging_everything_stays() -> None:
    one = line(purging=Purging.OFF)
    for number in (1, 2, 3):
        one.put(entry(number, b"x"))
    assert [number for _, number, cover in all_of(one) if not cover] == [1, 2, 3]


def test_unwanted_entries_leave_a_line_and_the_rest_keeps_its_order() -> None:
    """A source begins anew: what is left of its former attempt is dropped (readings, R2)."""
    one = line()
    for number in range(1, 7):
        one.put(entry(number, b"", A if number % 2 else B))
        if number == 3:
            one.put_order(b"\x02")
    one.drop(lambda old: old.stream == A)
    assert all_of(one) == [("site 2", 2, 0), ("order", 2, 0), ("site 2", 4, 0), ("site 2", 6, 0)]
    assert one.empty
    assert one.held == 0


def test_a_message_that_waits_already_comes_once() -> None:
    one = line()
    one.put(entry(1))
    one.put(entry(1))
    assert all_of(one) == [("site 1", 1, 0)]
