"""Sources: their ids in, one object for each out, so that comparing two of them is quick."""

from typing import Final, final

from librt.strings import read_i64_le
from mypy_extensions import i64

from semcast.errors import RemoteProtocolError
from semcast.ids import ID_MAX, Source
from semcast.wire.frames import SOURCE_BYTES


@final
class Sources:
    """The sources that one decoder has seen, and what people call their senders."""

    def __init__(self, sources_max: int) -> None:
        """Further sources than `sources_max` are read as well, but are not remembered."""
        self._known: Final[dict[tuple[int, int], Source]] = {}
        self._sources_max: Final = sources_max
        # What people call senders, whichever life they are in.
        self._names: Final[dict[int, str]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def intern(self, source: Source) -> Source:
        """The one object that stands for this source."""
        ids = (int(source.sender), int(source.incarnation))
        known = self._known.get(ids)
        if known is None:
            known = source
            if int(source.sender) in self._names:
                known.name = self._names[int(source.sender)]
            if len(self._known) < self._sources_max:
                self._known[ids] = source
        return known

    def read(self, data: bytes, at: i64, end: i64) -> Source:
        """The source that stands at `at`, in a frame that ends at `end`."""
        if end - at < SOURCE_BYTES:
            raise RemoteProtocolError(f"source has {end - at} bytes left of {SOURCE_BYTES}")
        sender = read_i64_le(data, at)
        incarnation = read_i64_le(data, at + 8)
        if sender < 0 or sender > ID_MAX or incarnation < 0 or incarnation > ID_MAX:
            raise RemoteProtocolError(f"source {sender:#x}.{incarnation:#x} is out of range")
        known = self._known.get((sender, incarnation))
        return self.intern(Source(sender, incarnation)) if known is None else known

    def name(self, sender: int, name: str) -> None:
        """Give this name to the sources of a sender, those known and those yet to come."""
        self.name_all({sender: name})

    def name_all(self, names: dict[int, str]) -> None:
        """The same for many senders."""
        self._names.update(names)
        for (sender, _), source in self._known.items():
            if sender in names:
                source.name = names[sender]

    def is_named(self, sender: int, name: str) -> bool:
        """Whether this is what the sender is called already."""
        return self._names.get(sender) == name

    def unname(self, sender: int) -> None:
        """Forget what this sender is called."""
        self._names.pop(sender, None)

    def forget(self, source: Source) -> None:
        """Make room: this source is gone. If it comes again, another object stands for it."""
        self._known.pop((int(source.sender), int(source.incarnation)), None)
