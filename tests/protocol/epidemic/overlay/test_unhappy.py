"""One overlay against floods, forgeries, nonsense and silence: everything stays bounded."""

from random import Random

import pytest
from bench.overlay_shape import faults
from bench.overlay_world import SECOND_NS, OverlayWorld

from semcast.errors import ConfigError
from semcast.ids import NEVER, Source
from semcast.protocol.epidemic.overlay.config import OverlayConfig
from semcast.protocol.epidemic.overlay.entries import Entries
from semcast.protocol.epidemic.overlay.inquiries import Inquiries
from semcast.protocol.epidemic.overlay.island import Island
from semcast.protocol.epidemic.overlay.overlay import DOWN, UP, Overlay
from semcast.protocol.outbox import Outbox
from semcast.wire.decode import Decoder
from semcast.wire.families.overlay import (
    ACCEPTS,
    ANSWERS,
    ASKS,
    LINKED,
    REFUSES,
    URGENT,
    Disconnect,
    Enter,
    Entry,
    Neighbor,
    Pulse,
    Shuffle,
)
from semcast.wire.frames import ControlFrame
from semcast.wire.limits import PATH_MTU_BYTES_MIN, Limits

ME = Entry(Source(1, 5), b"me")


def entry(number: int, life: int = 1) -> Entry:
    return Entry(Source(number, life), b"at %d" % number)


def overlay_of(neighbours: int = 0, config: OverlayConfig | None = None) -> Overlay:
    """An overlay with so many neighbours, whose numbers begin with 101, and nothing to say."""
    overlay = Overlay(ME, config or OverlayConfig(), Random(1), 0)
    for number in range(101, 101 + neighbours):
        link(overlay, number)
    overlay.events()
    return overlay


def link(overlay: Overlay, number: int, life: int = 1, marks: int = 0) -> list[ControlFrame]:
    other = entry(number, life)
    return hears(overlay, Neighbor(marks, 7, other), other.source)


def hears(
    overlay: Overlay, frame: ControlFrame, source: Source, now_ns: int = 0
) -> list[ControlFrame]:
    """What the overlay says to a frame."""
    overlay.on_frame(frame, source, now_ns)
    return [said for _, said in overlay.take()]


# Floods


def test_a_flood_of_newcomers_takes_few_links_and_makes_no_more_frames_than_it_has() -> None:
    overlay = overlay_of(5)
    said = 0
    for number in range(1_000, 3_000):
        said += len(hears(overlay, Enter(entry(number)), Source(number, 1)))
        # Each of them accepts whatever it is offered.
        for to, frame in overlay.take():
            if isinstance(frame, Neighbor):
                other = entry(to)
                overlay.on_frame(Neighbor(ACCEPTS, frame.number, other), other.source, 0)
    assert said < 2_000 + 5 * 8
    assert len(overlay.neighbours()) == 5
    lost = [event for event in overlay.events() if event.kind == DOWN]
    assert len(lost) <= overlay.config.displaced_per_round
    assert len(overlay.views.passive) <= 30


def test_a_flood_of_urgent_questions_displaces_a_few_neighbours_in_a_round_and_no_more() -> None:
    overlay = overlay_of(5)
    answers = [
        frame.marks
        for number in range(1_000, 1_500)
        for frame in link(overlay, number, marks=URGENT)
        if isinstance(frame, Neighbor)
    ]
    assert answers.count(ACCEPTS) == overlay.config.displaced_per_round
    assert answers.count(REFUSES) == 500 - overlay.config.displaced_per_round
    assert len(overlay.neighbours()) == 5


def test_a_group_under_a_flood_of_made_up_newcomers_stays_one_overlay() -> None:
    world = OverlayWorld(1)
    world.add_all(range(1, 61), 1, SECOND_NS)
    world.run(10 * SECOND_NS)
    for made_up in range(2_000):
        number = 10_000 + made_up
        newcomer = Entry(Source(number, 1), number.to_bytes(6, "little"))
        world.inject(1 + made_up % 60, Enter(newcomer), newcomer.source)
        world.run(SECOND_NS // 500)
    # Nobody of them was ever there: what is left of them is forgotten.
    world.run(40 * SECOND_NS)
    assert faults(world.members) == []


# Forgeries and nonsense


def test_nobody_enters_or_is_a_neighbour_in_the_name_of_another() -> None:
    overlay = overlay_of(1)
    assert hears(overlay, Enter(entry(50)), Source(51, 1)) == []
    assert hears(overlay, Neighbor(URGENT, 7, entry(50)), Source(51, 1)) == []
    assert hears(overlay, Enter(ME), ME.source) == []
    assert hears(overlay, Neighbor(0, 7, ME), ME.source) == []
    assert overlay.neighbours() == [101]
    assert len(overlay.views.passive) == 0


def test_walks_are_taken_from_neighbours_only() -> None:
    overlay = overlay_of(3)
    stranger = Source(900, 1)
    assert hears(overlay, Enter(entry(50), True, 6), stranger) == []
    assert hears(overlay, Shuffle(entry(50), [entry(51)], 1, 6), stranger) == []
    former = Source(101, 0)
    assert hears(overlay, Enter(entry(50), True, 6), former) == []
    assert len(overlay.views.passive) == 0


def test_a_walk_is_no_longer_than_our_own_whatever_it_says() -> None:
    overlay = overlay_of(3)
    (step,) = hears(overlay, Enter(entry(50), True, 16), Source(101, 1))
    assert isinstance(step, Enter)
    assert step.ttl == overlay.config.active_walk - 1
    (step,) = hears(overlay, Shuffle(entry(50), [], 1, 16), Source(101, 1))
    assert isinstance(step, Shuffle)
    assert step.ttl == overlay.config.active_walk - 1


def test_answers_that_nobody_asked_for_are_nothing() -> None:
    overlay = overlay_of(1)
    stranger = Source(900, 1)
    assert hears(overlay, Neighbor(ACCEPTS, 1, entry(900)), stranger) == []
    assert hears(overlay, Neighbor(REFUSES, 1, entry(900)), stranger) == []
    assert hears(overlay, Pulse(ANSWERS, 1, stranger, 9, 99), stranger) == []
    for number in range(5):
        forged = Shuffle(ME, [entry(70 + number)], number, 0, answers=True)
        hears(overlay, forged, stranger)
    assert hears(overlay, Disconnect(), stranger) == []
    assert overlay.neighbours() == [101]
    assert len(overlay.views.passive) == 0
    assert overlay.splits == 0


def test_an_answer_counts_once() -> None:
    overlay = overlay_of()
    # With its first neighbour a member begins a shuffle.
    (number,) = [frame.number for frame in link(overlay, 101) if isinstance(frame, Shuffle)]
    hears(overlay, Shuffle(ME, [entry(70)], number, 0, answers=True), Source(101, 1))
    hears(overlay, Shuffle(ME, [entry(71)], number, 0, answers=True), Source(101, 1))
    assert [int(one.source.sender) for one in overlay.views.passive.all()] == [70]


def test_a_shuffle_of_nonsense_leaves_views_as_they_have_to_be() -> None:
    overlay = overlay_of(2)
    nonsense = [ME, entry(101), entry(102), entry(60), entry(60), entry(60, 9), entry(60, 3)]
    hears(overlay, Shuffle(entry(101), nonsense, 1, 0), Source(101, 1))
    assert overlay.views.passive.all() == [entry(60, 9)]
    assert overlay.neighbours() == [101, 102]


def test_shuffles_without_end_fill_the_passive_view_and_no_more() -> None:
    overlay = overlay_of(2)
    for at in range(300):
        entries = [entry(1_000 + 10 * at + number) for number in range(10)]
        (answer,) = hears(overlay, Shuffle(entry(101), entries, at, 0), Source(101, 1))
        assert isinstance(answer, Shuffle)
        assert len(answer.entries) <= 10
    assert len(overlay.views.passive) == 30


def test_every_frame_fits_the_smallest_datagram() -> None:
    long_address = bytes(20)
    overlay = Overlay(
        Entry(Source(1, 1), long_address),
        OverlayConfig(shuffle_active=4, shuffle_passive=5),
        Random(1),
        0,
    )
    for number in range(101, 106):
        other = Entry(Source(number, 1), long_address)
        overlay.on_frame(Neighbor(0, 7, other), other.source, 0)
    many = [Entry(Source(1_000 + number, 1), long_address) for number in range(10)]
    for at in range(4):
        overlay.on_frame(Shuffle(entry(101), many, at, 0), Source(101, 1), 0)
    overlay.on_timer(2 * SECOND_NS)
    outbox = Outbox(overlay.me.source, Limits(path_mtu_bytes=PATH_MTU_BYTES_MIN))
    overlay.pack(outbox, 0)
    sent = outbox.take()
    assert len(sent) > 5
    for one in sent:
        assert Decoder().decode(one.frames, overlay.me.source).control


# Silence


def test_a_neighbour_that_never_answers_is_asked_a_few_times_and_lost() -> None:
    overlay = overlay_of(1)
    now_ns, asked = 0, 0
    while overlay.neighbours() and now_ns < 60 * SECOND_NS:
        now_ns = int(overlay.next_deadline_ns())
        overlay.on_timer(now_ns)
        asked += sum(
            isinstance(frame, Pulse) and frame.marks & ASKS != 0 for _, frame in overlay.take()
        )
    assert asked == overlay.config.asks_max
    assert now_ns < 5 * SECOND_NS
    assert [event.kind for event in overlay.events()] == [DOWN]
    assert overlay.take_gone() == [101]
    assert overlay.take_gone() == []
    assert overlay.views.exiles.get(101) is not None


def test_any_datagram_of_a_neighbour_is_a_sign_of_life() -> None:
    overlay = overlay_of(1)
    now_ns = 0
    while now_ns < 30 * SECOND_NS:
        now_ns = int(overlay.next_deadline_ns())
        overlay.heard(Source(101, 1), now_ns)
        overlay.on_timer(now_ns)
    assert overlay.neighbours() == [101]
    assert not any(isinstance(frame, Pulse) and frame.marks & ASKS for _, frame in overlay.take())


def test_a_closed_port_makes_a_member_ask_at_once() -> None:
    overlay = overlay_of(2)
    overlay.refused(101, SECOND_NS // 10)
    ((to, frame),) = overlay.take()
    assert to == 101
    assert isinstance(frame, Pulse)
    assert frame.marks == ASKS | LINKED
    overlay.refused(999, SECOND_NS // 10)
    assert overlay.take() == []


def test_a_candidate_that_never_answers_is_forgotten_and_the_next_is_asked() -> None:
    overlay = overlay_of(1)
    for number in range(201, 206):
        overlay.views.know(entry(number))
    overlay.views.refill(0)
    asked = {to for to, frame in overlay.take() if isinstance(frame, Neighbor)}
    assert asked == {201, 202, 203, 204, 205}
    for _ in range(4):
        overlay.heard(Source(101, 1), int(overlay.next_deadline_ns()))
        overlay.on_timer(int(overlay.next_deadline_ns()))
    overlay.on_timer(SECOND_NS)
    assert len(overlay.views.passive) == 0
    assert len(overlay.views.exiles) == 5


def test_a_newcomer_whose_contact_is_not_there_asks_ever_less_often() -> None:
    overlay = Overlay(ME, OverlayConfig(), Random(1), 0)
    overlay.enter(entry(50), 0)
    asked_ns = [0]
    now_ns = 0
    while now_ns < 120 * SECOND_NS:
        now_ns = int(overlay.next_deadline_ns())
        overlay.on_timer(now_ns)
        asked_ns += [now_ns for _, frame in overlay.take() if isinstance(frame, Enter)]
    assert 10 < len(asked_ns) < 40
    assert asked_ns[-1] - asked_ns[-2] > 2 * SECOND_NS


def test_half_a_link_is_taken_back_at_the_next_pulse() -> None:
    overlay = overlay_of(2)
    stranger = Source(900, 1)
    assert hears(overlay, Pulse(LINKED, 0, stranger, 1, 1), stranger) == [Disconnect()]
    # An inquiry whose answer was lost is answered by the pulse.
    overlay.views.ask(entry(900), 0, 0)
    overlay.take()
    assert Disconnect() not in hears(overlay, Pulse(LINKED, 0, stranger, 1, 1), stranger)
    assert 900 in overlay.neighbours()
    assert [event.kind for event in overlay.events()] == [UP]


def test_a_neighbour_in_another_life_has_to_ask_again_and_its_former_life_is_not_heard() -> None:
    overlay = overlay_of(2)
    again = Source(101, 2)
    hears(overlay, Pulse(LINKED, 0, again, 1, 1), again)
    assert overlay.neighbours() == [102]
    link(overlay, 101, life=2)
    assert 101 in overlay.neighbours()
    assert not overlay.accepts(Source(101, 1))
    assert hears(overlay, Disconnect(), Source(101, 1)) == []
    assert 101 in overlay.neighbours()


def test_whoever_leaves_is_forgotten_at_once() -> None:
    overlay = overlay_of(2)
    hears(overlay, Disconnect(leaves=True), Source(101, 1))
    assert overlay.neighbours() == [102]
    assert [int(one.source.sender) for one in overlay.known()] == [102]
    hears(overlay, Disconnect(), Source(102, 1))
    assert [int(one.source.sender) for one in overlay.known()] == [102], "it may come back"
    overlay = overlay_of(2)
    overlay.goodbye()
    assert [frame for _, frame in overlay.take()] == [Disconnect(leaves=True)] * 2
    assert overlay.neighbours() == []


def test_events_are_bounded_if_nobody_takes_them() -> None:
    overlay = overlay_of(0)
    for number in range(1_000, 2_000):
        link(overlay, number)
        hears(overlay, Disconnect(leaves=True), Source(number, 1))
    assert len(overlay.events()) <= 256
    assert len(overlay.take_gone()) <= 256


# The pieces


def test_entries_take_later_lives_and_younger_news_only() -> None:
    entries = Entries(3, Random(1))
    for _ in range(10):
        entries.on_round(30)
    entries.add(Entry(Source(7, 2), b"x", 5))
    entries.add(Entry(Source(7, 1), b"y", 0))
    entries.add(Entry(Source(7, 2), b"z", 9))
    assert [(one.address, one.age) for one in entries.sample(3)] == [(b"x", 5)]
    entries.add(Entry(Source(7, 2), b"w", 2))
    assert [(one.address, one.age) for one in entries.sample(3)] == [(b"w", 2)]
    for _ in range(28):
        entries.on_round(30)
    assert [one.age for one in entries.sample(3)] == [30]
    entries.on_round(30)
    assert len(entries) == 0


def test_entries_are_bounded_and_each_has_its_turn() -> None:
    entries = Entries(3, Random(1))
    for number in range(50):
        entries.add(entry(number))
        assert len(entries) <= 3
    turns = [entries.next() for _ in range(6)]
    assert turns[:3] == turns[3:]
    assert Entries(1, Random(1)).next() is None
    assert Entries(1, Random(1)).random() is None


def test_questions_are_repeated_given_up_and_numbered() -> None:
    inquiries = Inquiries(10, 2)
    first = inquiries.ask(entry(1), 0, 0)
    second = inquiries.ask(entry(2), 0, 5)
    assert first.number != second.number
    assert inquiries.due_ns == 10
    assert inquiries.due(9) == ([], [])
    assert inquiries.due(12) == ([first], [])
    assert inquiries.due_ns == 15
    assert inquiries.due(30) == ([second], [first])
    assert inquiries.answered(2) is second
    assert inquiries.due_ns == NEVER
    assert inquiries.answered(2) is None


def test_an_island_takes_the_lowest_root_and_lets_go_of_one_that_is_silent() -> None:
    island = Island(Source(5, 1), beacon_rounds=4, steady_rounds=3)
    island.on_news(Source(3, 1), 10)
    assert island.beacon == Source(3, 1)
    island.on_news(Source(4, 1), 99)
    assert island.beacon == Source(3, 1)
    for number in range(11, 20):
        island.on_round()
        island.on_news(Source(3, 1), number)
    assert island.beacon == Source(3, 1)
    for _ in range(5):
        island.on_round()
        island.on_news(Source(3, 1), 19)
    assert island.beacon == Source(5, 1)
    # What others remember of it does not bring it back; what it says does.
    island.on_news(Source(3, 1), 19)
    assert island.beacon == Source(5, 1)
    island.on_news(Source(3, 1), 20)
    assert island.beacon == Source(3, 1)


def test_another_root_is_another_island_only_after_a_while() -> None:
    island = Island(Source(5, 1), beacon_rounds=4, steady_rounds=3)
    for _ in range(20):
        island.on_round()
    assert island.differs(Source(3, 1), 3)
    assert not island.differs(Source(3, 1), 2)
    assert not island.differs(Source(5, 1), 99)
    island.on_news(Source(3, 1), 1)
    assert not island.differs(Source(5, 1), 99)


@pytest.mark.parametrize(
    ("name", "value"),
    [("active_max", 0), ("passive_walk", 7), ("round_ns", 0), ("age_rounds", 256)],
)
def test_settings_out_of_range_are_refused_by_name(name: str, value: int) -> None:
    with pytest.raises(ConfigError, match=f"overlay {name} is {value}"):
        OverlayConfig(**{name: value})


def test_shuffles_larger_than_a_datagram_cannot_be_configured() -> None:
    with pytest.raises(ConfigError, match="shuffle_passive is 10"):
        OverlayConfig(shuffle_active=5, shuffle_passive=5)
