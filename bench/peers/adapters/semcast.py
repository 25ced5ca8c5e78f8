"""semcast itself, from outside: the blocking façade of the installed, compiled package."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from bench.peers.api import (
    LATENCY,
    SENDER,
    SLOW_READER,
    THROUGHPUT,
    Peer,
    Receiver,
    Sender,
    Setup,
    UnavailableError,
    Variant,
)

_SECRET = b"only for benchmarks, 32 bytes :)"
# Beyond what one round of acknowledgements takes at a million messages a second.
_WINDOW_MESSAGES = 32_768


def _join(setup: Setup) -> Any:
    try:
        blocking = import_module("semcast.blocking")
    except ImportError:
        raise UnavailableError("not built yet: semcast.blocking is missing") from None
    options = dict(setup.options)
    sealed = options.pop("sealed")
    seal = {"secret": _SECRET} if sealed else {"secret": None, "insecure": True}
    return blocking.join(
        setup.run,
        name=setup.role,
        members=[SENDER, *setup.receivers],
        deliver_own=False,
        interface="lo",
        **seal,
        **options,
    )


class SemcastSender(Sender):
    def open(self) -> None:
        self._group = _join(self.setup)

    def send(self, payload: bytes, key: str | None) -> None:
        self._group.send(payload, replaces=key)

    def send_many(self, payloads: Sequence[bytes]) -> None:
        self._group.send_many(payloads)

    def close(self) -> None:
        self._group.leave()


class SemcastReceiver(Receiver):
    def open(self) -> None:
        self._group = _join(self.setup)

    def receive(self, timeout_s: float) -> bytes | None:
        try:
            payload: bytes = self._group.receive(timeout=timeout_s).payload
        except TimeoutError:
            return None
        return payload

    def receive_many(self, messages_max: int, timeout_s: float) -> Sequence[bytes]:
        try:
            messages = self._group.receive_many(messages_max=messages_max, timeout=timeout_s)
        except TimeoutError:
            return ()
        return [message.payload for message in messages]

    def close(self) -> None:
        self._group.leave()


class PlainSender(SemcastSender):
    """One `send` for each message, in a loop as tight as that of peers that have nothing else."""

    def send_many(self, payloads: Sequence[bytes]) -> None:
        send = self._group.send
        for payload in payloads:
            send(payload)


class PlainReceiver(SemcastReceiver):
    """One `receive` for each message, likewise."""

    def receive_many(self, messages_max: int, timeout_s: float) -> Sequence[bytes]:
        first = self.receive(timeout_s)
        if first is None:
            return ()
        batch = [first]
        receive = self._group.receive
        try:
            while len(batch) < messages_max:
                batch.append(receive(0).payload)
        except TimeoutError:
            pass
        return batch


def _variant(
    name: str, workloads: tuple[str, ...], sealed: bool, plain: bool = False, **options: Any
) -> Variant:
    options = {"sealed": sealed, "reliability": "sender", "order": "fifo", **options}
    sender, receiver = (PlainSender, PlainReceiver) if plain else (SemcastSender, SemcastReceiver)
    keys_max = options.get("delivery_messages", _DEFAULT_MESSAGES)
    return Variant(name, sender, receiver, options, workloads, plain, keys_max)


_FAST: dict[str, Any] = {
    "window_messages": _WINDOW_MESSAGES,
    "delivery_messages": _WINDOW_MESSAGES,
    # Room in the sockets for a whole window of the large messages.
    "receive_buffer_bytes": 32 << 20,
}
# Awake between messages that are a millisecond apart, too; by default they are up to 0.2 ms apart.
_AWAKE: dict[str, Any] = {"spin_us": 2_000}
# What a group has where nothing is said.
_DEFAULT_MESSAGES = 32_768
# What 20% never replaced leaves over in ten seconds, and more.
_LARGE: dict[str, Any] = {
    "order": "key",
    "delivery_messages": 65_536,
    "window_messages": 65_536,
}
# So little that the sender is held up when more must be kept than the reader can take.
_SMALL: dict[str, Any] = {
    "order": "key",
    "delivery_messages": 256,
    "window_messages": 256,
}

PEER = Peer(
    "semcast",
    (
        _variant("semcast sealed", (THROUGHPUT,), True, **_FAST),
        _variant("semcast unsealed", (THROUGHPUT,), False, **_FAST),
        _variant("semcast sealed, plain", (THROUGHPUT,), True, plain=True, **_FAST),
        _variant("semcast unsealed, plain", (THROUGHPUT,), False, plain=True, **_FAST),
        _variant("semcast sealed, group", (THROUGHPUT,), True, reliability="group", **_FAST),
        _variant("semcast unsealed, group", (THROUGHPUT,), False, reliability="group", **_FAST),
        _variant("semcast sealed", (LATENCY,), True),
        _variant("semcast unsealed", (LATENCY,), False),
        _variant("semcast sealed, spin", (LATENCY,), True, **_AWAKE),
        _variant("semcast unsealed, spin", (LATENCY,), False, **_AWAKE),
        _variant("semcast fifo", (SLOW_READER,), True),
        _variant("semcast key", (SLOW_READER,), True, order="key"),
        _variant("semcast key, large buffer", (SLOW_READER,), True, **_LARGE),
        _variant("semcast key, small buffer", (SLOW_READER,), True, **_SMALL),
    ),
)
