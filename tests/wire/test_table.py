"""Control frames are coded and decoded through a table: a class with its codec, and one line."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from librt.strings import BytesWriter, write_i64_le
from tests.wire.material import OTHERS, SENDER, assert_clear, encoded, frame

import semcast
from semcast.errors import RemoteProtocolError
from semcast.ids import Source
from semcast.wire.body import Body, FrameType
from semcast.wire.decode import Decoder
from semcast.wire.encode import FrameWriter
from semcast.wire.fields import write_u16
from semcast.wire.frames import DATA, NOTE, RELAYED, ControlFrame
from semcast.wire.message import Message
from semcast.wire.table import FAMILIES, TABLE, assemble

NUMBER = 0xF0
LOUD = 0x04


@dataclass
class Greeting(ControlFrame):
    """A frame that only this test knows."""

    source: Source
    token: int
    text: bytes
    loud: bool = False

    def frame_kind(self) -> int:
        return NUMBER

    def flags(self) -> int:
        return LOUD if self.loud else 0

    def origin(self) -> Source | None:
        return self.source

    def size_bytes(self) -> int:
        return 10 + len(self.text)

    def write(self, out: BytesWriter) -> None:
        write_i64_le(out, self.token)
        write_u16(out, len(self.text))
        out.write(self.text)

    @staticmethod
    def read(body: Body) -> "Greeting":
        """Checks nothing itself: what is not there, the body refuses."""
        source = body.take_origin()
        start = body.at + 10
        text = body.bytes_of(start, start + body.u16(body.at + 8))
        return Greeting(source, int(body.number(body.at)), text, body.flags & LOUD != 0)


LINE = FrameType("GREETING", NUMBER, RELAYED | LOUD, Greeting.read)
WITH_GREETING = assemble([*FAMILIES, (LINE,)])
GREETINGS = [
    Greeting(SENDER, -(1 << 63), b""),
    Greeting(SENDER, 1, b"hello", loud=True),
    Greeting(OTHERS[0], 2, b"hello from another"),
    Greeting(OTHERS[1], 3, b"x" * 1_000, loud=True),
]


# One class and one line


@pytest.mark.parametrize("greeting", GREETINGS)
def test_a_frame_of_a_test_is_written_and_read_by_one_line(greeting: Greeting) -> None:
    before, after = Message(SENDER, 1, b"before"), Message(SENDER, 2, b"after")
    frames = encoded([before, greeting, after])
    decoded = Decoder(table=WITH_GREETING).decode(frames, SENDER)
    assert (decoded.messages, decoded.control) == ([before, after], [greeting])
    assert decoded.unknown_frames == 0
    # Members who do not have that line pass over it.
    older = Decoder().decode(frames, SENDER)
    assert (older.messages, older.control, older.unknown_frames) == ([before, after], [], 1)


def test_an_origin_is_written_only_where_it_is_not_the_sender() -> None:
    own, relayed = Greeting(SENDER, 1, b"hello"), Greeting(OTHERS[0], 1, b"hello", loud=True)
    assert encoded([own])[1] == 0
    assert encoded([relayed])[1] == RELAYED | LOUD
    assert len(encoded([relayed])) == len(encoded([own])) + 16
    # It is the same object as in all other frames.
    decoder = Decoder(table=WITH_GREETING)
    (back,) = decoder.decode(encoded([relayed]), SENDER).control
    assert isinstance(back, Greeting)
    assert back.source is decoder.sources.intern(Source(OTHERS[0].sender, OTHERS[0].incarnation))


@pytest.mark.parametrize("greeting", GREETINGS)
def test_such_a_frame_fits_exactly_from_its_own_size_on(greeting: Greeting) -> None:
    size = len(encoded([greeting]))
    assert len(encoded([greeting], room=size)) == size
    writer = FrameWriter(SENDER, size - 1)
    assert not writer.add(greeting)
    assert (len(writer), writer.take()) == (0, b"")


@pytest.mark.parametrize("greeting", GREETINGS)
def test_a_reader_that_checks_nothing_reads_nothing_that_is_not_there(greeting: Greeting) -> None:
    """What comes after the frame is in the same datagram, and must not be taken for it."""
    frames = encoded([greeting])
    flags, body = frames[1], frames[4:]
    for size in range(len(body)):
        datagram = frame(NUMBER, body[:size], flags) + frame(0xEE, bytes(range(256)) * 8)
        with pytest.raises(RemoteProtocolError) as caught:
            Decoder(table=WITH_GREETING).decode(datagram, SENDER)
        assert_clear(caught.value)


def test_a_frame_that_lies_about_its_size_is_our_own_mistake() -> None:
    class Liar(Greeting):
        def size_bytes(self) -> int:
            return 11 + len(self.text)

    with pytest.raises(AssertionError, match="the size it says"):
        FrameWriter(SENDER, 100).add(Liar(SENDER, 1, b"hello"))


# The body


def body_of(data: bytes, at: int, end: int) -> Body:
    return Body(Decoder().sources, data, at, end, NUMBER, 0, SENDER)


def test_a_body_gives_numbers_as_they_were_written() -> None:
    body = body_of(b"??" + bytes.fromhex("ffff feffffff 0100000000000080") + b"??", 2, 16)
    assert body.size() == 14
    assert (body.u16(2), body.u32(4)) == (0xFFFF, 0xFFFF_FFFE)
    assert body.number(8) == -(1 << 63) + 1
    assert body.bytes_of(2, 4) == b"\xff\xff"
    assert list(body.rows(2, 7, "any")) == [2, 9]
    assert list(body.rows(16, 7, "any")) == []


@pytest.mark.parametrize("at", [-8, 0, 1, 9, 10, 11, 1 << 40])
def test_a_body_gives_nothing_from_outside(at: int) -> None:
    body = body_of(bytes(12), 2, 3)
    for read in (body.u16, body.u32, body.number, body.seq, body.count):
        with pytest.raises(RemoteProtocolError, match=r"1 bytes; \d were read at byte"):
            read(at)


@pytest.mark.parametrize(("at", "end"), [(1, 3), (2, 5), (3, 2), (5, 6)])
def test_a_body_gives_no_bytes_from_outside(at: int, end: int) -> None:
    with pytest.raises(RemoteProtocolError, match=r"2 bytes; .* were read"):
        body_of(bytes(12), 2, 4).bytes_of(at, end)


def test_rows_that_begin_after_the_end_are_none() -> None:
    with pytest.raises(RemoteProtocolError, match="-1 bytes for rows of 1"):
        body_of(bytes(12), 2, 4).rows(5, 1, "any")


# The table


def documented(text: str, pattern: str) -> dict[int, str]:
    return {int(number, 16): name for number, name in re.findall(pattern, text, re.MULTILINE)}


def test_the_table_has_every_number_that_is_documented_and_no_other() -> None:
    """In the design note, and in the opening of each family's file."""
    names = {kind: line.name for kind, line in TABLE.items()}
    note = Path(__file__).parents[2] / "docs" / "design" / "wire.md"
    listed = documented(note.read_text(), r"^\| 0x([0-9a-f]{2}) \| ([A-Z]+) \|")
    assert listed == {DATA: "DATA"} | names
    # A compiled module has no docstring, but its source is installed beside it.
    room = Path(semcast.__file__).parent / "wire" / "families"
    files = [path for path in sorted(room.glob("*.py")) if path.name != "__init__.py"]
    found = [documented(path.read_text(), r"^    0x([0-9a-f]{2}) ([A-Z]+) ") for path in files]
    assert all(found), "every family says what its frames look like"
    assert sum(map(len, found)) == len(names)
    assert {kind: name for family in found for kind, name in family.items()} == names


def test_the_list_of_all_frames_says_in_which_family_each_number_is() -> None:
    wire = Path(semcast.__file__).parent / "wire"
    pattern = r"^    0x(\w\w)(?:-0x(\w\w))? .* families/(\w+)\.py$"
    listed = {
        file: list(range(int(first, 16), int(last or first, 16) + 1))
        for first, last, file in re.findall(pattern, (wire / "frames.py").read_text(), re.MULTILINE)
    }
    files = [path for path in (wire / "families").glob("*.py") if path.name != "__init__.py"]
    assert listed == {
        path.stem: sorted(documented(path.read_text(), r"^    0x([0-9a-f]{2}) ([A-Z]+) "))
        for path in files
    }


def test_every_line_of_every_family_is_in_the_table_under_its_own_number() -> None:
    lines = [line for family in FAMILIES for line in family]
    assert [TABLE[line.kind] for line in lines] == lines
    assert len(TABLE) == len(lines)
    assert len({line.name for line in lines}) == len(lines)


@pytest.mark.parametrize("kind", [*TABLE, DATA, NOTE, -1, 256])
def test_no_number_is_claimed_twice_nor_one_that_is_none(kind: int) -> None:
    with pytest.raises(AssertionError):
        assemble([*FAMILIES, (FrameType("GREETING", kind, 0, Greeting.read),)])


@pytest.mark.parametrize("flags", [-1, 256])
def test_flags_are_one_byte(flags: int) -> None:
    with pytest.raises(AssertionError):
        assemble([(FrameType("GREETING", NUMBER, flags, Greeting.read),)])


@pytest.mark.parametrize("kind", WITH_GREETING)
def test_flags_that_a_line_does_not_name_are_refused_whatever_the_body(kind: int) -> None:
    known = WITH_GREETING[kind].flags
    for flags in range(256):
        if flags & ~known == 0:
            continue
        for body in (b"", bytes(64)):
            with pytest.raises(
                RemoteProtocolError, match=f"{kind:#x} has unknown flags {flags:#x}"
            ):
                Decoder(table=WITH_GREETING).decode(frame(kind, body, flags), SENDER)


@pytest.mark.parametrize("kind", [kind for kind in range(256) if kind not in (DATA, *TABLE)])
def test_a_number_that_has_no_line_is_passed_over_with_any_flags(kind: int) -> None:
    decoded = Decoder().decode(frame(kind, b"body", 0xFF), SENDER)
    assert (decoded.messages, decoded.control, decoded.unknown_frames) == ([], [], 1)
