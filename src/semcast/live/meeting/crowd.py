"""A crowd that looks for a group at once: whom one of it talks with, and how often it speaks.

Each hears the hellos of all others. If each answered each, or went on at the pace of one that is
alone, a crowd would be busy with that and nothing else. So only the eldest is talked with, the one
that began to look first, since it begins the group; the larger the crowd, the less often each of it
speaks; and who has been answered by a member, or leaves it to the eldest to begin the group, speaks
less often still. What the eldest says is enough for all others to meet it.
"""

from typing import Final, final

# Hellos of a process that is not in: the first two pauses between them, which grow up to the last.
_FIRST_PAUSE_NS: Final = 20_000_000
_LAST_PAUSE_NS: Final = 1_500_000_000
# The same once a member has answered, or an elder one was heard; and how many times fewer members
# are asked to answer, once one has.
_QUIET_PAUSE_NS: Final = 100_000_000
_FEWER: Final = 8
# Who leaves it to an elder one need not be heard by anybody before there is a group, so of a crowd
# nobody speaks sooner than after so long for each of the others.
_LEAVING_EACH_NS: Final = 50_000_000
# A process that comes so late to speak is on a busy machine: it pauses this many times as long.
_LATE_TIMES: Final = 8
_LATE_PAUSE_NS: Final = 6_000_000_000
# For each so many others that look for the group too, the pauses are longer by their own length.
_SHARE: Final = 8
_HEARD_MAX: Final = 1024
# Who is not in and was not heard for so long counts as gone. That is longer than it ever pauses, or
# a crowd on a busy machine would find new eldest ones all the time, and talk with each of them.
_ELDEST_NS: Final = 3 * _LAST_PAUSE_NS


@final
class Crowd:
    """What a process that is not in knows of others that are not."""

    def __init__(self) -> None:
        # The life and the sender that began to look first, and when it was last heard.
        self._eldest = (0, 0)
        self._eldest_ns = -_ELDEST_NS - 1
        # Who else looks for the group, as far as their hellos came.
        self._others: set[int] = set()
        # How often this process said hello since it looks for the others.
        self._hellos = 0

    def is_eldest(self, life: int, sender: int, own: tuple[int, int], now_ns: int) -> bool:
        """Whether another began to look before all others that were heard, and before this one."""
        if len(self._others) < _HEARD_MAX:
            self._others.add(sender)
        if now_ns - self._eldest_ns > _ELDEST_NS:
            self._eldest = own
        if (life, sender) > self._eldest:
            return False
        self._eldest, self._eldest_ns = (life, sender), now_ns
        return True

    @property
    def others(self) -> int:
        """How many others look for the group, as far as that is known."""
        return len(self._others)

    def has_elder(self, now_ns: int) -> bool:
        """Whether an elder one was heard lately. Others wait for it as long as they hear it, so
        that only the eldest need speak until there is a group.
        """
        return now_ns - self._eldest_ns <= _ELDEST_NS

    def begin(self) -> None:
        """Begin to look, or have found."""
        self._hellos = 0
        self._others.clear()

    def spoke(self, answered: bool, leaves: bool = False, late_ns: int = 0) -> tuple[int, int]:
        """Say hello; `answered`: a member knows of this process; `leaves`: it leaves it to an elder
        one to begin the group; `late_ns`: how much later than it wanted to. Returns after how long
        to do so again, and how insistent to be: the more so, the more members answer.
        """
        pause_ns = _FIRST_PAUSE_NS << min(self._hellos // 2, 20)
        if answered or leaves:
            pause_ns = max(pause_ns, _QUIET_PAUSE_NS)
        pause_ns = min(pause_ns + pause_ns * len(self._others) // _SHARE, _LAST_PAUSE_NS)
        if leaves:
            pause_ns = max(pause_ns, len(self._others) * _LEAVING_EACH_NS)
        if self._hellos > 0:
            pause_ns = max(pause_ns, min(_LATE_TIMES * late_ns, _LATE_PAUSE_NS))
        self._hellos += 1
        return pause_ns, self._hellos // _FEWER if answered else self._hellos
