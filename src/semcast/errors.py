"""Every exception that semcast raises on purpose.

    SemcastError
    ├── LocalProtocolError        your call cannot be done; nothing was changed
    │   ├── ConfigError           a setting is out of range or contradicts another
    │   ├── MessageTooLargeError  the payload exceeds message_bytes_max
    │   ├── UnknownGroupError     no group of the federation has this name
    │   └── WindowFullError       buffers are full and nothing in them is replaced: wait, then retry
    ├── GroupClosedError          this member has left, was put out of the group, or never got in
    │   └── OtherKindError        the group of this name is of another kind
    ├── RemoteProtocolError       a peer's bytes make no sense; drop them, count them, go on
    │   ├── SealError             not sealed with a key of ours, or altered on the way
    │   └── ReplayError           a datagram seen before, too old to tell, or of an earlier life
    ├── NoAnswerError             nobody in the group answered in time
    ├── TransportError            the network of this machine refuses: an address, a port, a route
    ├── PipelineError             Spark cannot start, or a job of it failed
    └── InputError                a file or an option a user gave cannot be used

Numbers that an error's text mentions are attributes of it too.
"""


class SemcastError(Exception):
    """Base of all the errors below."""


class LocalProtocolError(SemcastError):
    """The caller asked for something that cannot be done; nothing was changed."""


class ConfigError(LocalProtocolError):
    """A setting is out of range or contradicts another."""


class MessageTooLargeError(LocalProtocolError):
    """The message exceeds the configured limit and was not sent."""

    def __init__(self, size_bytes: int, bytes_max: int) -> None:
        super().__init__(
            f"message of {size_bytes} bytes exceeds the limit of {bytes_max}; "
            "send less or raise message_bytes_max on every member"
        )
        self.size_bytes = size_bytes
        self.bytes_max = bytes_max


class UnknownGroupError(LocalProtocolError):
    """The federation has no group of that name."""

    def __init__(self, group: str, known: tuple[str, ...]) -> None:
        names = ", ".join(map(repr, known[:8])) or "none yet"
        super().__init__(
            f"no group {group!r} in the federation; there are: {names}; "
            "a site that joins with it in groups= begins it"
        )
        self.group = group
        self.known = known


class WindowFullError(LocalProtocolError):
    """No room, and nothing waiting is replaced: back-pressure, not loss."""

    def __init__(self, text: str, held: int, window_max: int) -> None:
        super().__init__(text)
        self.held = held
        self.window_max = window_max


class GroupClosedError(SemcastError):
    """The member is not, or no longer, in the group; join again."""


class OtherKindError(GroupClosedError):
    """The group of this name is of another kind, so this process cannot get in."""

    def __init__(self, text: str, reliability: str = "") -> None:
        super().__init__(text)
        # What its members have, if it is this in which they differ.
        self.reliability = reliability


class RemoteProtocolError(SemcastError):
    """Bytes from the network that no correct peer sends; they were ignored."""


class SealError(RemoteProtocolError):
    """The datagram was not sealed with a key of this group, or was altered on the way."""


class ReplayError(RemoteProtocolError):
    """The packet number was seen before, is too old to tell, or belongs to an earlier life."""


class NoAnswerError(SemcastError):
    """A question to a running group, and nobody in it answered in time."""


class TransportError(SemcastError):
    """The network of this machine refuses; the text says what was asked of it and what to do."""


class PipelineError(SemcastError):
    """Spark cannot start here, or a job of it failed; the text says why and what to do."""


class InputError(SemcastError):
    """A file or an option given by a user cannot be used."""
