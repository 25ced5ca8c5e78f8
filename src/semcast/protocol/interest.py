"""Interest: which keys an application wants in; whether a message may wait for it, out.

What it does not want is received, acknowledged and kept for others as always; it only never enters
the queue of this application. So it costs the others nothing, and what is left is as complete, and
in the same order, as without it.

A message without a key is wanted. One about several keys is wanted if one of them is.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias, final

from semcast.errors import ConfigError
from semcast.wire.message import Message

Only: TypeAlias = str | bytes | Iterable[str | bytes] | Callable[[bytes], object] | None


@final
class Interest:
    """What one application wants: keys that begin with one of these, or for which a function says
    so. If the function raises, the message is wanted.
    """

    def __init__(
        self, prefixes: tuple[bytes, ...], function: Callable[[bytes], object] | None = None
    ) -> None:
        self._prefixes: Final = prefixes
        self._function: Final = function
        # How often the function raised, and what it raised first: the world tells its user.
        self.faults = 0
        self.fault: Exception | None = None

    def wants(self, message: Message) -> bool:
        """Whether this message may wait for the application."""
        if message.key_len == 0:
            return True
        if not message.several:
            return self._wants_key(message.body[: message.key_len])
        return any(self._wants_key(key) for key in message.keys)

    def _wants_key(self, key: bytes) -> bool:
        if self._function is None:
            return key.startswith(self._prefixes)
        try:
            return bool(self._function(key))
        except Exception as error:
            # It is the user's function. Rather too much than too little: nothing is lost that way.
            self.faults += 1
            if self.fault is None:
                self.fault = error
            return True


def interest_in(only: Only) -> Interest | None:
    """The interest that a user names: a prefix, several, or a function of the key; None: all."""
    if only is None:
        return None
    if isinstance(only, (str, bytes)):
        return Interest((_prefix(only),))
    if callable(only):
        return Interest((), only)
    # Compiled code would refuse what is no key itself, and say less.
    names: list[object] = list(only)
    return Interest(tuple([_prefix(one) for one in names]))


def _prefix(name: object) -> bytes:
    if isinstance(name, str):
        return name.encode()
    if isinstance(name, bytes):
        return name
    raise ConfigError(f"only={name!r}; say a prefix of keys, several, or a function of the key")
