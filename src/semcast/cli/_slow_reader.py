"""The slow reader, pretended: one feed, one slow reader, one policy, a virtual clock.

Everything that a message passes through is the library's: tagger, sender, frames, seal, decoder,
purging buffer. Only the network and the clock are pretended.
"""

import random
from collections import deque
from dataclasses import dataclass
from typing import Final

from semcast.errors import SealError
from semcast.ids import Source
from semcast.obsolescence import Tagger
from semcast.protocol import BufferConfig, PurgingBuffer, Verdict
from semcast.protocol.sender import Sender
from semcast.wire.decode import Decoder
from semcast.wire.keys import Keyring, group_id
from semcast.wire.limits import Limits
from semcast.wire.message import Message
from semcast.wire.seal import Opener, Sealer

SECRET: Final = bytes(range(32))


@dataclass(frozen=True)
class Story:
    """What is pretended: a feed, and how slow the slow reader is."""

    seconds: int = 20
    sender_rate_msg_s: int = 1000
    reader_rate_msg_s: int = 250
    buffer_messages: int = 100
    keys: int = 20
    share_replaced: float = 0.9
    seed: int = 1


@dataclass(frozen=True)
class Outcome:
    """What became of it under one policy."""

    policy: str
    sender_rate_msg_s: float
    slow_reader_rate_msg_s: float
    not_delivered: int
    # Of those, messages that nothing replaced.
    lost: int
    age_max_ms: float


class Feed:
    """Quotes and trades, multicast through everything but a network."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._random = random.Random(f"{story.seed}/feed/keys")
        source, keys, group = Source(1, 1), Keyring(SECRET), group_id("demo")
        self._retained = PurgingBuffer(BufferConfig.of("off", 1024), "retransmit")
        self.sender = Sender(source, Tagger(), self._retained, Limits())
        self._sealer, self._opener = Sealer(group, source, keys), Opener(group, keys)
        self._decoder = Decoder()
        self._last_of_key: dict[str, int] = {}
        # What a reader must get in the end: messages that nothing has replaced so far.
        self.must: set[int] = set()

    def publish(self, now_ns: int) -> list[Message]:
        """Multicast the next message; what a reader decodes of it."""
        key = None
        if self._random.random() < self._story.share_replaced:
            key = f"stock {self._random.randrange(self._story.keys)}"
        seq = self.sender.multicast(b"x" * 64, key, now_ns).seq
        if key is not None:
            self.must.discard(self._last_of_key.get(key, 0))
            self._last_of_key[key] = seq
        self.must.add(seq)
        received: list[Message] = []
        for frames in self.sender.frames_to_send():
            opened = self._opener.open(self._sealer.seal(frames))
            received += self._decoder.decode(opened.frames, opened.header.source).messages
        self._retained.release(self.sender.source, seq)
        return received


def run(story: Story, policy: str) -> Outcome:
    """One feed, one slow reader, one policy."""
    feed = Feed(story)
    slow = PurgingBuffer(
        BufferConfig.of(policy, story.buffer_messages),
        random=random.Random(f"{story.seed}/slow/drop"),
    )
    waiting: deque[Message] = deque()
    taken: list[tuple[int, Message]] = []
    step_ns = 1_000_000_000 // story.sender_rate_msg_s
    for step in range(story.seconds * story.sender_rate_msg_s):
        now_ns = step * step_ns
        # A message that the slow reader has no room for holds up the sender: back-pressure.
        if not waiting:
            waiting.extend(feed.publish(now_ns))
        if slow.insert(waiting[0]) is not Verdict.FULL:
            waiting.popleft()
        if step % (story.sender_rate_msg_s // story.reader_rate_msg_s) == 0:
            taken += [(now_ns, message) for message in slow.take_many(1)]
    left = [*slow.take_many(slow.held), *waiting]
    got = {message.seq for _, message in taken} | {message.seq for message in left}
    sent = feed.sender.seq
    return Outcome(
        policy=policy,
        sender_rate_msg_s=sent / story.seconds,
        slow_reader_rate_msg_s=len(taken) / story.seconds,
        not_delivered=sent - len(got),
        lost=len(feed.must - got),
        age_max_ms=max(int(now_ns - message.sent_ns) for now_ns, message in taken) / 1e6,
    )


def forgery_refused() -> bool:
    """Whether a datagram with one flipped bit is refused."""
    datagram = bytearray(Sealer(1, Source(1, 1), Keyring(SECRET)).seal(b"a quote"))
    datagram[40] ^= 1
    try:
        Opener(1, Keyring(SECRET)).open(bytes(datagram))
    except SealError:
        return True
    return False
