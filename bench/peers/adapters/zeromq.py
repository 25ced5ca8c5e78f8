"""ZeroMQ: PUB/SUB over TCP. The default drops at a full queue, XPUB_NODROP blocks instead, and
CONFLATE keeps the last message only, whatever its key. CURVE encrypts and authenticates, as a
sealed group of semcast does; without it ZeroMQ does neither. ZeroMQ's receivers always fall asleep
between messages; in the variant that spins the application sees to it that they do not.
"""

import os
import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from bench.peers.api import (
    LATENCY,
    SLOW_READER,
    SPIN,
    THROUGHPUT,
    Peer,
    Receiver,
    Sender,
    Variant,
)

# Keys from the manual of zmq_curve: public and secret, of who binds and of who connects.
_BINDS = b"rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7", b"JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6"
_CONNECTS = b"Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID", b"D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs"


class ZmqSender(Sender):
    def open(self) -> None:
        zmq = import_module("zmq")
        self._context: Any = zmq.Context()
        nodrop = self.setup.options.get("nodrop", False)
        self._socket: Any = self._context.socket(zmq.XPUB if nodrop else zmq.PUB)
        if nodrop:
            self._socket.setsockopt(zmq.XPUB_NODROP, 1)
        if self.setup.options.get("conflate"):
            self._socket.setsockopt(zmq.CONFLATE, 1)
        if self.setup.options.get("curve"):
            self._socket.curve_publickey, self._socket.curve_secretkey = _BINDS
            self._socket.curve_server = True
        self._socket.bind(f"tcp://127.0.0.1:{self.setup.port}")

    def send(self, payload: bytes, key: str | None) -> None:  # noqa: ARG002
        self._socket.send(payload)

    def send_many(self, payloads: Sequence[bytes]) -> None:
        send = self._socket.send
        for payload in payloads:
            send(payload)

    def close(self) -> None:
        self._socket.close(linger=0)
        self._context.term()


class ZmqReceiver(Receiver):
    def open(self) -> None:
        zmq = import_module("zmq")
        self._empty: type[Exception] = zmq.Again
        self._dontwait = zmq.DONTWAIT

        self._context: Any = zmq.Context()
        self._socket: Any = self._context.socket(zmq.SUB)
        if self.setup.options.get("conflate"):
            self._socket.setsockopt(zmq.CONFLATE, 1)
        if self.setup.options.get("curve"):
            self._socket.curve_publickey, self._socket.curve_secretkey = _CONNECTS
            self._socket.curve_serverkey = _BINDS[0]
        self._socket.setsockopt(zmq.SUBSCRIBE, b"")
        self._socket.connect(f"tcp://127.0.0.1:{self.setup.port}")
        self._timeout_s = -1.0

    def receive(self, timeout_s: float) -> bytes | None:
        if timeout_s != self._timeout_s:
            self._timeout_s = timeout_s
            self._socket.rcvtimeo = int(timeout_s * 1000)
        try:
            payload: bytes = self._socket.recv()
        except self._empty:
            return None
        return payload

    def receive_many(self, messages_max: int, timeout_s: float) -> Sequence[bytes]:
        first = self.receive(timeout_s)
        if first is None:
            return ()
        batch = [first]
        recv, dontwait = self._socket.recv, self._dontwait
        try:
            while len(batch) < messages_max:
                batch.append(recv(dontwait))
        except self._empty:
            pass
        return batch

    def close(self) -> None:
        self._socket.close(linger=0)
        self._context.term()


class SpinningReceiver(ZmqReceiver):
    """Asks again and again, and lets others go first in between."""

    def receive(self, timeout_s: float) -> bytes | None:
        until_s = time.monotonic() + timeout_s
        recv, dontwait = self._socket.recv, self._dontwait
        while True:
            try:
                payload: bytes = recv(dontwait)
            except self._empty:
                if time.monotonic() >= until_s:
                    return None
                os.sched_yield()
            else:
                return payload


_CURVE = {"nodrop": True, "curve": True}

PEER = Peer(
    "zmq",
    (
        Variant("zmq NODROP", ZmqSender, ZmqReceiver, {"nodrop": True}),
        Variant("zmq default", ZmqSender, ZmqReceiver),
        Variant("zmq CURVE", ZmqSender, ZmqReceiver, _CURVE, (THROUGHPUT, LATENCY)),
        Variant("zmq spin", ZmqSender, SpinningReceiver, {"nodrop": True, SPIN: True}, (LATENCY,)),
        Variant("zmq CONFLATE", ZmqSender, ZmqReceiver, {"conflate": True}, (SLOW_READER,)),
    ),
    ("pyzmq",),
)
