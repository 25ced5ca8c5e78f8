"""The lower tier: admission control, and who may be sent to now."""

import random

import pytest
from tests.protocol.epidemic.making import SECOND

from semcast.ids import NEVER, Source
from semcast.protocol.epidemic.config import GossipConfig
from semcast.protocol.epidemic.link import WINDOW_FIRST, AdaptiveWindow, StaticShare
from semcast.protocol.epidemic.links import Links
from semcast.protocol.outbox import Outbox
from semcast.wire.decode import Decoder
from semcast.wire.families.epidemic import Heard, Stamp
from semcast.wire.limits import Limits

MS = SECOND // 1000


def test_a_share_is_free_when_its_bytes_have_gone() -> None:
    """PSRM §4.2: 10 Mb/s over 50 · 49 links are 5.1 messages of 100 bytes a second."""
    share = StaticShare(10e6 / 8 / (50 * 49))
    share.sent(100, 0)
    assert share.free_ns == 196 * MS
    share.sent(100, SECOND)
    assert share.free_ns == SECOND + 196 * MS


def test_a_window_closes_when_nothing_is_heard_and_opens_with_what_is() -> None:
    window = AdaptiveWindow()
    for _ in range(int(WINDOW_FIRST)):
        assert window.free_ns <= 0
        window.sent(100, 0)
    assert window.free_ns > 0
    window.heard(2, 2, 10 * MS)
    assert window.free_ns == 0
    assert window.window > WINDOW_FIRST


def test_a_window_is_halved_by_losses_once_for_each_round() -> None:
    window = AdaptiveWindow()
    window.window = 64.0
    for _ in range(64):
        window.sent(100, 0)
    window.heard(32, 8, 10 * MS)
    assert window.window == 32.0
    window.heard(48, 12, 11 * MS)
    assert window.window == 32.0


def test_a_few_losses_are_what_gossip_makes_up_for() -> None:
    window = AdaptiveWindow()
    for heard in range(1, 201):
        window.sent(100, 0)
        window.heard(heard, heard - heard // 20, MS)
    assert window.window > 4 * WINDOW_FIRST


def test_a_link_to_nobody_takes_a_datagram_now_and_then() -> None:
    window = AdaptiveWindow()
    now_ns, sent = 0, 0
    while now_ns < 10 * SECOND:
        now_ns = max(now_ns, int(window.free_ns))
        window.sent(100, now_ns)
        sent += 1
    assert window.window == 1.0
    assert sent < 60


def test_counts_that_go_around_or_begin_anew_do_no_harm() -> None:
    window = AdaptiveWindow()
    for _ in range(3):
        window.sent(100, 0)
    window.heard(3, 3, MS)
    for _ in range(3):
        window.sent(100, MS)
    before = window.window
    window.heard(6, 1, 2 * MS)  # the other side is in another life
    window.heard(900, 900, 2 * MS)  # of datagrams that were sent before this link was made anew
    assert window.window >= before
    assert window.stamp() == 901
    assert window.free_ns == 0


def test_links_that_are_awaited_are_due_when_they_are_free() -> None:
    links = Links(GossipConfig(link_bytes_s=1000.0))
    assert links.link(7).idle(0)
    links.link(7).sent(100, 0)
    links.link(8).sent(50, 0)
    assert not links.link(7).idle(0)
    for to in (7, 8, 7):
        links.awaits(links.link(to))
    assert links.next_deadline_ns() == 50 * MS
    assert [link.to for link in links.due(50 * MS)] == [8]
    assert links.due(99 * MS) == []
    assert [link.to for link in links.due(100 * MS)] == [7]
    assert links.next_deadline_ns() == NEVER


def test_a_link_that_is_awaited_is_not_idle_so_that_nothing_overtakes() -> None:
    links = Links(GossipConfig(link_bytes_s=1000.0))
    links.link(7).sent(100, 0)
    links.awaits(links.link(7))
    assert not links.link(7).idle(200 * MS)


def test_stamps_are_answered_soon_and_many_at_once() -> None:
    links = Links(GossipConfig())
    other = Source(7, 1)
    for number in range(1, 4):
        links.on_frame(Stamp(number), other, 0)
    outbox = Outbox(Source(0, 1), Limits())
    links.pack(outbox, 0)
    assert not outbox.take()
    later_ns = links.next_deadline_ns()
    assert 0 < later_ns < SECOND
    links.pack(outbox, later_ns)
    (sent,) = outbox.take()
    assert sent.to == 7
    assert Decoder().decode(sent.frames, other).control == [Heard(3, 3)]
    assert links.next_deadline_ns() == NEVER


def exchanged(window: AdaptiveWindow, links: Links, begin_ns: int, until_ns: int) -> int:
    """How many datagrams go, at most three in a millisecond, if all arrive and are answered."""
    receiver, sent = Source(1, 1), 0
    outbox = Outbox(Source(0, 1), Limits())
    for now_ns in range(begin_ns, until_ns, MS):
        for _ in range(3):
            if window.free_ns <= now_ns:
                number = int(window.stamp())
                window.sent(100, now_ns)
                sent += 1
                if number > 0:
                    links.on_frame(Stamp(number), receiver, now_ns)
        links.pack(outbox, now_ns)
        for one in outbox.take():
            for frame in Decoder().decode(one.frames, receiver).control:
                assert isinstance(frame, Heard)
                window.heard(frame.number, frame.count, now_ns)
    return sent


def test_a_link_that_only_one_end_has_made_anew_is_as_good_as_before() -> None:
    """The farewell was lost, say, and the two became neighbours again at once."""
    links = Links(GossipConfig())
    before = exchanged(AdaptiveWindow(), links, 0, SECOND)
    assert before > 1000
    assert exchanged(AdaptiveWindow(), links, SECOND, 2 * SECOND) > 0.9 * before
    # A link that ends sooner than its first numbers were heard of is no worse.
    assert exchanged(AdaptiveWindow(), links, 2 * SECOND, 2 * SECOND + 3 * MS) > 0
    assert exchanged(AdaptiveWindow(), links, 3 * SECOND, 4 * SECOND) > 0.9 * before


def test_a_link_outlives_the_last_number_of_its_stamps() -> None:
    links, window = Links(GossipConfig()), AdaptiveWindow()
    window._sent = window._heard = (1 << 32) - 100
    links.on_frame(Stamp(1), Source(1, 1), 0)
    links._stamps[1].newest = (1 << 32) - 100
    assert exchanged(window, links, 0, SECOND) > 1000


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_two_windows_find_what_a_bottleneck_carries(loss: float) -> None:
    """1000 datagrams a second pass, 50 may wait, and the rest is lost."""
    rng, window, links = random.Random(1), AdaptiveWindow(), Links(GossipConfig())
    receiver, queue, passed = Source(1, 1), [0] * 0, 0
    outbox = Outbox(Source(0, 1), Limits())
    for now_ns in range(0, 20 * SECOND, MS):
        for _ in range(3):
            if window.free_ns <= now_ns:
                number = int(window.stamp())
                window.sent(100, now_ns)
                if len(queue) < 50 and rng.random() >= loss:
                    queue.append(number)
        if queue:
            links.on_frame(Stamp(queue.pop(0)), receiver, now_ns)
            passed += 1
        links.pack(outbox, now_ns)
        for sent in outbox.take():
            for frame in Decoder().decode(sent.frames, receiver).control:
                assert isinstance(frame, Heard)
                window.heard(frame.number, frame.count, now_ns)
    assert passed > 0.8 * 20_000
