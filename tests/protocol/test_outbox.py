"""Frames for various destinations go into as few datagrams as they fit into."""

import pytest

from semcast.errors import MessageTooLargeError
from semcast.ids import EVERYBODY, Source
from semcast.protocol.outbox import Outbox
from semcast.wire.decode import Decoder
from semcast.wire.families.lives import Lives
from semcast.wire.families.measures import Echo, Times, Tree
from semcast.wire.families.repair import Covered, Fragment, Nak
from semcast.wire.families.rounds import Round
from semcast.wire.families.votes import Vector
from semcast.wire.frames import ControlFrame
from semcast.wire.limits import Limits
from semcast.wire.message import Message

ME, OTHER = Source(1, 1), Source(2, 1)
LIMITS = Limits(path_mtu_bytes=576)
EVERY_FRAME: list[ControlFrame] = [
    Fragment(OTHER, 1, 0, 1, b"piece"),
    Nak(OTHER, 2, True, [(1, 5)]),
    Covered(OTHER, [(1, ME, 2)]),
    Vector(9, 1, False, 1, 0b11, []),
    Round(9, 1, False, 1, 0, 0, -1, 0, 1, 0, 0, []),
    Echo(True, 7),
    Times(9, 0, [1, 2]),
    Tree(9, 1, 0, bytes(1), bytes(1)),
    Lives(9, 1, [(1, 2, True)]),
]


def times_of(size: int) -> Times:
    """A frame that takes so many bytes of a datagram."""
    return Times(9, 0, [1] * ((size - 4 - 10) // 4))


def test_frames_of_every_type_go_into_one_datagram_for_each_destination() -> None:
    outbox = Outbox(ME, LIMITS)
    for frame in EVERY_FRAME:
        outbox.frame(EVERYBODY, frame)
        outbox.frame(7, frame)
    sent = outbox.take()
    assert [outgoing.to for outgoing in sent] == [EVERYBODY, 7]
    for outgoing in sent:
        assert Decoder().decode(outgoing.frames, ME).control == EVERY_FRAME
    assert outbox.take() == []


def test_a_frame_that_finds_no_room_goes_into_the_next_datagram() -> None:
    outbox = Outbox(ME, LIMITS)
    half = times_of(LIMITS.frames_bytes_max * 2 // 3)
    for _ in range(3):
        outbox.frame(7, half)
    sent = outbox.take()
    assert [Decoder().decode(outgoing.frames, ME).control for outgoing in sent] == [[half]] * 3


def test_a_frame_that_fits_no_datagram_is_refused_and_leaves_what_was_there() -> None:
    outbox = Outbox(ME, LIMITS)
    large = times_of(LIMITS.frames_bytes_max + 4)
    outbox.frame(7, Echo(False, 1))
    with pytest.raises(MessageTooLargeError) as caught:
        outbox.frame(7, large)
    assert caught.value.bytes_max == LIMITS.frames_bytes_max
    outbox.frame(7, Echo(False, 2))
    found = [
        frame
        for outgoing in outbox.take()
        for frame in Decoder().decode(outgoing.frames, ME).control
    ]
    assert found == [Echo(False, 1), Echo(False, 2)]


def test_a_large_message_of_another_goes_in_fragments_that_name_it() -> None:
    outbox = Outbox(ME, LIMITS)
    outbox.message(7, Message(OTHER, 5, bytes(2_000)))
    control = [
        frame
        for outgoing in outbox.take()
        for frame in Decoder().decode(outgoing.frames, ME).control
    ]
    assert len(control) > 1
    assert all(isinstance(frame, Fragment) and frame.source == OTHER for frame in control)
