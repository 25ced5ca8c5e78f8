"""What was sent goes in, and what was received; says whether that is what had to be received.

Of what nobody replaces: all of it, in the order of its sender. Of every key: in the end the newest
value. So much is promised by both orders, and to those that come later from where they came in.
"""

from collections.abc import Sequence
from typing import Any


class Ledger:
    """Of one group, whose members send by `Node.traffic`."""

    def __init__(self, senders: str) -> None:
        # By sender: the place of each unmarked message among them.
        self._places: dict[str, dict[str, int]] = {name: {} for name in senders}
        self.unmarked: dict[str, int] = dict.fromkeys(senders, 0)
        self._newest: dict[str, str] = {}
        # By reader and sender: the place of the last one received; None if it begins anywhere.
        self._last: dict[tuple[str, str], int | None] = {}
        self._values: dict[str, dict[str, str]] = {}
        self.received = 0
        self.skipped = 0

    def begin(self, reader: str, anywhere: bool) -> None:
        """A reader that was there from the start, or comes now."""
        for sender in self._places:
            self._last[reader, sender] = None if anywhere else -1
        self._values[reader] = {}

    def note_sent(self, sender: str, sent: Sequence[Sequence[str]]) -> None:
        for key, text in sent:
            if key:
                self._newest[key] = text
            else:
                self._places[sender][_label(text)] = self.unmarked[sender]
                self.unmarked[sender] += 1

    def note_received(self, reader: str, got: Sequence[Sequence[Any]]) -> None:
        for sender, _, _, key, text, skipped, *_ in got:
            if sender not in self._places:
                continue
            self.received += 1
            self.skipped += len(skipped)
            if key:
                self._values[reader][key] = text
                continue
            place = self._places[sender][_label(text)]
            last = self._last[reader, sender]
            assert last is None or place == last + 1, (
                f"{reader} got unmarked message {place} of {sender} after {last}: {_label(text)}"
            )
            self._last[reader, sender] = place

    def complete(self, reader: str) -> bool:
        """Whether a reader has the end of everything. One that came late lacks old values."""
        values = self._values[reader]
        return all(
            self._last[reader, sender] in (None, sent - 1) for sender, sent in self.unmarked.items()
        ) and all(values.get(key, text) == text for key, text in self._newest.items())


class Lives:
    """Of a sender that is killed again and again, and counts from 0 in each life.

    What it sent last nobody knows. So whoever is there all along has to get every life from its
    first message on, once and without a gap, and in the end all have the same of it.
    """

    def __init__(self, sender: str) -> None:
        self._sender = sender
        # By reader and life: the number of the last one received.
        self._last: dict[str, dict[int, int]] = {}
        self._anywhere: set[str] = set()

    def begin(self, reader: str, anywhere: bool) -> None:
        """A reader that was there from the start, or comes now, into the middle of a life."""
        self._last[reader] = {}
        if anywhere:
            self._anywhere.add(reader)

    def note_received(self, reader: str, got: Sequence[Sequence[Any]]) -> None:
        for sender, life, _, _, text, *_ in got:
            if sender != self._sender:
                continue
            number, last = int(_label(text)), self._last[reader].get(life)
            begins = last is None and (reader in self._anywhere or number == 0)
            assert begins or (last is not None and number == last + 1), (
                f"{reader} got message {number} of a life of {sender} after {last}"
            )
            self._last[reader][life] = number

    def complete(self, life: int, sent: int) -> bool:
        """Whether all have the same of every life, and of this one, which goes on, all of it."""
        whole = [last for reader, last in self._last.items() if reader not in self._anywhere]
        newest = [last.get(life, -1) for last in self._last.values()]
        return all(one == whole[0] for one in whole) and all(one == sent - 1 for one in newest)

    @property
    def count(self) -> int:
        """Of how many lives anybody has got anything."""
        return len({life for last in self._last.values() for life in last})


def _label(text: str) -> str:
    """What a message is called; the rest only makes it longer."""
    return text.partition(":")[0]
