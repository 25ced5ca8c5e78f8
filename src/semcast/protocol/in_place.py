"""Messages that take each other's place in a queue: what stays in order, and what was skipped.

Two messages go in; whether they belong to one stream, or which numbers the newer one inherits,
comes out. Knows nothing of queues: that is `buffer`.

A *stream* is what stays in order under `order="key"`: the messages of a source with one key, or its
unmarked ones. A ranked use of a key is a stream of its own, as nothing unranked is replaced by it.
Messages that name others without a key (several keys, predecessors) are in no stream.
"""

from typing import Final

from semcast.obsolescence.relation import Mark
from semcast.wire.message import Message

# How many skipped numbers a message has with it, the newest ones.
SKIPPED_MAX: Final = 1024


def same_stream(one: Mark, other: Mark) -> bool:
    """Whether these two must be taken in the order of their numbers, in place or not."""
    if one.source != other.source or one.ranked != other.ranked or one.key_len != other.key_len:
        return False
    if one.key_len == 0 and not one.ranked:
        return one.bitmap == 0 and other.bitmap == 0
    return one.key == other.key


def inherit(cover: Message, victim: Message) -> None:
    """`cover` takes the place of `victim`: it tells what was skipped, and that `victim` was too.

    Numbers are of one sender, so a victim of another source leaves none. The list is handed from
    victim to cover, not copied, so that a key that is replaced for ever costs the same each time.
    """
    if victim.source != cover.source:
        return
    gone = victim.skipped
    victim.skipped = ()
    seq = int(victim.seq)
    skipped: list[int]
    if len(cover.skipped) == 0 and victim.seq < cover.seq:
        # One victim, as is usual. All that it skipped has smaller numbers than itself.
        skipped = gone if isinstance(gone, list) else list(gone)
        skipped.append(seq)
    else:
        skipped = sorted(one for one in {*cover.skipped, *gone, seq} if one < cover.seq)
    if len(skipped) > 2 * SKIPPED_MAX:
        del skipped[:-SKIPPED_MAX]
    cover.skipped = skipped


def newest_skipped(message: Message) -> None:
    """The message is taken: what it says of skipped ones is settled, and bounded."""
    if len(message.skipped) > 0:
        message.skipped = tuple(message.skipped[-SKIPPED_MAX:])
