"""What a site remembers if its process is restarted: records go in, and come out of a later life.

What records mean is the site's affair, and where they are kept that of the world.
"""

from abc import ABC, abstractmethod

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Store(ABC):
    """The memory of one site."""

    @abstractmethod
    def append(self, record: bytes) -> None:
        """Remember a record, after all others."""

    @abstractmethod
    def records(self) -> list[bytes]:
        """All that is remembered, in order."""

    @abstractmethod
    def replace(self, records: list[bytes]) -> None:
        """Remember these in place of all others."""
