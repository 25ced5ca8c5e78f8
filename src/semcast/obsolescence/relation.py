"""The obsolescence relation: `obsoletes(newer, older)`, whatever the encoding.

It is a strict partial order (SRM §3.2). Three encodings stand behind it:

* **by key**: the message replaces every earlier one of the same source that is marked so too and
  whose keys are all among its own, at any distance. That is transitive as it stands.
* **bitmap**: bit n−1 of a message's bitmap means that it replaces the n-th preceding message of
  the same source. Always within the causal order, since it only looks back along one source. What
  lies more than k back is not expressed, so the truncated relation is not transitive; only purging
  efficiency is lost by that.
* **ranked**: same key and a smaller (rank, source, seq). It works across senders (timestamps,
  bids: PSRM §2.4) and ties are broken by sender, so any two messages of a key are ordered. It lies
  within the causal order if ranks do, as clocks and rising bids do.

One source may use all three. A bitmap that names a message by key names those which that message
replaces as well, as far as it reaches: so both together are transitive within k. Beyond k, and
where a bitmap names a ranked message, a chain across encodings is not expressed, and a buffer may
hold a message that it would cover. Purging loses by that; no promise does.
"""

from mypy_extensions import mypyc_attr

from semcast._native import i64
from semcast.ids import Source
from semcast.obsolescence.key_set import unpack_keys


@mypyc_attr(acyclic=True)
class Mark:
    """What the relation knows of a message. `wire.Message` adds the payload."""

    def __init__(
        self,
        source: Source,
        seq: i64,
        body: bytes,
        key_len: i64,
        bitmap: int,
        rank: i64,
        ranked: bool,
        several: bool = False,
        by_key: bool = False,
    ) -> None:
        self.source = source
        self.seq = seq
        # The key, as the application named it, and then the payload: one slice of what was
        # received, cut in two only when somebody asks. No key: unmarked, or names others only.
        self.body = body
        self.key_len = key_len
        # Bit n-1 set: replaces seq-n of the same source. 0 when ranked.
        self.bitmap = bitmap
        self.rank = rank
        self.ranked = ranked
        # It is about several keys, and all of them stand before the payload (`key_set`).
        self.several = several
        # It replaces every earlier message of its source that is marked so too and is about nothing
        # else than it.
        self.by_key = by_key

    @property
    def key(self) -> bytes:
        """What the message is about, or nothing; nothing also if it is about several keys."""
        return self.body[: self.key_len] if self.key_len > 0 and not self.several else b""

    @property
    def keys(self) -> tuple[bytes, ...]:
        """All that the message is about: several keys, or one, or none."""
        if self.several:
            return tuple(unpack_keys(self.body[: self.key_len]))
        return (self.body[: self.key_len],) if self.key_len > 0 else ()


def obsoletes(newer: Mark, older: Mark) -> bool:
    """Whether `older` need not be delivered once `newer` is (older ⊏ newer)."""
    if newer.ranked:
        return older.ranked and older.key == newer.key and outranks(newer, older)
    if newer.source != older.source:
        return False
    if newer.by_key and older.by_key and newer.seq > older.seq and _within(older, newer):
        return True
    # Not a native integer: shifting a bitmap by one would make it native, and cut it off.
    distance = int(newer.seq - older.seq)
    return distance >= 1 and bool((newer.bitmap >> (distance - 1)) & 1)


def _within(older: Mark, newer: Mark) -> bool:
    """Whether `older` is about nothing else than `newer`; both have keys."""
    if newer.several:
        return set(older.keys) <= set(newer.keys)
    return not older.several and older.key == newer.key


def outranks(newer: Mark, older: Mark) -> bool:
    """The total order of ranked messages of one key: by rank, then sender, then age."""
    if newer.rank != older.rank:
        return newer.rank > older.rank
    if newer.source == older.source:
        return newer.seq > older.seq
    return older.source < newer.source
