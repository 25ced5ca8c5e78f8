"""The hot path of a message: what a sender and a receiver do for each one.

Run as `python -m bench.hot_path` with semcast compiled, or with PYTHONPATH=src interpreted;
`python -m bench` runs both and compares.
"""

import json
import random
import sys
import time

import semcast.ids
from semcast.ids import Source
from semcast.obsolescence import Replaces, Tagger
from semcast.protocol import BufferConfig, PurgingBuffer, SafeUpTo
from semcast.protocol.membership.standing import Standing
from semcast.protocol.streams.sender import Sender
from semcast.wire.decode import Decoder
from semcast.wire.limits import Limits
from semcast.wire.message import Message

PAYLOAD_BYTES = 64
KEYS = 50
DEPTH = 40
WINDOW = 256
BATCH = 64


def keys(count: int, of: int = KEYS) -> list[bytes]:
    stream = random.Random("bench/keys")
    names = [f"key{i:02}".encode() for i in range(of)]
    return [names[stream.randrange(of)] for _ in range(count)]


def send_ns(
    messages: int, out: list[bytes], by_key: bool, heir: Standing | None = None, of: int = KEYS
) -> float:
    """Number, tag by key, keep for retransmission, encode into full datagrams; `heir`: and keep
    the last value of each of so many keys for newcomers.
    """
    names = keys(messages, of)
    payloads = [bytes(PAYLOAD_BYTES)] * BATCH
    source = Source(1, 1)
    safe = SafeUpTo()
    config = BufferConfig(messages_max=2 * WINDOW)
    retained = PurgingBuffer(config, "retransmit", safe, heir=heir)
    sender = Sender(source, Tagger(by_key=by_key), retained, Limits())
    batches: list[list[Replaces]] = [
        list(names[at : at + BATCH]) for at in range(0, messages, BATCH)
    ]
    started = time.perf_counter_ns()
    for batch in batches:
        sender.multicast_many(payloads[: len(batch)], batch, time.monotonic_ns())
        out += sender.frames_to_send()
        # The group is safe up to half a window ago, and stable up to a window ago.
        safe.advance(source, sender.seq - WINDOW // 2)
        retained.covers_released(source)
        retained.release(source, sender.seq - WINDOW)
    return (time.perf_counter_ns() - started) / messages


def receive_ns(messages: int, datagrams: list[bytes]) -> float:
    """Decode, insert into a delivery buffer that is kept DEPTH deep, purge, take."""
    source = Source(1, 1)
    decoder = Decoder()
    buffer = PurgingBuffer(BufferConfig(messages_max=1024), "delivery")
    taken = 0
    started = time.perf_counter_ns()
    for datagram in datagrams:
        buffer.insert_many(decoder.decode(datagram, source).messages)
        taken += len(buffer.take_many(buffer.held - DEPTH))
    elapsed = time.perf_counter_ns() - started
    assert taken + buffer.held + sum(buffer.counts.values()) == messages
    return elapsed / messages


def insert_purge_ns(depth: int, messages: int, by_key: bool) -> float:
    """Insert and purge with `depth` unmarked messages waiting."""
    source = Source(1, 1)
    buffer = PurgingBuffer(BufferConfig(messages_max=depth + KEYS + 1))
    tagger = Tagger(by_key=by_key)
    seq = 0
    for _ in range(depth):
        seq += 1
        tagger.tag(seq)
        buffer.insert(Message(source, seq, b""))
    batch = []
    for key in keys(messages):
        seq += 1
        bitmap = tagger.tag_key(seq, key)
        batch.append(Message(source, seq, key, len(key), bitmap, by_key=by_key))
    started = time.perf_counter_ns()
    for message in batch:
        buffer.insert(message)
        if buffer.held > depth:
            buffer.take()
    return (time.perf_counter_ns() - started) / messages


def late_ns(depth: int, messages: int) -> float:
    """Insert what was lost in front of `depth` unmarked messages that wait: one loss, repaired."""
    source = Source(1, 1)
    buffer = PurgingBuffer(BufferConfig(messages_max=depth + messages))
    for seq in range(messages + 1, messages + depth + 1):
        buffer.insert(Message(source, seq, b""))
    batch = [Message(source, seq, b"") for seq in range(1, messages + 1)]
    started = time.perf_counter_ns()
    buffer.insert_many(batch)
    return (time.perf_counter_ns() - started) / messages


def slow_reader_ns(
    messages: int, taken_of_10: int, by_key: bool, in_place: bool, of: int = KEYS
) -> float:
    """Insert, purge and take, where a slow reader takes only so many of 10; `in_place`: with
    `order="key"`; `of`: so many keys, of which the buffer has room for all.
    """
    source = Source(1, 1)
    buffer = PurgingBuffer(BufferConfig(messages_max=max(1_024, of), in_place=in_place))
    # A bitmap long enough for all but one in ten thousand, else the buffer fills up and refuses.
    tagger = Tagger(512, by_key=by_key)
    batch = [
        Message(source, seq, key, len(key), tagger.tag_key(seq, key), by_key=by_key)
        for seq, key in enumerate(keys(messages + of, of), 1)
    ]
    # Until about as many wait as ever do.
    buffer.insert_many(batch[messages:])
    started = time.perf_counter_ns()
    for at in range(0, messages, 10):
        buffer.insert_many(batch[at : at + 10])
        buffer.take_many(taken_of_10)
    return (time.perf_counter_ns() - started) / messages


def timed(messages: int, by_key: bool) -> dict[str, float]:
    """One round of everything that replacement by key and by bitmap have in common."""
    datagrams: list[bytes] = []
    of = "" if by_key else "_bitmap"
    return {
        f"send{of}_ns": send_ns(messages, datagrams, by_key),
        f"receive{of}_ns": receive_ns(messages, datagrams),
        f"insert_purge_40{of}_ns": insert_purge_ns(40, messages, by_key),
        f"insert_purge_100000{of}_ns": insert_purge_ns(100_000, messages, by_key),
        f"take_1_of_10{of}_ns": slow_reader_ns(messages, 1, by_key, False),
        f"by_key_slow{of}_ns": slow_reader_ns(messages, 1, by_key, True),
        f"by_key_quick{of}_ns": slow_reader_ns(messages, 10, by_key, True),
    }


def main() -> None:
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    build = "interpreted" if str(semcast.ids.__file__).endswith(".py") else "compiled"
    rounds: list[dict[str, float]] = []
    for _ in range(5):
        found = timed(messages, True) | timed(messages, False)
        found["late_30000_ns"] = late_ns(30_000, messages // 100)
        for of in (KEYS, 5_000):
            for heir, name in ((None, "alone"), (Standing(1 << 17, 64 << 20), "standing")):
                found[f"send_{of}_keys_{name}_ns"] = send_ns(messages, [], True, heir, of)
        # Interpreted it would take minutes to fill a buffer with so many, and show the same.
        for of in (10_000, 1_000_000) if build == "compiled" else ():
            found[f"take_1_of_10_of_{of}_keys_ns"] = slow_reader_ns(messages, 1, True, False, of)
        rounds.append(found)
    best = {name: min(found[name] for found in rounds) for name in rounds[0]}
    print(json.dumps({"build": build} | best))


if __name__ == "__main__":
    main()
