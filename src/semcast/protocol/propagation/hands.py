"""What the manager of a federation can do: the site that it is part of does it for it.

Knows nothing of who is the manager, nor of what it does with these.
"""

from abc import ABC, abstractmethod

from mypy_extensions import i64, mypyc_attr

from semcast.protocol.propagation.config import Seat
from semcast.protocol.propagation.graph import Graph
from semcast.protocol.propagation.records import Opening


@mypyc_attr(allow_interpreted_subclasses=True)
class Sites(ABC):
    """What a manager can do about other sites, and about its own."""

    @abstractmethod
    def tell(self, site: int, record: bytes, now_ns: i64) -> None:
        """Tell a site something, on CONTROL; also this site itself."""

    @abstractmethod
    def heard_ns(self, seat: Seat) -> i64:
        """When a site was last heard, in its life; -1: never; -2: it is in another life."""

    @abstractmethod
    def graph_for(self, seats: tuple[Seat, ...], old: Graph, number: int) -> Graph:
        """A propagation graph of the groups of these seats."""

    @abstractmethod
    def learn(self, opening: Opening, record: bytes, now_ns: i64) -> None:
        """An opening was decided that this site may not have heard of."""
