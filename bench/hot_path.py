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
from semcast.protocol.streams.sender import Sender
from semcast.wire.decode import Decoder
from semcast.wire.limits import Limits
from semcast.wire.message import Message

PAYLOAD_BYTES = 64
KEYS = 50
DEPTH = 40
WINDOW = 256
BATCH = 64


def keys(count: int) -> list[bytes]:
    stream = random.Random("bench/keys")
    names = [f"key{i:02}".encode() for i in range(KEYS)]
    return [names[stream.randrange(KEYS)] for _ in range(count)]


def send_ns(messages: int, out: list[bytes]) -> float:
    """Number, tag by key, keep for retransmission, encode into full datagrams."""
    names = keys(messages)
    payloads = [bytes(PAYLOAD_BYTES)] * BATCH
    source = Source(1, 1)
    safe = SafeUpTo()
    retained = PurgingBuffer(BufferConfig(messages_max=2 * WINDOW), "retransmit", safe)
    sender = Sender(source, Tagger(), retained, Limits())
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


def insert_purge_ns(depth: int, messages: int) -> float:
    """Insert and purge with `depth` unmarked messages waiting."""
    source = Source(1, 1)
    buffer = PurgingBuffer(BufferConfig(messages_max=depth + KEYS + 1))
    tagger = Tagger()
    seq = 0
    for _ in range(depth):
        seq += 1
        tagger.tag(seq)
        buffer.insert(Message(source, seq, b""))
    batch = []
    for key in keys(messages):
        seq += 1
        batch.append(Message(source, seq, key, len(key), tagger.tag_key(seq, key)))
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


def by_key_ns(messages: int, taken_of_10: int) -> float:
    """Insert and take with `order="key"`; a slow reader takes only so many of 10."""
    source = Source(1, 1)
    buffer = PurgingBuffer(BufferConfig(in_place=True))
    tagger = Tagger()
    batch = [
        Message(source, seq, key, len(key), tagger.tag_key(seq, key))
        for seq, key in enumerate(keys(messages), 1)
    ]
    started = time.perf_counter_ns()
    for at in range(0, messages, 10):
        buffer.insert_many(batch[at : at + 10])
        buffer.take_many(taken_of_10)
    return (time.perf_counter_ns() - started) / messages


def main() -> None:
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    send, receive, shallow, deep, late, slow, quick = [], [], [], [], [], [], []
    for _ in range(5):
        datagrams: list[bytes] = []
        send.append(send_ns(messages, datagrams))
        receive.append(receive_ns(messages, datagrams))
        shallow.append(insert_purge_ns(40, messages))
        deep.append(insert_purge_ns(100_000, messages))
        late.append(late_ns(30_000, messages // 100))
        slow.append(by_key_ns(messages, 1))
        quick.append(by_key_ns(messages, 10))
    build = "interpreted" if str(semcast.ids.__file__).endswith(".py") else "compiled"
    print(
        json.dumps(
            {
                "build": build,
                "send_ns": min(send),
                "receive_ns": min(receive),
                "insert_purge_40_ns": min(shallow),
                "insert_purge_100000_ns": min(deep),
                "late_30000_ns": min(late),
                "by_key_slow_ns": min(slow),
                "by_key_quick_ns": min(quick),
            }
        )
    )


if __name__ == "__main__":
    main()
