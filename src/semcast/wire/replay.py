"""Replay protection: who sent which packet number in, fresh or why not out.

Knows packet numbers and sources, nothing of keys or bytes. Asking (`verdict`) and remembering
(`commit`) are separate: the opener asks before it spends time on the seal and commits only when
the tag was right, so a forged datagram never moves a window.

The window is the ring of words of RFC 6479: numbers map to fixed bits, so moving on clears the
words that are entered and shifts nothing.

A guard that is `proving` treats two kinds of lives differently. A life that was proved (`prove`: it
answered a challenge, in that packet) is remembered for good, and only packets after that one are
fresh. Any other may be a recording, or in a group without a secret an invention: it never displaces
a proved life, and its window, which only removes duplicates, may be forgotten.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.errors import ConfigError, ReplayError
from semcast.ids import Source

# Verdicts. All but the first are refusals, and the opener counts them under these names.
FRESH: Final = "fresh"
SEEN: Final = "seen"
TOO_OLD: Final = "too_old"
OLD_INCARNATION: Final = "old_incarnation"
NO_ROOM: Final = "no_room"

WINDOW_SIZE: Final = 1024
WINDOW_SIZE_MAX: Final = 1 << 20
SOURCES_MAX: Final = 4096


@final
class ReplayWindow:
    """Accepts each packet number once, in any order, as long as it is among the newest `size`."""

    def __init__(self, size: i64 = WINDOW_SIZE) -> None:
        if not 1 <= size <= WINDOW_SIZE_MAX:
            raise ConfigError(
                f"replay window of {size} packets; it goes from 1 to {WINDOW_SIZE_MAX} "
                f"({WINDOW_SIZE} suits most networks)"
            )
        self.size: Final[i64] = size
        self._newest: i64 = 0
        # INV-REPLAY: the bit of every number in (newest - size, newest] says whether it was
        # committed. One word more than the window needs, because the newest number is rarely the
        # last of its word. [RFC 6479]
        self._words: Final[i64] = (size + 7) // 8 + 1
        self._seen: Final = bytearray(self._words)

    @property
    def newest(self) -> int:
        """The largest number committed so far; 0 if none."""
        return self._newest

    def verdict(self, packet: i64) -> str:
        """FRESH, SEEN, or TOO_OLD if the window no longer covers it. Changes nothing."""
        assert packet >= 1
        if packet > self._newest:
            return FRESH
        if packet <= self._newest - self.size:
            return TOO_OLD
        word: i64 = self._seen[(packet >> 3) % self._words]
        return SEEN if word >> (packet & 7) & 1 else FRESH

    def commit(self, packet: i64) -> None:
        """Remember a number that the verdict called fresh."""
        assert packet > self._newest - self.size
        word: i64 = packet >> 3
        if packet > self._newest:
            # A jump of any length clears each word of the ring once at most.
            entered: i64 = word - (self._newest >> 3)
            if entered > self._words:
                entered = self._words
            while entered > 0:
                entered -= 1
                self._seen[(word - entered) % self._words] = 0
            self._newest = packet
        at: i64 = word % self._words
        bits: i64 = self._seen[at]
        self._seen[at] = bits | (1 << (packet & 7))


@final
class _Life:
    """An incarnation of one sender, and its window."""

    def __init__(self, incarnation: i64, window: ReplayWindow, floor: i64 = 0) -> None:
        self.incarnation: Final[i64] = incarnation
        self.window: Final = window
        # INV-FLOOR: nothing up to this number is fresh. Earlier packets may have been recorded
        # before this guard began; the packet of this number is the first that certainly was not.
        self.floor: Final[i64] = floor


@final
class ReplayGuard:
    """One window per sender, of its newest incarnation, for at most `sources_max` senders."""

    def __init__(
        self,
        sources_max: i64 = SOURCES_MAX,
        window_size: i64 = WINDOW_SIZE,
        proving: bool = False,
    ) -> None:
        """Without `proving`, every life that sealed a datagram counts as proved."""
        if sources_max < 1:
            raise ConfigError(f"sources_max is {sources_max}; a group has at least 1 sender")
        ReplayWindow(window_size)  # Refuse a bad size now, not at the first datagram.
        self.sources_max: Final[i64] = sources_max
        self.window_size: Final[i64] = window_size
        self._proving: Final = proving
        # INV-ONE-LIFE: per sender, only the newest incarnation that was proved is here. Entries are
        # never dropped: a sender that we forgot could be replayed from 1.
        self._lives: Final[dict[int, _Life]] = {}
        # Lives that were not proved, the last of each sender. They may be forgotten at any time.
        self._guests: Final[dict[int, _Life]] = {}

    def __len__(self) -> int:
        return len(self._lives)

    def knows(self, source: Source) -> bool:
        """Whether a packet of this very life was committed, and it is not forgotten."""
        life = self._lives.get(source.sender)
        if life is not None and life.incarnation == source.incarnation:
            return True
        guest = self._guests.get(source.sender)
        return guest is not None and guest.incarnation == source.incarnation

    def verdict(self, source: Source, packet: i64) -> str:
        """FRESH, or the reason to refuse this packet of this source. Changes nothing."""
        life = self._lives.get(source.sender)
        if life is not None:
            if source.incarnation == life.incarnation:
                return TOO_OLD if packet <= life.floor else life.window.verdict(packet)
            if source.incarnation < life.incarnation:
                return OLD_INCARNATION
        elif not self._proving and len(self._lives) >= self.sources_max:
            return NO_ROOM
        guest = self._guests.get(source.sender)
        if guest is not None and source.incarnation == guest.incarnation:
            return guest.window.verdict(packet)
        return FRESH

    def commit(self, source: Source, packet: i64) -> bool:
        """Remember an authentic packet that the verdict called fresh. Returns whether its life is
        remembered for good.
        """
        life = self._lives.get(source.sender)
        if life is None or source.incarnation != life.incarnation:
            assert life is None or source.incarnation > life.incarnation
            if self._proving:
                self._guest(source).window.commit(packet)
                return False
            assert life is not None or len(self._lives) < self.sources_max
            life = _Life(source.incarnation, ReplayWindow(self.window_size))
            self._lives[source.sender] = life
        life.window.commit(packet)
        return True

    def _guest(self, source: Source) -> _Life:
        """What is remembered of a life that was not proved; others may be forgotten for it."""
        guest = self._guests.get(source.sender)
        if guest is None or source.incarnation != guest.incarnation:
            if guest is None and len(self._guests) >= self.sources_max:
                del self._guests[next(iter(self._guests))]
            guest = _Life(source.incarnation, ReplayWindow(self.window_size))
            self._guests[source.sender] = guest
        return guest

    def prove(self, source: Source, packet: i64) -> bool:
        """From now on count this life, which answered a challenge in this packet, and no older.

        Returns False, and changes nothing, if the same or a later life was proved before, or if
        there is no room.
        """
        life = self._lives.get(source.sender)
        if life is not None and life.incarnation >= source.incarnation:
            return False
        if life is None and len(self._lives) >= self.sources_max:
            return False
        window = self._guest(source).window
        del self._guests[source.sender]
        self._lives[source.sender] = _Life(source.incarnation, window, packet)
        return True

    def forget(self, sender: int) -> None:
        """Make room: what comes of this sender counts only if a life of it is proved anew. Only for
        guards that are `proving`, since to others its old packets would be fresh.
        """
        assert self._proving
        self._lives.pop(sender, None)

    def refusal(self, verdict: str, source: Source, packet: i64) -> ReplayError:
        """The error that says why `verdict` was not fresh."""
        assert verdict != FRESH
        life = self._lives.get(source.sender)
        guest = self._guests.get(source.sender)
        if guest is not None and guest.incarnation == source.incarnation:
            life = guest
        if life is None:
            return ReplayError(
                f"{source!r} is new, but {len(self._lives)} senders already have a replay window "
                f"and none may be forgotten; raise sources_max (now {self.sources_max})"
            )
        if verdict == OLD_INCARNATION:
            return ReplayError(
                f"{source!r} is over: incarnation {life.incarnation:x} of that sender was seen; "
                "a restarted member needs a larger incarnation than before"
            )
        newest = life.window.newest
        if source.incarnation == life.incarnation and packet <= life.floor:
            return ReplayError(
                f"packet {packet} of {source!r} is older than packet {life.floor}, in which that "
                "life was proved here: it may have been recorded before"
            )
        if verdict == TOO_OLD:
            return ReplayError(
                f"packet {packet} of {source!r} is too old to tell a replay: the newest is "
                f"{newest} and the window {self.window_size} packets; raise the window if the "
                "network reorders that far"
            )
        return ReplayError(f"packet {packet} of {source!r} was seen before (newest: {newest})")
