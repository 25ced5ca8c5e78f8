"""MQTT with Mosquitto, as it comes: the broker drops for a client whose queue is full."""

from collections import deque
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.peers.api import Peer, Receiver, Sender, Server, Setup, UnavailableError, Variant

_TOPIC = "bench/all"
_CONNECT_TRIES = 100
# Messages that this client lets wait in itself before it waits for the oldest of them.
_IN_FLIGHT_MAX = 512
_PUBLISHED_S = 10.0


def _command(binary: str, setup: Setup) -> list[str]:
    where = Path(setup.folder) / "mosquitto.conf"
    where.write_text(f"listener {setup.port} 127.0.0.1\nallow_anonymous true\n")
    return [binary, "-c", str(where)]


def _connect(setup: Setup) -> Any:
    mqtt = import_module("paho.mqtt.client")
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=f"{setup.run}-{setup.role}")
    client.connect("127.0.0.1", setup.port)
    return client


class MqttSender(Sender):
    def open(self) -> None:
        self._client = _connect(self.setup)
        self._client.loop_start()
        self._qos: int = self.setup.options["qos"]
        self._in_flight: deque[Any] = deque()

    def send(self, payload: bytes, key: str | None) -> None:  # noqa: ARG002
        self._in_flight.append(self._client.publish(_TOPIC, payload, self._qos))
        if len(self._in_flight) > _IN_FLIGHT_MAX:
            self._in_flight.popleft().wait_for_publish(_PUBLISHED_S)

    def flush(self) -> None:
        while self._in_flight:
            self._in_flight.popleft().wait_for_publish(_PUBLISHED_S)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


class MqttReceiver(Receiver):
    def open(self) -> None:
        self._client = _connect(self.setup)
        self._waiting: deque[bytes] = deque()
        self._client.on_message = lambda _client, _data, message: self._waiting.append(
            message.payload
        )
        for _ in range(_CONNECT_TRIES):
            if self._client.is_connected():
                break
            self._client.loop(0.1)
        else:
            raise UnavailableError("the broker does not answer")
        self._client.subscribe(_TOPIC, self.setup.options["qos"])

    def receive(self, timeout_s: float) -> bytes | None:
        if not self._waiting:
            self._client.loop(timeout_s)
        return self._waiting.popleft() if self._waiting else None

    def receive_many(self, messages_max: int, timeout_s: float) -> Sequence[bytes]:
        payload = self.receive(timeout_s)
        batch: list[bytes] = []
        while payload is not None:
            batch.append(payload)
            if len(batch) == messages_max:
                break
            payload = self.receive(0)
        return batch

    def close(self) -> None:
        self._client.disconnect()


PEER = Peer(
    "mqtt",
    (
        Variant("MQTT QoS 0", MqttSender, MqttReceiver, {"qos": 0}),
        Variant("MQTT QoS 1", MqttSender, MqttReceiver, {"qos": 1}),
    ),
    ("paho-mqtt",),
    Server("mosquitto", "mosquitto", _command),
)
