"""What the overlay sends, to whom, and the entries of those to whom it did."""

from typing import Final, final

from mypy_extensions import i64

from semcast.wire.families.overlay import Entry
from semcast.wire.frames import ControlFrame

# Destinations that are in no view, such as newcomers, whose entries are kept for a while.
_ENTRIES_MAX: Final = 64


@final
class Post:
    """Frames that wait to be sent."""

    def __init__(self) -> None:
        self._out: list[tuple[int, ControlFrame]] = []
        self._entries: Final[dict[int, Entry]] = {}
        self.sent: i64 = 0

    def __len__(self) -> int:
        return len(self._out)

    def send(self, to: Entry, frame: ControlFrame) -> None:
        """Send a frame to a member."""
        sender = int(to.source.sender)
        if self._entries.pop(sender, None) is None and len(self._entries) >= _ENTRIES_MAX:
            del self._entries[next(iter(self._entries))]
        self._entries[sender] = to
        self.reply(sender, frame)

    def reply(self, sender: int, frame: ControlFrame) -> None:
        """The same to one whose datagram has just come, so that the world knows its address."""
        self._out.append((sender, frame))
        self.sent += 1

    def entry_of(self, sender: int) -> Entry | None:
        """One to whom something was sent lately."""
        return self._entries.get(sender)

    def take(self) -> list[tuple[int, ControlFrame]]:
        """Everything that waits, in order; nothing waits then."""
        out = self._out
        if out:
            self._out = []
        return out
