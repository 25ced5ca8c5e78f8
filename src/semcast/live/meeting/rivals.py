"""Rivals: federations of one name that were begun apart. Hellos of others go in; whether this site
goes over to them comes out.

Two halves of a network that is split may each begin a federation, and so do processes that are
started anew while those who are left of an old one are too few ever to go on. When these meet, the
sites of one of them come to the other in another life.
"""

from collections.abc import Mapping
from typing import Any, Final, final

from semcast.live.meeting.roster import is_life

# Who began a federation, a life and its site. This stands for nobody.
Begun = tuple[int, int]
NOBODY: Final = (0, 0)
# Sites that hear another federation for so long that comes before theirs go over to it; unless it
# was not heard for several times as long in between.
_LASTS_NS: Final = 1_000_000_000
_LASTS_NS_MAX: Final = 8 * _LASTS_NS


def begun_of(said: Mapping[str, Any]) -> Begun:
    """Who began the federation that a hello is of."""
    begun = said.get("begun")
    if isinstance(begun, list) and len(begun) == 2 and is_life(begun[0]) and is_life(begun[1]):
        return begun[0], begun[1]
    return NOBODY


@final
class Rivals:
    """What a site knows of other federations of its name."""

    def __init__(self) -> None:
        # Since when one is heard that comes before this one, and when it last was.
        self._since_ns = self._heard_ns = -1
        # The federation that this site has left for another; it does not go back there.
        self.left = NOBODY

    def come_first(self, said: Mapping[str, Any], mine: Begun, stuck: bool, sites: int) -> bool:
        """Whether a hello is of another federation, and of one that this site is to go over to.
        Who can never go on again (`stuck`) goes to those who can, who is alone to several, and
        otherwise those go whose federation was begun later.
        """
        begun, others = begun_of(said), said.get("sites")
        if NOBODY in (begun, mine) or begun == mine or said.get("in") is not True:
            return False
        if not isinstance(others, int):
            return False
        return (said.get("minority") is True, others < 2, begun) < (stuck, sites < 2, mine)

    def last(self, now_ns: int) -> bool:
        """One that comes first was heard; says whether it has been for long enough."""
        lately = 0 <= now_ns - self._heard_ns < _LASTS_NS_MAX
        self._heard_ns = now_ns
        if self._since_ns < 0 or not lately:
            self._since_ns = now_ns
        return now_ns - self._since_ns >= _LASTS_NS

    def go_over(self, mine: Begun) -> None:
        """Leave this federation for another."""
        self.left = mine
        self._since_ns = -1

    def is_left(self, said: Mapping[str, Any]) -> bool:
        """Whether a hello is of the federation that this site has left for another."""
        return self.left != NOBODY and begun_of(said) == self.left
