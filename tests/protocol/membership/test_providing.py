"""Who is asked for state answers as far as it was asked, or says why not."""

import random

import pytest

from semcast.ids import Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.member import Member
from semcast.protocol.membership.view import View
from semcast.wire.decode import Decoder
from semcast.wire.encode import FrameWriter
from semcast.wire.families.state import (
    BUSY,
    INCOMPLETE,
    KEEPS_NONE,
    LAST,
    LATER,
    LIST,
    LISTED,
    NEWCOMER,
    SNAPSHOT,
    URGENT,
    Chunk,
    Need,
    Tell,
)
from semcast.wire.frames import ControlFrame
from semcast.wire.message import Message
from semcast.wire.state_records import read_records

ME, OTHER, STRANGER = Source(1, 1), Source(2, 1), Source(9, 1)
VIEW = View.first([1, 2], 0)


def member(joining: bool = False, **settings: object) -> Member:
    config = MemberConfig(**({"f": 0} | settings))  # type: ignore[arg-type]
    return Member(config, ME, VIEW, random.Random("me"), None, joining)


def answers(asked: Member, *asks: Need, source: Source = OTHER) -> list[ControlFrame]:
    """What a member says to these requests, and only to whoever asks."""
    for ask in asks:
        writer = FrameWriter(source, 1_300)
        assert writer.add(ask)
        asked.receive(writer.take(), source, 0)
    found: list[ControlFrame] = []
    for outgoing in asked.datagrams(0):
        for frame in Decoder().decode(outgoing.frames, ME).control:
            if isinstance(frame, Chunk | Tell):
                assert outgoing.to == int(source.sender)
                found.append(frame)
    return found


def told(asked: Member, ask: Need, source: Source = OTHER) -> int:
    (tell,) = answers(asked, ask, source=source)
    assert isinstance(tell, Tell)
    assert tell.rows == []
    return int(tell.answer)


def send(sender: Member, keys: int, size: int = 10) -> None:
    for key in range(keys):
        sender.multicast(bytes(size), f"k{key}", 0)


def messages(frames: list[ControlFrame]) -> list[Message]:
    found = []
    for one in frames:
        assert isinstance(one, Chunk)
        found += read_records(one.content, one.source, one.after, one.upto, 1 << 20)
    return found


def test_a_member_answers_for_a_cut_only_if_it_has_everything_up_to_it() -> None:
    asked = member()
    send(asked, 3)
    assert told(asked, Need(0, 1, 9_999, ME, 0, 4, 4)) == LATER
    (chunk,) = answers(asked, Need(0, 1, 9_999, ME, 0, 3, 3))
    assert [int(one.seq) for one in messages([chunk])] == [1, 2, 3]
    assert told(asked, Need(0, 1, 9_999, OTHER, 0, 4, 4)) == LATER


def test_what_is_not_stable_yet_counts_up_to_the_cut_and_no_further() -> None:
    asked = member()
    send(asked, 3)
    asked.multicast(b"new", "k0", 0)
    (chunk,) = answers(asked, Need(0, 7, 9_999, ME, 1, 3, 3))
    assert isinstance(chunk, Chunk)
    assert (chunk.number, chunk.after, chunk.upto, chunk.cut) == (7, 1, 3, 3)
    assert chunk.flags() == LAST
    assert [int(one.seq) for one in messages([chunk])] == [2, 3]


def test_in_a_feed_only_the_sender_answers_for_its_messages() -> None:
    asked = member(reliability="sender")
    asked._intake.on_messages([Message(OTHER, 1, b"kv", 1, by_key=True)], 0)
    assert told(asked, Need(0, 1, 9_999, OTHER, 0, 1, 1)) == LATER


def test_one_that_comes_late_itself_says_so_but_in_a_feed_it_has_its_own() -> None:
    assert told(member(joining=True), Need(LIST, 1, 9_999, ME)) == NEWCOMER
    feed = member(joining=True, reliability="sender")
    send(feed, 2)
    assert len(messages(answers(feed, Need(0, 1, 9_999, ME, 0, 2, 2)))) == 2


@pytest.mark.parametrize(
    ("state", "wants"), [("none", 0), ("none", LIST), ("none", SNAPSHOT), ("keys", SNAPSHOT)]
)
def test_one_that_keeps_no_state_says_so(state: str, wants: int) -> None:
    assert told(member(state=state), Need(wants, 1, 9_999, ME, 0, 1, 1)) == KEEPS_NONE


def test_one_whose_application_is_far_behind_is_busy_unless_it_is_urgent() -> None:
    asked = member(delivery_messages=8)
    send(asked, 5)
    assert told(asked, Need(0, 1, 9_999, ME, 0, 5, 5)) == BUSY
    assert len(messages(answers(asked, Need(URGENT, 1, 9_999, ME, 0, 5, 5)))) == 5
    asked.take(2, 0)
    assert len(messages(answers(asked, Need(0, 1, 9_999, ME, 0, 5, 5)))) == 5


def test_no_more_is_sent_than_was_asked_for_and_the_rest_can_be_asked_for_next() -> None:
    """Flow control: the newcomer says how much it can take."""
    asked = member(delivery_messages=10_000)
    send(asked, 500, size=100)
    came: list[Message] = []
    after, requests = 0, 0
    while after < 500:
        requests += 1
        chunks = answers(asked, Need(0, 1, 6_000, ME, after, 500, 500))
        assert sum(len(one.content) for one in chunks if isinstance(one, Chunk)) <= 6_200
        assert [one.index for one in chunks if isinstance(one, Chunk)] == list(range(len(chunks)))
        came += messages(chunks)
        last = chunks[-1]
        assert isinstance(last, Chunk)
        assert last.flags() == LAST
        after = int(last.upto)
    assert [int(one.seq) for one in came] == list(range(1, 501))
    assert 10 <= requests <= 20


def test_a_list_comes_in_parts() -> None:
    asked = member(delivery_messages=10_000)
    standing = asked._retained.heir
    assert standing is not None
    for sender in range(20, 50):
        standing.fill(Source(sender, 1), [Message(Source(sender, 1), 1, b"kv", 1)], sender % 2 == 0)
    standing.lacks_ended = True
    rows: list[tuple[Source, bool]] = []
    first, marks = Source(0, 0), 0
    while not marks & LAST:
        (tell,) = answers(asked, Need(LIST, 1, 9_999, first))
        assert isinstance(tell, Tell)
        assert tell.answer == LISTED
        assert tell.marks & INCOMPLETE
        rows += [row for row in tell.rows if row not in rows]
        first, marks = rows[-1][0], int(tell.marks)
    assert rows == [(Source(sender, 1), sender % 2 == 0) for sender in range(20, 50)]


def test_one_in_no_view_may_ask() -> None:
    """A process that only reads, or one that is about to be let in."""
    asked = member()
    send(asked, 2)
    assert len(messages(answers(asked, Need(0, 1, 9_999, ME, 0, 2, 2), source=STRANGER))) == 2


def test_requests_that_wait_are_bounded() -> None:
    asked = member()
    send(asked, 2)
    asks = [Need(0, number, 9_999, ME, 0, 2, 2) for number in range(1, 200)]
    assert len(answers(asked, *asks)) == 64
