"""A view: who is in a group, in which life, as one value.

A position exists only inside a view: a frame with positions or votes names its view by the digest,
and members ignore frames of other views than their own. So no vote of a former life is ever taken
for one of this life, however late it comes.

Views do not change: each step makes another one. In a group whose members are counted beforehand a
step is small (a member is in another life, or a member is gone), and nobody agrees on it. In an
open group all members agree on each step, which is a `Change`, and on its number (SRM §4.2).

Members that are gone keep their positions, because what they sent may still have to reach others.
The members of an open group agree to drop them once that is done.
"""

from dataclasses import dataclass
from typing import Final, final

from mypy_extensions import i64

from semcast.errors import ConfigError
from semcast.ids import Source

_MASK: Final = (1 << 62) - 1
_WORD: Final = (1 << 64) - 1
# The origin of a view that nobody agreed on.
NO_ORIGIN: Final = 0


@final
@dataclass(frozen=True)
class Change:
    """What makes the next view of an open group out of one. Each part is in order of sender ids."""

    # (sender id, life, name) of those who come in: newcomers, and members in a later life.
    joins: tuple[tuple[int, int, str], ...] = ()
    # Members that are gone in their present life: they left, or crashed.
    gone: tuple[int, ...] = ()
    # Members that were gone before, and of whom nothing is kept any more.
    dropped: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.joins or self.gone or self.dropped)


@final
class View:
    """Number, members with their lives and names, f, digest."""

    def __init__(
        self,
        number: int,
        members: tuple[int, ...],
        lives: tuple[int, ...],
        f: int,
        names: tuple[str, ...] = (),
        gone: int = 0,
        since: tuple[int, ...] = (),
        origin: int = NO_ORIGIN,
    ) -> None:
        """`members`: sender ids, in order; `lives`: the life of each; `gone`: who is gone, as bits
        by position. `number`: how many steps led here. It orders the views of one member, and those
        with the same view soon give it the same number; but views are compared by their digest.

        Of an open group: `since`, the number of the view in which each life came in; and `origin`,
        which no other group of the same name has. There the number is agreed on, as all else.
        """
        if list(members) != sorted(set(members)) or len(lives) != len(members):
            raise ConfigError(f"members {list(members)}: name everybody once, in order, with lives")
        self.number: Final = number
        self.members: Final = members
        self.lives: Final = lives
        self.f: Final = f
        self.names: Final = names
        self.gone: Final = gone
        self.since: Final = since
        self.origin: Final = origin
        self.positions: Final = {sender: at for at, sender in enumerate(members)}
        # Bit i: the member at position i is there.
        self.present_bits: Final = ((1 << len(members)) - 1) & ~gone
        self.present: Final = [sender for at, sender in enumerate(members) if not gone >> at & 1]
        agreed = scatter(scatter(origin) + number) if origin != NO_ORIGIN else 0
        self.digest: Final[i64] = _digest(members, lives, gone, f) ^ (agreed & _MASK)

    @staticmethod
    def first(members: list[int], f: int, life: int = 1, names: tuple[str, ...] = ()) -> "View":
        """Everybody is there, in the same life."""
        ids = tuple(sorted(members))
        return View(1, ids, (life,) * len(ids), f, names)

    @staticmethod
    def alone(me: Source, name: str, origin: int) -> "View":
        """The first view of an open group: whoever begins it."""
        return View(1, (int(me.sender),), (int(me.incarnation),), 0, (name,), 0, (1,), origin)

    def position(self, sender: i64) -> int:
        """Where a member stands in this view, or -1."""
        return self.positions.get(int(sender), -1)

    def life(self, sender: i64) -> int:
        """The life that a member is in, or was in when it went; -1 if it is no member."""
        at = self.positions.get(int(sender), -1)
        return -1 if at < 0 else self.lives[at]

    def is_present(self, sender: i64) -> bool:
        """Whether it is a member and not gone."""
        at = self.positions.get(int(sender), -1)
        return at >= 0 and not self.gone >> at & 1

    def others(self, me: Source) -> list[int]:
        """Everybody who is not gone but one, in order."""
        return [sender for sender in self.present if sender != me.sender]

    def holds(self, source: Source) -> bool:
        """Whether a source is the present life of a member that is there."""
        return self.is_present(source.sender) and self.life(source.sender) == source.incarnation

    def is_over(self, source: Source) -> bool:
        """Whether a source is a life of a member that has ended, so that it sends no more."""
        life = self.life(source.sender)
        if source.incarnation != life:
            return source.incarnation < life
        return not self.is_present(source.sender)

    def with_life(self, sender: int, life: int) -> "View":
        """The next view: a member is there in a later life."""
        at = self.positions[sender]
        assert life > self.lives[at]
        lives = (*self.lives[:at], life, *self.lives[at + 1 :])
        return View(
            self.number + 1, self.members, lives, self.f, self.names, self.gone & ~(1 << at)
        )

    def without(self, sender: int) -> "View":
        """The next view: a member is gone."""
        gone = self.gone | 1 << self.positions[sender]
        return View(self.number + 1, self.members, self.lives, self.f, self.names, gone)

    def changed(self, change: Change, f_max: int) -> "View":
        """The next view of an open group. f follows it: no more than `f_max`, nor than others are
        there. Of a change that names somebody wrongly, that part does nothing.
        """
        number = self.number + 1
        rows = {
            sender: (self.lives[at], self.names[at], bool(self.gone >> at & 1), self.since[at])
            for at, sender in enumerate(self.members)
        }
        for sender in change.dropped:
            if sender in rows and rows[sender][2]:
                del rows[sender]
        for sender in change.gone:
            if sender in rows:
                life, name, _, since = rows[sender]
                rows[sender] = (life, name, True, since)
        for sender, life, name in change.joins:
            if sender not in rows or life > rows[sender][0]:
                rows[sender] = (life, name, False, number)
        members = tuple(sorted(rows))
        gone = sum(1 << at for at, sender in enumerate(members) if rows[sender][2])
        f = max(0, min(f_max, len(members) - gone.bit_count() - 1))
        return View(
            number,
            members,
            tuple(rows[sender][0] for sender in members),
            f,
            tuple(rows[sender][1] for sender in members),
            gone,
            tuple(rows[sender][3] for sender in members),
            self.origin,
        )

    def numbered(self, number: int) -> "View":
        """The same view, to which more steps led than was known."""
        return View(number, self.members, self.lives, self.f, self.names, self.gone)

    def __repr__(self) -> str:
        return f"<View {self.number} of {len(self.present)} members, {int(self.digest):x}>"


def _digest(members: tuple[int, ...], lives: tuple[int, ...], gone: int, f: int) -> int:
    """A number that two views have in common only if they say the same of everybody."""
    found = scatter(f + 1)
    for at, sender in enumerate(members):
        state = 2 * lives[at] + (gone >> at & 1)
        found ^= scatter(scatter(sender) + state + 1)
    return found & _MASK


def scatter(value: int) -> int:
    """A number that looks random (splitmix64), so that sums of different numbers hardly collide."""
    value = (value * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) & _WORD
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _WORD
    return value ^ (value >> 31)
