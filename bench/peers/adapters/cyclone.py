"""Cyclone DDS, reliable: KEEP_LAST(1) keeps the newest sample of each key, KEEP_ALL keeps all.

What is never replaced gets a key of its own: that is how a DDS user says it.
"""

import os
import zlib
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from bench.peers.api import Peer, Receiver, Sender, Setup, Variant

_LOOPBACK = (
    "<CycloneDDS><Domain><General><Interfaces>"
    '<NetworkInterface name="lo" multicast="true"/>'
    "</Interfaces></General></Domain></CycloneDDS>"
)
_DOMAINS = 200
_BLOCK_MAX_S = 60


class _End:
    """Participant, topic and quality of service, the same at both ends."""

    def __init__(self, setup: Setup) -> None:
        os.environ.setdefault("CYCLONEDDS_URI", _LOOPBACK)
        core, domain, topic, idl, types, util = (
            import_module(f"cyclonedds.{name}")
            for name in ("core", "domain", "topic", "idl", "idl.types", "util")
        )
        policy = core.Policy
        history = (
            policy.History.KeepAll
            if setup.options["history"] == "KEEP_ALL"
            else policy.History.KeepLast(1)
        )
        self.qos: Any = core.Qos(
            policy.Reliability.Reliable(util.duration(seconds=_BLOCK_MAX_S)), history
        )
        self.sample: Any = idl.make_idl_struct(
            "Sample",
            "bench.Sample",
            # Numbers and fixed sizes: the fastest that the Python binding has.
            {"key": types.int64, "payload": types.array[types.uint8, setup.size_bytes]},
            field_annotations={"key": {"key": True}},
        )
        # Runs that follow each other must not meet: each has a domain and a topic of its own.
        self.participant: Any = domain.DomainParticipant(zlib.crc32(setup.run.encode()) % _DOMAINS)
        name = f"bench_{zlib.crc32(setup.run.encode())}"
        self.topic: Any = topic.Topic(self.participant, name, self.sample, qos=self.qos)


class DdsSender(Sender):
    def open(self) -> None:
        self._end = _End(self.setup)
        pub = import_module("cyclonedds.pub")
        self._writer: Any = pub.DataWriter(self._end.participant, self._end.topic, self._end.qos)
        # Keys count up from 0, what is never replaced counts down.
        self._keys: dict[str, int] = {}
        self._unique = 0

    def send(self, payload: bytes, key: str | None) -> None:
        if key is None:
            self._unique -= 1
            number = self._unique
        else:
            number = self._keys.setdefault(key, len(self._keys))
        self._writer.write(self._end.sample(key=number, payload=payload))

    def close(self) -> None:
        del self._writer


class DdsReceiver(Receiver):
    def open(self) -> None:
        self._end = _End(self.setup)
        core, sub, util = (import_module(f"cyclonedds.{name}") for name in ("core", "sub", "util"))
        self._duration: Any = util.duration
        self._reader: Any = sub.DataReader(self._end.participant, self._end.topic, self._end.qos)
        self._condition: Any = core.ReadCondition(
            self._reader,
            core.ViewState.Any | core.InstanceState.Alive | core.SampleState.NotRead,
        )
        self._waitset: Any = core.WaitSet(self._end.participant)
        self._waitset.attach(self._condition)

    def receive(self, timeout_s: float) -> bytes | None:
        batch = self.receive_many(1, timeout_s)
        return batch[0] if batch else None

    def receive_many(self, messages_max: int, timeout_s: float) -> Sequence[bytes]:
        samples = self._reader.take(N=messages_max, condition=self._condition)
        if not samples:
            self._waitset.wait(self._duration(milliseconds=timeout_s * 1000))
            samples = self._reader.take(N=messages_max, condition=self._condition)
        return [sample.payload for sample in samples]

    def close(self) -> None:
        del self._reader


PEER = Peer(
    "dds",
    (
        Variant("DDS KEEP_LAST(1)", DdsSender, DdsReceiver, {"history": "KEEP_LAST"}),
        Variant("DDS KEEP_ALL", DdsSender, DdsReceiver, {"history": "KEEP_ALL"}),
    ),
    ("cyclonedds",),
)
