"""Strategies for sources, annotations, messages, whole streams of them, and buffer settings.

`streams` gives what a correct sender multicasts: numbered from 1 and tagged by a real `Tagger`.
`messages` gives what any bytes on the wire may say: bitmaps and ranks that no tagger would make.
Few names and small numbers are drawn on purpose, so that messages meet and replace each other.
Knows nothing of networks or time.
"""

from collections.abc import Sequence

from semcast.ids import Source
from semcast.obsolescence import (
    EVERYTHING,
    K_MAX,
    AllButLast,
    Keys,
    Predecessors,
    Ranked,
    Replaces,
    Tagger,
)
from semcast.protocol import BufferConfig, Overflow, Purging
from semcast.wire.message import Message

try:
    from hypothesis import strategies as st
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "semcast.testing needs Hypothesis: pip install hypothesis", name=error.name
    ) from error

# Sizes of bitmaps at which words of 60, 62 and 64 bits begin and end.
K_EDGES = (0, 1, 2, 59, 60, 61, 62, 63, 64, 65, 127, 128, 129, 1023, 1024)


def sources(senders: int = 2, incarnations: int = 2) -> st.SearchStrategy[Source]:
    """One of a few sources; some are two lives of the same sender."""
    return st.builds(Source, st.integers(1, senders), st.integers(1, incarnations))


def key_names(names: int = 3) -> st.SearchStrategy[str]:
    """One of a few keys: a, b, c, …"""
    return st.sampled_from([chr(ord("a") + at) for at in range(names)])


def ks() -> st.SearchStrategy[int]:
    """Sizes of bitmaps, often at the edges of machine words."""
    return st.sampled_from(K_EDGES) | st.integers(0, K_MAX)


def bitmaps(bits: int = K_MAX) -> st.SearchStrategy[int]:
    """Any bitmap of at most so many bits: dense, sparse, or one bit."""
    sparse = st.sets(st.integers(0, max(bits - 1, 0)), max_size=4)
    return st.integers(0, (1 << bits) - 1) | sparse.map(
        lambda chosen: sum(1 << at for at in chosen) & ((1 << bits) - 1)
    )


def replacements(ranked: bool = True, predecessors: bool = True) -> st.SearchStrategy[Replaces]:
    """Anything that an application may say a message replaces.

    Sequence numbers in `Predecessors` are distances here, since a strategy cannot know the number
    of the message: `tagged` turns them into numbers and leaves out those before the first.
    """
    kinds: list[st.SearchStrategy[Replaces]] = [
        st.none(),
        key_names(),
        key_names().map(str.encode),
        st.lists(key_names(), min_size=1, max_size=3).map(lambda names: Keys(tuple(names))),
        st.integers(1, 5).map(AllButLast),
        st.just(EVERYTHING),
    ]
    if predecessors:
        distances = st.lists(st.integers(1, 12) | st.integers(1, K_MAX + 2), max_size=3)
        kinds.append(distances.map(lambda found: Predecessors(tuple(found))))
    if ranked:
        kinds.append(st.builds(Ranked, key_names(2), st.integers(-2, 3)))
    return st.one_of(kinds)


def tagged(
    tagger: Tagger, source: Source, seq: int, said: Replaces, payload: bytes = b""
) -> Message:
    """The message `seq` of `source`, as its sender would make it after saying `said`."""
    if isinstance(said, Predecessors):
        said = Predecessors(tuple(seq - distance for distance in said.seqs if distance < seq))
    mark = tagger.tag(seq, said, payload)
    return Message(
        source,
        seq,
        mark.key + payload,
        len(mark.key),
        mark.bitmap,
        mark.rank,
        mark.ranked,
        several=mark.several,
        by_key=mark.by_key,
    )


@st.composite
def streams(
    draw: st.DrawFn,
    source: Source | None = None,
    k: int | None = None,
    said: st.SearchStrategy[Replaces] | None = None,
    max_size: int = 40,
) -> list[Message]:
    """What one source multicasts, from its first message on."""
    of = draw(sources()) if source is None else source
    tagger = Tagger(draw(ks()) if k is None else k, by_key=draw(st.booleans()))
    every = draw(st.lists(replacements() if said is None else said, max_size=max_size))
    return [tagged(tagger, of, at + 1, one, bytes(at % 7)) for at, one in enumerate(every)]


@st.composite
def arrivals(
    draw: st.DrawFn, sent: Sequence[Sequence[Message]], duplicates: bool = True
) -> list[Message]:
    """The messages of several streams in an order in which a network may bring them."""
    pool = [message for stream in sent for message in stream]
    if duplicates and pool:
        pool += draw(st.lists(st.sampled_from(pool), max_size=5))
    return draw(st.permutations(pool))


@st.composite
def messages(draw: st.DrawFn, seq_max: int = 200, body_bytes_max: int = 9) -> Message:
    """One message with any annotation that the wire can carry, sensible or not."""
    ranked = draw(st.booleans())
    by_key = not ranked and draw(st.booleans())
    key = draw(key_names(2)).encode() if ranked or by_key else b""
    body = key + bytes(draw(st.integers(0, body_bytes_max)))
    return Message(
        draw(sources()),
        draw(st.integers(1, seq_max)),
        body,
        len(key),
        0 if by_key else draw(bitmaps(draw(st.sampled_from((0, 3, 64, 130))))),
        draw(st.integers(-2, 3)) if ranked else 0,
        ranked,
        by_key=by_key,
    )


@st.composite
def buffer_configs(
    draw: st.DrawFn,
    purging: Purging | None = None,
    overflow: Overflow | None = None,
    messages_max: int = 6,
) -> BufferConfig:
    """Settings of small buffers, so that they are often full."""
    how = draw(st.sampled_from(Purging)) if purging is None else purging
    full = draw(st.sampled_from(Overflow)) if overflow is None else overflow
    size = draw(st.integers(1, messages_max))
    bytes_max = draw(st.sampled_from((10, 25, 1 << 20, 1 << 20)))
    share = draw(st.none() | st.none() | st.integers(1, size))
    if how is not Purging.WATERMARK or draw(st.booleans()):
        return BufferConfig(size, bytes_max, how, full, source_messages_max=share)
    high = draw(st.integers(0, size))
    return BufferConfig(size, bytes_max, how, full, high, draw(st.integers(0, high)), share)
