"""A fuzzer for all that reads bytes off the network, guided by coverage: `make fuzz`.

    PYTHONPATH=src python tests/fuzz_wire.py -max_total_time=60

Any bytes go in; nothing but RemoteProtocolError may come out, and what is accepted must be bounded
by what came in and be accepted again when it is relayed. Everything else is a crash: libFuzzer
then writes the bytes to build/fuzz/crash-…, and giving that file as the argument replays it. The
golden files are the seeds; what is learnt is kept in build/fuzz/corpus. Not collected by pytest.
"""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType


def atheris_or_exit() -> ModuleType:
    try:
        return import_module("atheris")
    except ImportError:
        sys.exit("fuzz_wire: atheris is not installed; run `make fuzz`, or pip install atheris")


ATHERIS = atheris_or_exit()
with ATHERIS.instrument_imports(include=["semcast"]):
    from semcast.errors import RemoteProtocolError
    from semcast.ids import SEQ_MAX, Source
    from semcast.wire import decode
    from semcast.wire.checksum import checksum
    from semcast.wire.encode import FrameWriter, encode_whole
    from semcast.wire.families.repair import Fragment, Nak
    from semcast.wire.fragment import Reassembler, fragments_of
    from semcast.wire.frames import ControlFrame
    from semcast.wire.header import CHECK_BYTES, HEADER_BYTES, decode_header
    from semcast.wire.keys import UNSEALED
    from semcast.wire.limits import PATH_MTU_BYTES_MAX, PATH_MTU_BYTES_MIN, Limits
    from semcast.wire.message import Message
    from semcast.wire.opener import Opener
    from semcast.wire.seal import Sealer

GOLDEN = Path(__file__).parent / "wire" / "golden"
OUT = Path(__file__).parent.parent / "build" / "fuzz"

# Those of the golden datagrams, so that the seeds get past the header.
GROUP = 0x0123_4567_89AB_CDEF
SOURCE = Source(0x1122, 0x33)
ROOM = Limits(PATH_MTU_BYTES_MAX).frames_bytes_max
# Small, so that their bounds are reached.
LIMITS = Limits(PATH_MTU_BYTES_MIN, message_bytes_max=1_000)
PARTIALS_MAX, PARTIALS_BYTES_MAX = 2, 2_000


def one_input(data: bytes) -> None:
    """Whatever these bytes are: a datagram, its frames, or a message that came in fragments."""
    check_datagram(data)
    if len(data) >= HEADER_BYTES + CHECK_BYTES:
        # As it is, and with the checksum that it should have: no fuzzer guesses one.
        body = data[:-CHECK_BYTES]
        check_datagram(body + checksum(body))
    check_frames(data, SOURCE)
    check_whole(data)


def check_datagram(datagram: bytes) -> None:
    try:
        header = decode_header(datagram)
        assert header.encode() == datagram[:HEADER_BYTES]
        opened = Opener(GROUP, UNSEALED).open(datagram)
    except RemoteProtocolError:
        return
    assert opened.header == header
    check_frames(opened.frames, header.source)


def check_frames(frames: bytes, source: Source) -> None:
    try:
        decoded = decode.Decoder().decode(frames, source)
    except RemoteProtocolError:
        return
    # The smallest record, frame and row have 12, 4 and 16 bytes.
    held = 12 * len(decoded.messages) + 4 * (len(decoded.control) + decoded.unknown_frames)
    held += sum(len(message.body) for message in decoded.messages)
    held += 16 * sum(len(frame.ranges) for frame in decoded.control if isinstance(frame, Nak))
    held += sum(len(frame.piece) for frame in decoded.control if isinstance(frame, Fragment))
    assert held <= len(frames), f"{held} bytes out of {len(frames)}"
    check_relaying(decoded, source)
    check_fragments([frame for frame in decoded.control if isinstance(frame, Fragment)])


def check_relaying(decoded: decode.Decoded, source: Source) -> None:
    """What was accepted is encoded, and accepted again."""
    writer = FrameWriter(source, ROOM)
    everything: list[Message | ControlFrame] = [*decoded.messages, *decoded.control]
    for item in everything:
        assert add(writer, item), f"no room for {item!r}"
    again = decode.Decoder().decode(writer.take(), source)
    assert again.messages == decoded.messages
    assert again.control == decoded.control


def add(writer: FrameWriter, item: Message | ControlFrame) -> bool:
    if isinstance(item, Message):
        return writer.add_message(item)
    return writer.add(item)


def check_fragments(fragments: list[Fragment]) -> None:
    reassembler = Reassembler(LIMITS, PARTIALS_MAX, PARTIALS_BYTES_MAX)
    for fragment in fragments:
        try:
            message = reassembler.add(fragment)
        except RemoteProtocolError:
            continue
        finally:
            assert len(reassembler) <= PARTIALS_MAX
            assert 0 <= reassembler.held_bytes <= PARTIALS_BYTES_MAX
        assert message is None or len(message.payload) <= LIMITS.message_bytes_max


def check_whole(data: bytes) -> None:
    try:
        message = decode.decode_whole(data, SOURCE, 1, LIMITS.message_bytes_max)
    except RemoteProtocolError:
        return
    assert len(message.payload) <= LIMITS.message_bytes_max
    again = decode.decode_whole(encode_whole(message), SOURCE, 1, LIMITS.message_bytes_max)
    assert again == message


def write_seeds(corpus: Path) -> None:
    """The golden files, and a message in fragments; frames both alone and in a datagram."""
    corpus.mkdir(parents=True, exist_ok=True)
    writer = FrameWriter(SOURCE, ROOM)
    for fragment in fragments_of(Message(SOURCE, 1, b"key" + bytes(900), 3), LIMITS):
        writer.add(fragment)
    seeds = {"frames_fragments": writer.take()}
    for path in sorted(GOLDEN.glob("*.hex")):
        lines = path.read_text().splitlines()
        seeds[path.stem] = bytes.fromhex("".join(line.partition("#")[0] for line in lines))
    for name, data in seeds.items():
        (corpus / name).write_bytes(data)
        if name.startswith("frames_"):
            datagram = Sealer(GROUP, SOURCE, UNSEALED).seal(data)
            (corpus / f"{name}_in_datagram").write_bytes(datagram)


def write_dictionary(path: Path) -> None:
    """Numbers at the edges of their ranges, which chance alone would take long to find."""
    edges = [SEQ_MAX, SEQ_MAX - 1, SEQ_MAX + 1, -SEQ_MAX, -SEQ_MAX - 1, (1 << 63) - 1, -(1 << 63)]
    numbers = [edge.to_bytes(8, "little", signed=True) for edge in edges]
    quoted = ["".join(f"\\x{byte:02x}" for byte in number) for number in numbers]
    path.write_text("".join(f'"{text}"\n' for text in quoted))


def main() -> None:
    if not str(decode.__file__).endswith(".py"):
        sys.exit("fuzz_wire: this semcast is compiled and cannot be traced; set PYTHONPATH=src")
    corpus = OUT / "corpus"
    write_seeds(corpus)
    write_dictionary(OUT / "edges.dict")
    arguments = [f"-artifact_prefix={OUT}/", f"-dict={OUT}/edges.dict", "-max_len=4096"]
    arguments += sys.argv[1:]
    if all(argument.startswith("-") for argument in sys.argv[1:]):
        arguments.append(str(corpus))
    ATHERIS.Setup([sys.argv[0], *arguments], one_input)
    ATHERIS.Fuzz()


if __name__ == "__main__":
    main()
