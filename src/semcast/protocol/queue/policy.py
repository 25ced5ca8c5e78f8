"""What a buffer may do about obsolete messages, and when it is full: configuration, checked."""

import enum
from dataclasses import dataclass

from semcast.errors import ConfigError


class Purging(enum.StrEnum):
    """When obsolete messages leave the buffer."""

    OFF = "off"  # never: the plain reliable protocol that the papers compare with
    EAGER = "eager"  # as soon as they are obsolete (SRM §6.3)
    LAZY = "lazy"  # all of them, when the buffer is full (SRM §5.1)
    WATERMARK = "watermark"  # above the high mark, until the low mark (OBS §4.1)


class Overflow(enum.StrEnum):
    """What happens when the buffer is full and nothing in it is obsolete."""

    REFUSE = "refuse"  # back-pressure: the caller keeps the message and tries again
    RANDOM = "random"  # lossy: a random message makes room (PSRM §3.1)
    DROP_NEW = "drop-new"  # lossy: the new message is dropped (PSRM §3.1)


@dataclass(frozen=True)
class BufferConfig:
    """The bounds and the policy of one buffer.

    `overflow` other than REFUSE loses messages that nothing replaces; it is for gossip, whose
    redundancy makes up for it, and for comparison. What it loses is accounted for as dropped, never
    as purged.
    """

    messages_max: int = 1024
    bytes_max: int = 64 << 20
    purging: Purging = Purging.EAGER
    overflow: Overflow = Overflow.REFUSE
    # Only for WATERMARK; by default three quarters and half of messages_max.
    high_messages: int | None = None
    low_messages: int | None = None
    # What one source may fill at most, so that none takes the room of another.
    source_messages_max: int | None = None
    source_bytes_max: int | None = None
    # A message takes the place of the foremost one that it replaces, not the end of the queue.
    in_place: bool = False

    def __post_init__(self) -> None:
        if self.messages_max < 1 or self.bytes_max < 1:
            raise ConfigError(
                f"messages_max {self.messages_max}, bytes_max {self.bytes_max}: "
                "a buffer holds at least one message of one byte"
            )
        for name in ("source_messages_max", "source_bytes_max"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; it must be at least 1")
        if self.in_place and self.purging is not Purging.EAGER:
            raise ConfigError(
                f"in_place with purging {self.purging}: a message takes the place of what it "
                "purges, so purging must be eager"
            )
        if self.purging is not Purging.WATERMARK:
            if self.high_messages is not None or self.low_messages is not None:
                raise ConfigError(f"marks are for the watermark policy, not for {self.purging}")
            return
        if not 0 <= self.low <= self.high <= self.messages_max:
            raise ConfigError(
                f"low mark {self.low}, high mark {self.high}, messages_max {self.messages_max}: "
                "they must not fall in this order"
            )

    @property
    def high(self) -> int:
        """Purging starts above this many messages (WATERMARK)."""
        return self.messages_max * 3 // 4 if self.high_messages is None else self.high_messages

    @property
    def low(self) -> int:
        """Purging stops at this many messages (WATERMARK)."""
        return self.messages_max // 2 if self.low_messages is None else self.low_messages
