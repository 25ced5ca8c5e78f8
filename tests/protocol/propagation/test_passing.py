"""What a site tells sources of their messages, while one graph counts."""

from tests.protocol.propagation.samples import STREAMS, entry, opening

from semcast.ids import Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.propagation.history import History
from semcast.protocol.propagation.memory import Memory
from semcast.protocol.propagation.passing import Passing
from semcast.protocol.propagation.site_delivery import SiteDelivery


def test_who_sends_to_a_former_primary_destination_again_hears_when_everybody_has_it() -> None:
    """The message had its place there in a former graph, and its source did not hear of it before
    it crashed. The next one knows nothing of it, so nobody else would tell.
    """
    graph = opening(2).graph
    former = next(site for site in (1, 2, 3, 4, 5) if site != graph.primaries["alpha"])
    memory = Memory(None, STREAMS)
    delivery = SiteDelivery(MemberConfig(), Source(former, 1), memory, None)
    sent = entry("alpha", 1)
    last = {sent.stream: sent.seq}
    passing = Passing(former, graph, {}, delivery, History(memory, 9), last)
    assert passing.has_place(sent)
    assert list(passing.streams_changed) == [sent.stream]
    assert passing.settled(sent.stream) == 0, "somebody may still be in the former graph"
    passing.streams_changed.clear()
    passing.all_before()
    assert list(passing.streams_changed) == [sent.stream]
    assert passing.settled(sent.stream) == sent.seq
