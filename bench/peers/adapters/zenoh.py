"""zenoh: peers over TCP. BLOCK holds the sender up when a queue is full, DROP drops."""

import json
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from bench.peers.api import Peer, Receiver, Sender, Setup, Variant

_TICK_S = 0.1


def _open(setup: Setup, end: str) -> Any:
    """A session that knows the other end by address: nothing is looked for on the network."""
    zenoh = import_module("zenoh")
    config = zenoh.Config()
    endpoint = f"tcp/127.0.0.1:{setup.port}"
    config.insert_json5("mode", json.dumps("peer"))
    config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5("listen/endpoints", json.dumps([endpoint] if end == "listen" else []))
    if end == "connect":
        config.insert_json5("connect/endpoints", json.dumps([endpoint]))
        # The listening end may start a moment later.
        config.insert_json5("connect/timeout_ms", "15000")
        config.insert_json5("connect/exit_on_failure", "true")
        config.insert_json5(
            "connect/retry", "{period_init_ms: 50, period_max_ms: 200, period_increase_factor: 2}"
        )
    return zenoh.open(config)


class ZenohSender(Sender):
    def open(self) -> None:
        zenoh = import_module("zenoh")
        self._session = _open(self.setup, "listen")
        self._publisher: Any = self._session.declare_publisher(
            "bench/all",
            congestion_control=getattr(zenoh.CongestionControl, self.setup.options["congestion"]),
            reliability=zenoh.Reliability.RELIABLE,
        )

    def send(self, payload: bytes, key: str | None) -> None:  # noqa: ARG002
        self._publisher.put(payload)

    def send_many(self, payloads: Sequence[bytes]) -> None:
        put = self._publisher.put
        for payload in payloads:
            put(payload)

    def close(self) -> None:
        self._session.close()


class ZenohReceiver(Receiver):
    """Its blocking receive knows no timeout, so this end sends itself an empty sample now and then.

    The tick stays within the session: nothing of it goes over the network.
    """

    def open(self) -> None:
        zenoh = import_module("zenoh")
        self._session = _open(self.setup, "connect")
        # The default handler: a bounded channel that makes the network wait when it is full.
        self._subscriber: Any = self._session.declare_subscriber("bench/*")
        self._tick: Any = self._session.declare_publisher(
            f"bench/{self.setup.role}", allowed_destination=zenoh.Locality.SESSION_LOCAL
        )
        self._closing = threading.Event()
        threading.Thread(target=self._tick_on, daemon=True).start()

    def receive(self, timeout_s: float) -> bytes | None:  # noqa: ARG002
        return bytes(self._subscriber.recv().payload) or None

    def receive_many(self, messages_max: int, timeout_s: float) -> Sequence[bytes]:
        first = self.receive(timeout_s)
        if first is None:
            return ()
        batch = [first]
        try_recv = self._subscriber.try_recv
        while len(batch) < messages_max:
            sample = try_recv()
            if sample is None:
                break
            payload = bytes(sample.payload)
            if payload:
                batch.append(payload)
        return batch

    def close(self) -> None:
        self._closing.set()
        self._session.close()

    def _tick_on(self) -> None:
        while not self._closing.wait(_TICK_S):
            self._tick.put(b"")


PEER = Peer(
    "zenoh",
    (
        Variant("zenoh BLOCK", ZenohSender, ZenohReceiver, {"congestion": "BLOCK"}),
        Variant("zenoh DROP", ZenohSender, ZenohReceiver, {"congestion": "DROP"}),
    ),
    ("eclipse-zenoh",),
)
