"""What worlds drive: one abstract class, and a member of a group behind it.

Facts and a time go in (`multicast`, `receive`, `take`, `on_timer`); datagrams come out of
`datagrams`, and `next_deadline_ns` says when to call `on_timer`. A machine has no clock, no socket
and no randomness of its own, so the same one runs simulated and live. `Member` is one kind; another
can stand wherever it stands: in the simulator, the explorer, the exhaustive search, the engine and
the recorder.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from mypy_extensions import i64, mypyc_attr

from semcast.errors import WindowFullError
from semcast.ids import SEQ_MAX, Randomness, Source
from semcast.obsolescence.tagger import Replaces
from semcast.protocol.config import MemberConfig
from semcast.protocol.membership.resending import Held
from semcast.protocol.membership.transfer import Transfer
from semcast.protocol.membership.view import View
from semcast.protocol.observer import Observer
from semcast.protocol.outbox import Outgoing
from semcast.wire.message import Message


@mypyc_attr(allow_interpreted_subclasses=True)
class Machine(ABC):
    """One process's part in a group."""

    def __init__(self, config: MemberConfig, me: Source) -> None:
        self.config = config
        self.me = me

    # -- the application ---------------------------------------------------------------------------

    @abstractmethod
    def multicast(self, payload: bytes, replaces: Replaces, now_ns: i64) -> Message:
        """Send to the whole group; if there is no room, WindowFullError, and nothing changed."""

    def multicast_many(
        self, payloads: list[bytes], replaces: list[Replaces] | None, start: i64, now_ns: i64
    ) -> int:
        """Send these from `start` on, in order, while there is room. Returns how many were.

        `replaces` has one entry for each, or is None if nothing replaces anything. Anything but a
        full window raises; what came before it was accepted, as `sent` shows.
        """
        accepted: i64 = 0
        try:
            for at in range(start, len(payloads)):
                self.multicast(payloads[at], None if replaces is None else replaces[at], now_ns)
                accepted += 1
        except WindowFullError:
            pass
        return accepted

    @abstractmethod
    def can_multicast(self, payload_bytes: i64 = 0) -> bool:
        """Whether to try to send a message of this size that replaces nothing. It would be accepted
        now; or never, because this member leaves, and trying raises the error that says so.
        """

    @property
    @abstractmethod
    def sent(self) -> int:
        """The number of the last message that this member multicast."""

    @property
    @abstractmethod
    def blocked(self) -> bool:
        """Whether the last message offered found no room."""

    @abstractmethod
    def blocked_ns(self, now_ns: i64) -> int:
        """For how long altogether messages found no room."""

    @abstractmethod
    def all_stable(self) -> bool:
        """Whether everybody has everything that this member multicast."""

    def take(self, messages_max: i64, now_ns: i64) -> list[Message]:
        """The application takes messages that wait for it, in their order; this is delivery."""
        taken: list[Message] = []
        while len(taken) < messages_max:
            message = self.take_one(now_ns)
            if message is None:
                break
            taken.append(message)
        return taken

    @abstractmethod
    def take_one(self, now_ns: i64) -> Message | None:
        """The same for one message, if there is one."""

    @abstractmethod
    def deliverable(self) -> int:
        """How many messages wait for the application; if this member leaves, at most one."""

    @abstractmethod
    def oldest(self) -> Message | None:
        """The message that has waited longest for the application; it goes on waiting."""

    def age_ns(self, message: Message, now_ns: i64) -> int:
        """How old a message is that waits here: as far as its sender's clock can be trusted, unless
        a machine knows better.
        """
        return max(int(now_ns - message.sent_ns), 0)

    @abstractmethod
    def cover_of(self, source: Source, seq: i64) -> tuple[Source, int] | None:
        """The cover of a message that was skipped, if that is still remembered."""

    # -- the network -------------------------------------------------------------------------------

    @abstractmethod
    def receive(self, frames: bytes, source: Source, now_ns: i64) -> None:
        """The opened frames of one datagram from `source`."""

    @abstractmethod
    def datagrams(self, now_ns: i64, data_max: i64 = SEQ_MAX) -> list[Outgoing]:
        """What to send now, with about `data_max` datagrams of new messages at the most.

        Call this after every other call, and again while `unsent`. Messages that are not packed yet
        may still be purged, so ask for no more than the network takes.
        """

    @property
    @abstractmethod
    def unsent(self) -> bool:
        """Whether messages wait to be sent, and may be sent now."""

    @abstractmethod
    def next_deadline_ns(self) -> int:
        """When to call on_timer."""

    @abstractmethod
    def on_timer(self, now_ns: i64) -> None:
        """Do what is due by now."""

    # -- the group ---------------------------------------------------------------------------------

    @property
    @abstractmethod
    def view(self) -> View:
        """Who is in the group, as far as this member knows."""

    @abstractmethod
    def remove(self, sender: int, now_ns: i64) -> None:
        """That member is gone for good in its present life: wait for it no longer. It may come back
        in a later life.
        """

    @property
    def inside(self) -> bool:
        """Whether this member is in the group and has a beginning everywhere: it misses nothing of
        what is multicast from now on.
        """
        return True

    @property
    def out(self) -> bool:
        """Whether the others have gone on without this life, so that it has to come back."""
        return False

    @property
    def minority(self) -> bool:
        """Whether the members cannot agree on another view, since too few of them answer."""
        return False

    def was_put_out(self, source: Source) -> bool:  # noqa: ARG002
        """Whether this life went because of others, as far as that is known and remembered."""
        return False

    def suspects(self) -> list[int]:
        """The members that may be dead, as far as this one can tell."""
        return []

    def transfers(self) -> Transfer | None:
        """How this machine gets and gives state, if it does."""
        return None

    def met(self, source: Source, now_ns: i64) -> None:  # noqa: B027
        """Another process of the group has shown that it is there."""

    def refused(self, sender: int, now_ns: i64) -> None:  # noqa: B027
        """The world says that nobody listens any more where that process was. It may be wrong."""

    def follow_up(self, former: "Machine", now_ns: i64) -> None:  # noqa: B027
        """Be another life of `former`, in the same process, with the same application."""

    def resent(self) -> tuple[int, int]:
        """How many messages of a former life were sent again, since nobody had received them; and
        of how many nobody knows. Both are 0 until all of that is done.
        """
        return 0, 0

    def take_gaps(self) -> list[tuple[Source, int, int]]:
        """Sources whose streams have begun anew since this was last asked, with the first and the
        last of the messages that this machine did not get, except as state.
        """
        return []

    def take_own(self) -> list[Message]:
        """What this machine has multicast and its own application has not taken, when its life is
        over before it had the state; after `take`.
        """
        return []

    def unreceived(self) -> list[Held]:
        """What this machine has multicast and still holds, when its life is over."""
        return []

    def goodbye(self, now_ns: i64) -> None:  # noqa: B027
        """Say to the others, in the next datagrams, that this member goes now."""

    @abstractmethod
    def begin_leaving(self, now_ns: i64) -> None:
        """Send nothing more, and find out whether this member may go."""

    @property
    @abstractmethod
    def leaving(self) -> bool:
        """Whether it has begun to leave."""

    @abstractmethod
    def settled(self, silent: list[int]) -> bool:
        """Whether all others have what this member sent and, in S-RM, what it took. `silent` are
        members that nothing is heard of.
        """

    @abstractmethod
    def may_leave(self, silent: list[int], now_ns: i64) -> bool:
        """Whether it is settled, and has all that it can get of what it had heard of."""

    @abstractmethod
    def stats(self) -> dict[str, int]:
        """Counters and gauges, for people and tests."""


# Its arguments: a configuration, who the machine is, the first view, randomness, the observer, and
# whether it came back without memory to a group that runs.
MachineMaker: TypeAlias = Callable[
    [MemberConfig, Source, View, Randomness, Observer | None, bool], Machine
]
