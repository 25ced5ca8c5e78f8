"""A message as members handle it: its mark, its payload, and when it was multicast."""

from collections.abc import Sequence
from typing import final

from mypy_extensions import mypyc_attr

from semcast._native import i64
from semcast.ids import Source
from semcast.obsolescence.relation import Mark


@final
@mypyc_attr(acyclic=True)
class Message(Mark):
    """One multicast message; never changed once made, but for `skipped` and `state`.

    With a `group` as in `semcast.blocking.join`:

    >>> group.send(b"101.25", replaces="AAPL")
    1
    >>> message = group.receive()
    >>> message.sender, message.seq, message.key, message.payload, message.skipped
    ('a', 1, b'AAPL', b'101.25', ())
    """

    def __init__(
        self,
        source: Source,
        seq: i64,
        body: bytes,
        key_len: i64 = 0,
        bitmap: int = 0,
        rank: i64 = 0,
        ranked: bool = False,
        sent_ns: i64 = 0,
        several: bool = False,
        by_key: bool = False,
    ) -> None:
        self.source = source
        self.seq = seq
        self.body = body
        self.key_len = key_len
        self.bitmap = bitmap
        self.rank = rank
        self.ranked = ranked
        self.several = several
        self.by_key = by_key
        # When its source multicast it, on that source's clock; for measuring, never for deciding.
        self.sent_ns = sent_ns
        # Not sent, and not compared: filled in by the member that delivers it. The numbers before
        # this one, of the same sender, that the application did not get, each told once: with order
        # "fifo" since the last one that it got; with "key" those that this one replaced while they
        # waited here, and those that nobody else could tell.
        self.skipped: Sequence[int] = ()
        # Nor is this: whether it is part of the state that stood when this process came, and not of
        # the stream that it gets from then on.
        self.state = False

    @property
    def sender(self) -> str:
        """The name of the member that sent it, also of one that has restarted since; its id in
        hexadecimal if nobody said the name.
        """
        return self.source.name or f"{self.source.site:x}"

    @property
    def group(self) -> str:
        """In a federation the name of the group that it was sent to; nothing elsewhere."""
        return self.source.group

    @property
    def payload(self) -> bytes:
        """What the application sent."""
        return self.body[self.key_len :] if self.key_len > 0 else self.body

    def __repr__(self) -> str:
        about = "".join([f" {key!r}" for key in self.keys])
        return f"<Message {self.source!r}#{self.seq}{about} {len(self.body)} B>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return (
            self.source == other.source
            and self.seq == other.seq
            and self.bitmap == other.bitmap
            and self.key_len == other.key_len
            and self.rank == other.rank
            and self.ranked == other.ranked
            and self.several == other.several
            and self.by_key == other.by_key
            and self.sent_ns == other.sent_ns
            and self.body == other.body
        )

    def __hash__(self) -> int:
        return hash((self.source, self.seq))
