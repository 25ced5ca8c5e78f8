"""The streams of a run with order "key": what is delivered in order, message by message.

A stream is what one sender multicast about one key, alone or with others, or without any
annotation. A message about several keys is in the stream of each. A ranked use of a key is a stream
of its own. What names others and has no key is in no stream.
"""

from typing import Final, final

from semcast.check.history import History
from semcast.journal import keys_in


@final
class Streams:
    """By message its streams, and by stream its messages as they were multicast."""

    def __init__(self, history: History) -> None:
        # By message: its streams, and its place in each.
        self.of: Final[list[tuple[tuple[int, int], ...]]] = [()] * len(history.messages)
        self.messages: Final[list[list[int]]] = []
        # By stream: its key, or nothing for a stream that has none or is ranked.
        self.keys: Final[list[str]] = []
        numbers: dict[tuple[str, str, bool], int] = {}
        for sender, sent in history.streams.items():
            for message in sent:
                event = history.journal.events[history.multicast_at[message]]
                key, ranked = event.key or "", event.rank is not None
                if not key and (ranked or event.obsoletes):
                    continue
                # A ranked message has one key, whatever it looks like.
                names = [key] if ranked else list(dict.fromkeys(keys_in(key)))
                found = []
                for name in names:
                    number = numbers.setdefault((sender, name, ranked), len(numbers))
                    if number == len(self.messages):
                        self.messages.append([])
                        self.keys.append("" if ranked else name)
                    found.append((number, len(self.messages[number])))
                    self.messages[number].append(message)
                self.of[message] = tuple(found)
