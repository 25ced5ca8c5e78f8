"""A decoder knows sources by one object each, until it is told to forget one."""

from tests.wire.material import SENDER, encoded

from semcast.ids import Source
from semcast.wire.decode import Decoder
from semcast.wire.message import Message
from semcast.wire.sources import Sources


def test_a_source_that_is_forgotten_makes_room_for_another() -> None:
    sources = Sources(2)
    first, second = sources.intern(Source(1, 1)), sources.intern(Source(2, 1))
    late = sources.intern(Source(3, 1))
    assert sources.intern(Source(3, 1)) is not late
    sources.forget(Source(1, 1))
    assert len(sources) == 1
    third = sources.intern(Source(3, 1))
    assert len(sources) == 2
    assert sources.intern(Source(3, 1)) is third
    assert sources.intern(Source(2, 1)) is second
    assert sources.intern(Source(1, 1)) is not first


def test_forgetting_one_life_leaves_the_others_and_the_name() -> None:
    sources = Sources(9)
    sources.name(1, "a")
    sources.intern(Source(1, 1))
    later = sources.intern(Source(1, 2))
    sources.forget(Source(1, 1))
    assert sources.intern(Source(1, 2)) is later
    assert sources.intern(Source(1, 1)).name == "a"


def test_forgetting_a_source_that_was_never_seen_changes_nothing() -> None:
    sources = Sources(9)
    known = sources.intern(Source(1, 1))
    sources.forget(Source(1, 2))
    sources.forget(Source(2, 1))
    assert sources.intern(Source(1, 1)) is known


def test_a_decoder_reads_a_forgotten_source_as_another_object() -> None:
    decoder = Decoder()
    frames = encoded([Message(Source(5, 1), 1, b"relayed")])
    (before,) = decoder.decode(frames, SENDER).messages
    decoder.sources.forget(before.source)
    (after,) = decoder.decode(frames, SENDER).messages
    assert after.source == before.source
    assert after.source is not before.source
