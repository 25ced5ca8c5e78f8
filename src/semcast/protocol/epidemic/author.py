"""The messages of this member: payloads and what they replace in, numbered and marked, out."""

from typing import Final, final

from mypy_extensions import i64

from semcast.errors import MessageTooLargeError
from semcast.ids import Source
from semcast.obsolescence.tagger import Replaces, Tagger
from semcast.protocol.config import MemberConfig
from semcast.wire.message import Message


@final
class Author:
    """Writes the messages of one source."""

    def __init__(self, config: MemberConfig, me: Source) -> None:
        self._me: Final = me
        self._payload_bytes_max: Final[i64] = config.limits.message_bytes_max
        self._tagger: Final = Tagger(config.k, by_key=config.by_key)
        self.seq: i64 = 0

    def write(self, payload: bytes, replaces: Replaces, now_ns: i64) -> Message:
        """The next message; if it cannot be one, this raises and changes nothing."""
        if len(payload) > self._payload_bytes_max:
            raise MessageTooLargeError(len(payload), self._payload_bytes_max)
        seq = self.seq + 1
        mark = self._tagger.tag(int(seq), replaces, payload)
        self.seq = seq
        return Message(
            self._me,
            seq,
            mark.key + payload if mark.key else payload,
            len(mark.key),
            mark.bitmap,
            mark.rank,
            mark.ranked,
            now_ns,
            mark.several,
            mark.by_key,
        )

    def take_back(self) -> None:
        """The last message is not sent after all; its number is used again."""
        self._tagger.take_back()
        self.seq -= 1
