"""Redis. Pub/sub cuts off who does not read; a stream keeps all, up to a length, for who asks."""

from collections import deque
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from bench.peers.api import Peer, Receiver, Sender, Server, Setup, Variant

_CHANNEL = "bench"
_STREAM_MESSAGES_MAX = 1_000_000
_READ_MAX = 64


def _command(binary: str, setup: Setup) -> list[str]:
    where = ["--bind", "127.0.0.1", "--port", str(setup.port), "--dir", setup.folder]
    return [binary, *where, "--save", "", "--appendonly", "no"]


def _connect(setup: Setup) -> Any:
    return import_module("redis").Redis(host="127.0.0.1", port=setup.port)


class PubSubSender(Sender):
    def open(self) -> None:
        self._client = _connect(self.setup)

    def send(self, payload: bytes, key: str | None) -> None:  # noqa: ARG002
        self._client.publish(_CHANNEL, payload)

    def send_many(self, payloads: Sequence[bytes]) -> None:
        pipeline = self._client.pipeline(transaction=False)
        for payload in payloads:
            pipeline.publish(_CHANNEL, payload)
        pipeline.execute()

    def close(self) -> None:
        self._client.close()


class PubSubReceiver(Receiver):
    def open(self) -> None:
        self._client = _connect(self.setup)
        self._subscription: Any = self._client.pubsub(ignore_subscribe_messages=True)
        self._subscription.subscribe(_CHANNEL)

    def receive(self, timeout_s: float) -> bytes | None:
        message = self._subscription.get_message(timeout=timeout_s)
        return None if message is None else message["data"]

    def receive_many(self, messages_max: int, timeout_s: float) -> Sequence[bytes]:
        batch: list[bytes] = []
        payload = self.receive(timeout_s)
        while payload is not None:
            batch.append(payload)
            if len(batch) == messages_max:
                break
            payload = self.receive(0)
        return batch

    def close(self) -> None:
        self._subscription.close()
        self._client.close()


class StreamSender(Sender):
    def open(self) -> None:
        self._client = _connect(self.setup)

    def send(self, payload: bytes, key: str | None) -> None:  # noqa: ARG002
        self._client.xadd(_CHANNEL, {"p": payload}, maxlen=_STREAM_MESSAGES_MAX)

    def send_many(self, payloads: Sequence[bytes]) -> None:
        pipeline = self._client.pipeline(transaction=False)
        for payload in payloads:
            pipeline.xadd(_CHANNEL, {"p": payload}, maxlen=_STREAM_MESSAGES_MAX)
        pipeline.execute()

    def close(self) -> None:
        self._client.close()


class StreamReceiver(Receiver):
    def open(self) -> None:
        self._client = _connect(self.setup)
        self._from: Any = "0"
        self._waiting: deque[bytes] = deque()

    def receive(self, timeout_s: float) -> bytes | None:
        if not self._waiting:
            self._waiting.extend(self.receive_many(_READ_MAX, timeout_s))
        return self._waiting.popleft() if self._waiting else None

    def receive_many(self, messages_max: int, timeout_s: float) -> Sequence[bytes]:
        found = self._client.xread(
            {_CHANNEL: self._from}, count=messages_max, block=int(timeout_s * 1000)
        )
        if not found:
            return ()
        entries = _entries(found)
        self._from = entries[-1][0]
        return [fields[b"p"] for _, fields in entries]

    def close(self) -> None:
        self._client.close()


def _entries(found: Any) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """The entries of the one stream asked for; newer protocols answer with a mapping."""
    if isinstance(found, dict):
        ((entries,),) = found.values()
    else:
        ((_, entries),) = found
    return list(entries)


PEER = Peer(
    "redis",
    (
        Variant("Redis pub/sub", PubSubSender, PubSubReceiver),
        Variant("Redis Streams", StreamSender, StreamReceiver),
    ),
    # The parser in C is what its manual recommends for speed.
    ("redis", "hiredis"),
    Server("redis-server", "redis-server", _command),
)
