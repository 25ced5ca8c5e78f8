"""What worlds drive in a federation: a machine that sends to, and receives from, several groups.

A federation is a set of groups that may overlap, and the sites that are in them or send to them. A
site numbers its messages over all groups together, so that site and number name a message. Each
group that a site sends to has a stream of its own: a `Source` whose `group` is set. So what a
message replaces is always a message of the same site to the same group.
"""

from abc import abstractmethod
from typing import Final

from mypy_extensions import i64, mypyc_attr

from semcast.errors import ConfigError, WindowFullError
from semcast.ids import ID_MAX, Source
from semcast.obsolescence.tagger import Replaces
from semcast.protocol.config import MemberConfig
from semcast.protocol.machine import Machine
from semcast.protocol.membership.view import scatter
from semcast.protocol.propagation.graph import NO_SITE, Graph
from semcast.wire.message import Message

# How long the name of a group may be, in bytes.
GROUP_NAME_BYTES_MAX: Final = 64
# How many groups a federation may have, and how many sites.
GROUPS_MAX: Final = 4096
SITES_MAX: Final = 4096


def group_id(name: str) -> int:
    """The number of a group on the wire. It depends on nothing but its name."""
    found = 0
    for byte in name.encode():
        found = scatter(found * 257 + byte + 1)
    return found & ID_MAX


def stream_of(site: Source, group: str) -> Source:
    """The stream of one life of a site to one group."""
    stream = Source(scatter(int(site.sender) ^ group_id(group)) & ID_MAX, site.incarnation)
    stream.name = site.name
    stream.group = group
    stream.site = site.sender
    return stream


def as_federated(machine: Machine | None) -> "Federated | None":
    """The machine, if it is a site. Whoever is interpreted asks here: compiled abstract classes
    share one cache of what is an instance of them, so `isinstance` is not to be trusted there.
    """
    return machine if isinstance(machine, Federated) else None


@mypyc_attr(allow_interpreted_subclasses=True)
class Federated(Machine):
    """One site of a federation. `multicast` is for machines with one group only."""

    def __init__(self, config: MemberConfig, me: Source) -> None:
        super().__init__(config, me)

    @abstractmethod
    def multicast_to(self, group: str, payload: bytes, replaces: Replaces, now_ns: i64) -> Message:
        """Send to a group, of which this site need not be a member. If there is no room,
        WindowFullError, and nothing changed; if there is no such group, UnknownGroupError.
        """

    @abstractmethod
    def can_multicast_to(self, group: str, payload_bytes: i64 = 0) -> bool:
        """Whether to try to send a message of this size that replaces nothing: it would be
        accepted, or trying raises the error that says why it never will be.
        """

    @abstractmethod
    def groups(self) -> tuple[str, ...]:
        """The groups whose messages this site gets, in order of names."""

    @abstractmethod
    def known_groups(self) -> tuple[str, ...]:
        """All groups of the federation, as far as this site knows."""

    def multicast_many_to(
        self,
        group: str,
        payloads: list[bytes],
        replaces: list[Replaces] | None,
        start: i64,
        now_ns: i64,
    ) -> int:
        """Send these to one group from `start` on, as `multicast_many` does."""
        accepted: i64 = 0
        try:
            for at in range(start, len(payloads)):
                mark = None if replaces is None else replaces[at]
                self.multicast_to(group, payloads[at], mark, now_ns)
                accepted += 1
        except WindowFullError:
            pass
        return accepted

    # -- what only some kinds of sites do ----------------------------------------------------------

    def begin(self, now_ns: i64) -> None:
        """Nobody else is there: begin the federation."""

    def want(self, groups: tuple[str, ...], now_ns: i64) -> None:  # noqa: ARG002
        """Be a member of these groups and of no others, as soon as that can be."""
        if tuple(sorted(groups)) != self.groups():
            raise ConfigError("the groups of this federation never change; choose another protocol")

    def to_undo(self) -> list[Message]:
        """What the application got in a former life and is to undo, in this order. It gets nothing
        else before it has.
        """
        return []

    def undid(self, message: Message) -> None:
        """The application has undone a message."""

    @property
    def resumes(self) -> bool:
        """Whether it is to go on where a former life was, and has not found the others yet."""
        return False

    @property
    def begun(self) -> tuple[int, int]:
        """Who began the federation, a life and its site, if that is known; else (0, 0)."""
        return 0, 0

    def is_minority(self, now_ns: int) -> bool:  # noqa: ARG002
        """Whether too few sites are heard for the others to go on."""
        return False

    @property
    def has_asked(self) -> bool:
        """Whether it has asked others to let it in."""
        return False

    @property
    def has_left(self) -> bool:
        """Whether nobody counts on this site any more."""
        return True

    def cannot_lose(self, lost: set[int]) -> bool:  # noqa: ARG002
        """Whether the federation can never go on again if the lives of these sites are over."""
        return False

    def manager(self) -> int:
        """The site that decides on graphs, or NO_SITE."""
        return NO_SITE

    def graph(self) -> Graph | None:
        """The propagation graph that is open here, if there is one."""
        return None

    def multicast(self, payload: bytes, replaces: Replaces, now_ns: i64) -> Message:
        """Send to the only group that there is."""
        known = self.known_groups()
        if len(known) != 1:
            raise ConfigError(f"there are {len(known)} groups; say which one the message is for")
        return self.multicast_to(known[0], payload, replaces, now_ns)

    def can_multicast(self, payload_bytes: i64 = 0) -> bool:
        known = self.known_groups()
        return len(known) != 1 or self.can_multicast_to(known[0], payload_bytes)
