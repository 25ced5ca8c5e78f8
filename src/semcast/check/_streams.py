"""The streams of a run with order "key": what is delivered in order, message by message.

A stream is what one sender multicast about one key, or without any annotation. A ranked use of a
key is a stream of its own. What names others and has no key is in no stream.
"""

from typing import Final, final

from semcast.check.history import History

NO_STREAM: Final = -1


@final
class Streams:
    """By message its stream, and by stream its messages as they were multicast."""

    def __init__(self, history: History) -> None:
        self.of: Final = [NO_STREAM] * len(history.messages)
        # By message: its place in its stream.
        self.place: Final = [0] * len(history.messages)
        self.messages: Final[list[list[int]]] = []
        numbers: dict[tuple[str, str, bool], int] = {}
        for sender, sent in history.streams.items():
            for message in sent:
                event = history.journal.events[history.multicast_at[message]]
                key, ranked = event.key or "", event.rank is not None
                if not key and (ranked or event.obsoletes):
                    continue
                number = numbers.setdefault((sender, key, ranked), len(numbers))
                if number == len(self.messages):
                    self.messages.append([])
                self.of[message] = number
                self.place[message] = len(self.messages[number])
                self.messages[number].append(message)
