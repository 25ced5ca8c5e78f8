"""Taggers: what an application says of a message becomes its annotation.

In goes `replaces` (a key, several keys, predecessors, everything before, a ranked key, or
nothing); out comes an `Annotation`. By key (`by_key=True`) the key itself is the annotation;
otherwise it is turned into a bitmap. Memory is bounded by k whatever number of keys goes by: in a
bitmap, a key not used for k messages could not be expressed anyway. No mark means never obsolete.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias, final

from semcast.errors import LocalProtocolError
from semcast.ids import SEQ_MAX
from semcast.obsolescence.bitmap import K_DEFAULT, Closure, distances
from semcast.obsolescence.key_set import KEYS_MAX, pack_keys, unpack_keys

KEY_BYTES_MAX: Final = 255
RANK_MAX: Final = SEQ_MAX


@dataclass(frozen=True)
class Keys:
    """Replaces every earlier message whose keys are all among these.

    A message about `a` and `b` is not replaced by one about `a` alone: what it says of `b` still
    matters. With order "key" it keeps its place in the order of each of its keys.
    """

    names: tuple[str | bytes, ...]


@dataclass(frozen=True)
class Predecessors:
    """Replaces these earlier messages of the same sender, by sequence number."""

    seqs: tuple[int, ...]


@dataclass(frozen=True)
class AllButLast:
    """A k-stubborn channel (OBS §3.1): replaces all but the last few messages.

    With this one, the last `kept` messages remain reliable.
    """

    kept: int


# A stubborn channel: each message replaces everything before it (SRM §3.1).
EVERYTHING: Final = AllButLast(1)


@dataclass(frozen=True)
class Ranked:
    """Replaces messages of the same key with a smaller rank, whoever sent them."""

    key: str | bytes
    rank: int


Replaces: TypeAlias = str | bytes | Keys | Predecessors | AllButLast | Ranked | None


@final
class Annotation:
    """What travels with a message so that any buffer can tell what it replaces."""

    def __init__(
        self,
        bitmap: int,
        key: bytes,
        rank: int = 0,
        ranked: bool = False,
        several: bool = False,
        by_key: bool = False,
    ) -> None:
        """`several`: it is about several keys, and `key` has them all (`key_set`)."""
        self.bitmap = bitmap
        self.key = key
        self.rank = rank
        self.ranked = ranked
        self.several = several
        self.by_key = by_key

    def __repr__(self) -> str:
        if self.ranked:
            return f"Annotation(key={self.key!r}, rank={self.rank})"
        by = "by_key" if self.by_key else f"bitmap={self.bitmap:#x}"
        if self.several:
            return f"Annotation({by}, keys={unpack_keys(self.key)!r})"
        return f"Annotation({by}, key={self.key!r})"


def as_key(name: str | bytes) -> bytes:
    """The bytes of a key, checked."""
    key = name.encode() if isinstance(name, str) else name
    if not 1 <= len(key) <= KEY_BYTES_MAX:
        raise LocalProtocolError(
            f"key of {len(key)} bytes; a key has from 1 to {KEY_BYTES_MAX} bytes"
        )
    return key


@final
class Tagger:
    """Annotates the messages of one source, in the order of their sequence numbers.

    `function`, if given, decides from the payload what a message replaces whenever the caller
    says nothing. `by_key`: a key replaces all earlier messages of that key, not only those that a
    bitmap of k bits reaches.
    """

    def __init__(
        self,
        k: int = K_DEFAULT,
        function: Callable[[bytes], Replaces] | None = None,
        by_key: bool = False,
    ) -> None:
        self.by_key: Final = by_key
        self._closure: Final = Closure(k)
        self._function: Final = function
        self.k: Final[int] = self._closure.k
        # INV-KEYS: _named[s % k] is the key set that message s used, and _last names exactly those
        # whose last use is among the last k messages; so both hold at most k names. By key _last is
        # not needed.
        self._last: Final[dict[bytes | frozenset[bytes], int]] = {}
        self._named: Final[list[bytes | frozenset[bytes] | None]] = [None] * max(k, 1)
        # What the last message changed, so that it can be taken back.
        self._forgotten: bytes | frozenset[bytes] | None = None
        self._named_out: bytes | frozenset[bytes] | None = None
        self._last_before = 0

    def tag(self, seq: int, replaces: Replaces = None, payload: bytes = b"") -> Annotation:
        """The annotation of the next message; a bad call raises and changes nothing."""
        if replaces is None and self._function is not None:
            replaces = self._function(payload)
        if isinstance(replaces, (str, bytes)):
            key = as_key(replaces)
            return Annotation(self.tag_key(seq, key), key, by_key=self.by_key)
        if replaces is None:
            bitmap = self._closure.add_none(seq)
        elif isinstance(replaces, Ranked):
            return self._tag_ranked(seq, replaces)
        elif isinstance(replaces, Keys):
            return self._tag_keys(seq, replaces)
        elif isinstance(replaces, Predecessors):
            self._closure.check_next(seq)
            bitmap = self._closure.add(seq, self._with_keys(seq, _direct(seq, self.k, replaces)))
        elif isinstance(replaces, AllButLast):
            bitmap = self._closure.add(seq, _all_but(seq, self.k, replaces.kept))
        else:
            raise LocalProtocolError(
                f"replaces={replaces!r}; say a key, Keys, Predecessors, AllButLast, Ranked or None"
            )
        self._remember(seq, None)
        return Annotation(bitmap, b"")

    def tag_key(self, seq: int, key: bytes) -> int:
        """The bitmap of the next message, which replaces the last one of the same key.

        By key, the mark says it, and the bitmap is empty.
        """
        if self.by_key:
            self._closure.add_none(seq)
            self._remember(seq, key)
            return 0
        last = self._last.get(key, 0)
        bitmap = self._closure.add_one(seq, last) if last > 0 else self._closure.add_none(seq)
        self._remember(seq, key, last)
        return bitmap

    def tag_none(self, seq: int) -> None:
        """The next message replaces nothing, and the caller knows so."""
        self._closure.add_none(seq)
        self._remember(seq, None)

    @property
    def asks(self) -> bool:
        """Whether there is a function to ask when the caller says nothing."""
        return self._function is not None

    def take_back(self) -> None:
        """The last message was not sent after all; only one can be taken back."""
        seq = self._closure.seq
        self._closure.take_back()
        if self.k == 0:
            return
        name = self._named[seq % self.k]
        if name is not None and not self.by_key:
            if self._last_before > 0:
                self._last[name] = self._last_before
            else:
                del self._last[name]
        self._named[seq % self.k] = self._named_out
        if self._forgotten is not None:
            self._last[self._forgotten] = seq - self.k

    @property
    def names_held(self) -> int:
        """How many keys and key sets are remembered; never more than k."""
        return len(self._last) or sum(name is not None for name in self._named)

    def _tag_ranked(self, seq: int, replaces: Ranked) -> Annotation:
        key = as_key(replaces.key)
        if not -RANK_MAX <= replaces.rank <= RANK_MAX:
            raise LocalProtocolError(f"rank {replaces.rank} is outside ±{RANK_MAX}")
        self._closure.add_none(seq)
        self._remember(seq, None)
        return Annotation(0, key, replaces.rank, True)

    def _tag_keys(self, seq: int, replaces: Keys) -> Annotation:
        if not 1 <= len(replaces.names) <= KEYS_MAX:
            raise LocalProtocolError(f"{len(replaces.names)} keys; say from 1 to {KEYS_MAX}")
        names = frozenset([as_key(name) for name in replaces.names])
        if len(names) == 1:
            key = next(iter(names))
            return Annotation(self.tag_key(seq, key), key, by_key=self.by_key)
        if self.by_key:
            self._closure.add_none(seq)
            self._remember(seq, names)
            return Annotation(0, pack_keys(names), several=True, by_key=True)
        # Distances below are shifts, so the number has to be right before they are worked out.
        self._closure.check_next(seq)
        direct = 0
        for name, last in self._last.items():
            # A name used last k messages ago is about to be forgotten, but still has its bit.
            covered = name in names if isinstance(name, bytes) else name <= names
            if covered:
                direct |= 1 << (seq - last - 1)
        bitmap = self._closure.add(seq, direct)
        self._remember(seq, names, self._last.get(names, 0))
        return Annotation(bitmap, pack_keys(names), several=True)

    def _remember(self, seq: int, name: bytes | frozenset[bytes] | None, last: int = 0) -> None:
        if self.k == 0:
            return
        place = seq % self.k
        self._named_out = self._named[place]
        if self.by_key:
            self._named[place] = name
            return
        self._forgotten = None
        if name is not None:
            self._last_before = last
            self._last[name] = seq
        out = self._named_out
        if out is not None and self._last[out] == seq - self.k:
            del self._last[out]
            self._forgotten = out
        self._named[place] = name

    def _with_keys(self, seq: int, direct: int) -> int:
        """By key, what a message replaces is not in its bitmap. A later bitmap that names it has to
        name that too, as far as it reaches, else the relation would not be transitive.
        """
        if not self.by_key:
            return direct
        reach = min(self.k, seq - 1)
        for distance in distances(direct):
            name = self._named[(seq - distance) % self.k]
            if name is None:
                continue
            names = frozenset([name]) if isinstance(name, bytes) else name
            for older in range(distance + 1, reach + 1):
                other = self._named[(seq - older) % self.k]
                if other is not None and (
                    other in names if isinstance(other, bytes) else other <= names
                ):
                    direct |= 1 << (older - 1)
        return direct


def _direct(seq: int, k: int, replaces: Predecessors) -> int:
    direct = 0
    for replaced in replaces.seqs:
        if not 1 <= replaced < seq:
            raise LocalProtocolError(
                f"message {seq} cannot replace message {replaced}; "
                f"predecessors are numbered 1 to {seq - 1}"
            )
        if seq - replaced <= k:
            direct |= 1 << (seq - replaced - 1)
    return direct


def _all_but(seq: int, k: int, kept: int) -> int:
    if kept < 1:
        raise LocalProtocolError(f"kept={kept}; a k-stubborn channel keeps at least 1 message")
    reach = min(k, seq - 1)
    if kept > reach:
        return 0
    return ((1 << reach) - 1) & ~((1 << (kept - 1)) - 1)
