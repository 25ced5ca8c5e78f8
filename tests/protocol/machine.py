"""The state machine: Hypothesis chooses what happens to a buffer and its model, and shrinks.

Intake come from real taggers, in order, late, or twice; beside them come raw messages with any
bitmap, rank or number.
"""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.protocol.side_by_side import LEAPING, SOURCES, SideBySide

from semcast.ids import SEQ_MAX
from semcast.obsolescence import Replaces
from semcast.protocol import BufferConfig
from semcast.testing import bitmaps, buffer_configs, replacements
from semcast.wire.message import Message

which_source = st.sampled_from([0, 0, 0, 0, 1, 2])
body_sizes = st.sampled_from([0, 1, 1, 1, 1, 2, 4, 9])
leaps = st.sampled_from([1, 63, 64, 65, 5_000, 10**9, SEQ_MAX // 2, SEQ_MAX])
# Source, what is said, size of the payload; how many are taken before, how much is safe after.
Arrival = tuple[int, Replaces, int, int, int]
arrivals = st.tuples(
    which_source,
    replacements(),
    body_sizes,
    st.sampled_from([0, 0, 0, 1, 3]),
    st.sampled_from([0, 1, 3]),
)
raw_messages = st.builds(
    lambda at, seq, bitmap, size: Message(SOURCES[at], seq, bytes(size), 0, bitmap),
    which_source,
    st.integers(1, 10) | st.integers(1, 150),
    bitmaps(6) | bitmaps(130),
    body_sizes,
)
ranked_messages = st.builds(
    lambda at, seq, key, rank, bits: Message(SOURCES[at], seq, key, len(key), bits, rank, True),
    which_source,
    st.integers(1, 12),
    st.sampled_from([b"a", b"a", b"b"]),
    st.integers(-1, 3),
    bitmaps(2),
)


class BufferMachine(RuleBasedStateMachine):
    """What may happen to a buffer. Subclasses say which settings it may have."""

    configs: st.SearchStrategy[BufferConfig] = buffer_configs()

    @initialize(
        data=st.data(),
        guarded=st.booleans(),
        k=st.sampled_from([0, 1, 3, 64, 130]),
        by_key=st.booleans(),
    )
    def set_up(self, data: st.DataObject, guarded: bool, k: int, by_key: bool) -> None:
        self.pair = SideBySide(data.draw(self.configs), guarded, k, by_key)
        self.on_the_way: list[Message] = []

    @rule(burst=st.lists(arrivals, min_size=1, max_size=10))
    def arrive_in_order(self, burst: list[Arrival]) -> None:
        for at, said, size, takes, safe in burst:
            self.pair.take_many(takes)
            self.pair.insert(self.pair.multicast(at, said, size))
            self.pair.guard_moves_on(at, safe, tell=safe > 0)

    @rule(at=which_source, said=st.lists(replacements(), min_size=2, max_size=6))
    def arrive_as_one(self, at: int, said: list[Replaces]) -> None:
        self.pair.insert_many([self.pair.multicast(at, one, 1) for one in said])

    @rule(at=which_source, said=replacements(), size=body_sizes)
    def is_delayed(self, at: int, said: Replaces, size: int) -> None:
        self.on_the_way.append(self.pair.multicast(at, said, size))

    @precondition(lambda self: self.on_the_way)
    @rule(data=st.data())
    def arrives_late(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(self.on_the_way) - 1))
        self.pair.insert(self.on_the_way.pop(at))

    @precondition(lambda self: self.pair.history)
    @rule(data=st.data())
    def arrives_again(self, data: st.DataObject) -> None:
        self.pair.insert(data.draw(st.sampled_from(self.pair.history[-8:])))

    @rule(burst=st.lists(raw_messages, min_size=1, max_size=6))
    def arrive_raw(self, burst: list[Message]) -> None:
        for message in burst:
            self.pair.insert(message)

    @rule(burst=st.lists(ranked_messages, min_size=2, max_size=6))
    def arrive_ranked(self, burst: list[Message]) -> None:
        for message in burst:
            self.pair.insert(message)

    @rule(leap=leaps, back=st.integers(0, 70), bitmap=bitmaps(70))
    def leaps_ahead(self, leap: int, back: int, bitmap: int) -> None:
        self.pair.insert(Message(SOURCES[LEAPING], max(1, leap - back), b".", 0, bitmap))

    @rule()
    def take(self) -> None:
        self.pair.take()

    @rule(count=st.integers(-1, 6))
    def take_many(self, count: int) -> None:
        self.pair.take_many(count)

    @rule()
    def drop_newest(self) -> None:
        self.pair.drop_newest()

    @rule(at=st.integers(0, 3), seq=st.integers(0, 12) | st.integers(0, 150) | leaps)
    def release(self, at: int, seq: int) -> None:
        self.pair.release(at, seq)

    @rule(at=st.integers(0, 3), by=st.integers(-1, 9), tell=st.booleans())
    def guard_moves_on(self, at: int, by: int, tell: bool) -> None:
        self.pair.guard_moves_on(at, by, tell)

    @invariant()
    def same_as_the_model(self) -> None:
        self.pair.check()

    @invariant()
    def every_message_has_one_fate(self) -> None:
        self.pair.check_fates()
