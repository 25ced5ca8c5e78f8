"""What an adapter offers and what it is told: the only thing that harness and peers share.

Goes in: bytes and keys. Comes out: bytes. Knows nothing of workloads, clocks or processes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

THROUGHPUT = "throughput"
LATENCY = "latency"
SLOW_READER = "slow-reader"
ALL = (THROUGHPUT, LATENCY, SLOW_READER)
SENDER = "sender"
RECEIVERS_DEFAULT = 2
# An option of a variant: its application does not sleep between messages, though the peer would.
SPIN = "spin"


def receivers_of(count: int) -> tuple[str, ...]:
    """The roles of so many receivers."""
    return tuple(f"r{number}" for number in range(1, count + 1))


class UnavailableError(Exception):
    """The peer cannot run here; the text is the reason that the table shows."""


@dataclass(frozen=True)
class Setup:
    """What one end of one run needs to find the others."""

    role: str
    # Differs in every run, so that two runs never mix.
    run: str
    # The server's where there is one, else the sender's.
    port: int
    folder: str
    # Of every payload in this run, for peers that want to know it beforehand.
    size_bytes: int
    options: Mapping[str, Any]
    # The roles of all receivers.
    receivers: tuple[str, ...]


class Sender(ABC):
    """The sending end. A key says which earlier payload this one replaces; None: none, ever."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    @abstractmethod
    def open(self) -> None: ...

    @abstractmethod
    def send(self, payload: bytes, key: str | None) -> None:
        """Send one payload; may block, for that is how some peers slow a sender down."""

    def send_many(self, payloads: Sequence[bytes]) -> None:
        """Send payloads that replace nothing, in the fastest way that the peer has."""
        for payload in payloads:
            self.send(payload, None)

    def flush(self) -> None:  # noqa: B027  # most peers send from a thread of their own
        """Hand over what is still buffered in this process, if nothing else would do it."""

    @abstractmethod
    def close(self) -> None: ...


class Receiver(ABC):
    """A receiving end."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    @abstractmethod
    def open(self) -> None: ...

    @abstractmethod
    def receive(self, timeout_s: float) -> bytes | None:
        """Wait for one payload; None when none came in time."""

    @abstractmethod
    def receive_many(self, messages_max: int, timeout_s: float) -> Sequence[bytes]:
        """Wait for a payload, then take what else is there; empty when none came in time."""

    @abstractmethod
    def close(self) -> None: ...


@dataclass(frozen=True)
class Variant:
    """One configuration of a peer that its users would choose for some of the workloads."""

    name: str
    sender: type[Sender]
    receiver: type[Receiver]
    options: Mapping[str, Any] = field(default_factory=dict)
    workloads: tuple[str, ...] = ALL
    # One call for each message, even where many could go in one.
    plain: bool = False
    # Of what can be replaced its buffers hold one value of so many keys; None: of any number.
    keys_max: int | None = None


@dataclass(frozen=True)
class Server:
    """A process that the peer needs beside the three: where it comes from, how it is started."""

    binary: str
    # Said to the user when the binary is not found; empty: it comes with the packages.
    debian: str
    command: Callable[[str, Setup], list[str]]


@dataclass(frozen=True)
class Peer:
    """All that the harness knows of a peer: names, configurations, where it comes from."""

    name: str
    variants: tuple[Variant, ...]
    packages: tuple[str, ...] = ()
    server: Server | None = None
