"""What waits for the application of a site, from life to life."""

from tests.protocol.propagation.samples import STREAMS

from semcast.ids import Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.propagation.entries import Entry
from semcast.protocol.propagation.memory import Memory
from semcast.protocol.propagation.site_delivery import SiteDelivery
from semcast.wire.message import Message


def delivery(life: int) -> SiteDelivery:
    return SiteDelivery(MemberConfig(), Source(1, life), Memory(None, STREAMS), None)


def test_what_waits_moves_to_the_next_life_and_is_taken_once() -> None:
    """A thread of the application that was on its way to the former life finds nothing there; it
    once took from there what the next life gave it again.
    """
    former, later = delivery(1), delivery(2)
    stream = STREAMS.stream(2, 1, "alpha")
    for seq in (1, 2, 3):
        former.put(Entry(1, "alpha", seq, stream, seq, Message(stream, seq, b"")))
    first = former.take()
    assert first is not None
    assert first.seq == 1
    later.follow(former)
    assert former.take() is None
    assert [int(message.seq) for message in later.messages()] == [2, 3]
    assert {seq for _, seq in later.taken()} == {1}
