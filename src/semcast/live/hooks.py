"""Hooks: what an application does itself for a group, as functions of its own.

They are called in the thread, or the event loop, in which the application receives, between two
messages: what it has received before is what it has dealt with.
"""

from collections.abc import Callable
from dataclasses import dataclass

from semcast.errors import ConfigError
from semcast.live.config import GroupConfig, changed
from semcast.protocol.interest import Interest, Only, interest_in
from semcast.wire.message import Message

Snapshot = Callable[[], bytes]
Restore = Callable[[bytes], object]
Undo = Callable[[list[Message]], object]


@dataclass(frozen=True)
class Hooks:
    """What an application wants of its group besides settings."""

    # Which keys it wants: those that begin so, or for which a function says so; None: all.
    interest: Interest | None = None
    # Saves the application's state for those who come later; and takes over what another saved.
    snapshot: Snapshot | None = None
    restore: Restore | None = None
    # Undoes messages that the application has received, the last first, in a federation.
    undo: Undo | None = None

    @property
    def serves(self) -> bool:
        """Whether it does something between two messages."""
        return self.snapshot is not None or self.undo is not None


def with_hooks(
    config: GroupConfig, only: Only, snapshot: Snapshot | None, restore: Restore | None
) -> tuple[GroupConfig, Hooks]:
    """The hooks that a user gives, and the configuration that goes with them."""
    check_function("snapshot", snapshot)
    check_function("restore", restore)
    if (snapshot is None) != (restore is None):
        raise ConfigError("snapshot and restore belong together: give both, or neither")
    if snapshot is not None:
        if not config.deliver_own and config.role != "reader":
            # Otherwise nobody could tell which of its own messages a snapshot contains.
            raise ConfigError(
                "snapshot with deliver_own=False: what this process sends is in its state when it "
                "has received it; leave deliver_own as it is"
            )
        config = changed(config, state="snapshot")
    elif config.state == "snapshot":
        raise ConfigError("state 'snapshot' without functions for it; give snapshot and restore")
    return config, Hooks(as_interest(only), snapshot, restore)


def as_interest(only: Only) -> Interest | None:
    """The interest that a user names; raises ConfigError if it names none."""
    try:
        return interest_in(only)
    except TypeError:
        raise ConfigError(
            f"only={only!r}; say a prefix of keys, several, or a function of the key"
        ) from None


def check_function(name: str, given: object) -> None:
    """Raises ConfigError if what a user gave is there and cannot be called."""
    if given is not None and not callable(given):
        raise ConfigError(f"{name} is {given!r}; it must be a function")
