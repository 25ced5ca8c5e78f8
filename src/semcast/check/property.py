"""What a property is: its name, who promises it, which events it is about, and who judges it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from semcast.check.kernel import Maker
from semcast.journal import Header
from semcast.journal.header import FEDERATION, MEMBERSHIPS

__all__ = ["EVERY", "FEDERATION", "Property"]

_BOTH: Final = ("sender", "group")
# Also gossip, which promises less than the others, and federations, which promise other things.
EVERY: Final = (*_BOTH, "gossip", FEDERATION)
_ANY: Final = ("fifo", "key")


@dataclass(frozen=True)
class Property:
    """One property of a run. The file that defines it says what it means."""

    name: str
    # By the way in which events are sorted (`kernel`): who judges a group of them.
    kernels: Mapping[str, Maker]
    # The events that are judged by it.
    about: tuple[str, ...]
    # A safety property holds on every prefix; others are judged when everything has come to rest.
    safety: bool = True
    # Who promises it: S-SM (SRM Figure 2) is "sender", S-RM (Figure 3) "group"; PSRM is "gossip",
    # and PROP "federation".
    reliability: tuple[str, ...] = _BOTH
    order: tuple[str, ...] = _ANY
    # Whether only a log in one order can show it. Logs of live members are not in one: each has a
    # clock of its own.
    one_order: bool = False
    # Of which groups, and whether only of those in which newcomers get what stands.
    membership: tuple[str, ...] = MEMBERSHIPS
    state: bool = False
    # Whether it holds with a probability, so that the whole run decides (`tally`).
    chance: bool = False

    def applies(self, header: Header) -> bool:
        """Whether a run with this header promised it, and its log can show it."""
        return (
            header.reliability in self.reliability
            and header.order in self.order
            and header.membership in self.membership
            and (header.state == "keys" or not self.state)
            and (header.one_order or not self.one_order)
        )
