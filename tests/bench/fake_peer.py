"""A peer for the harness's own tests: frames over TCP to two receivers, and ways to go wrong.

The variant's option `fault` says what goes wrong: nothing, every tenth message is dropped, a
receiver is cut off, opening fails, nobody hears anything, or the process dies.
"""

import os
import socket
import sys
import threading
import time
from collections.abc import Sequence

from bench.peers.api import Peer, Receiver, Sender, Server, UnavailableError, Variant

_CONNECT_S = 60.0
_SIZE_BYTES = 4
CUT_OFF_AFTER = 100


class FakeSender(Sender):
    def open(self) -> None:
        fault = self.setup.options.get("fault", "")
        if fault == "raises":
            raise RuntimeError("the fake cannot open")
        if fault == "dies":
            print("the fake died of this", file=sys.stderr, flush=True)
            os._exit(3)
        if fault == "unavailable":
            raise UnavailableError("the fake is not for here")
        self._lossy = fault == "lossy"
        self._count = 0
        self._to: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", self.setup.port))
        if fault != "mute":
            threading.Thread(target=self._accept, daemon=True).start()

    def send(self, payload: bytes, key: str | None) -> None:  # noqa: ARG002
        self._count += 1
        if self._lossy and self._count % 10 == 0:
            return
        frame = len(payload).to_bytes(_SIZE_BYTES, "little") + payload
        for one in list(self._to):
            try:
                one.sendall(frame)
            except OSError:
                self._to.remove(one)

    def close(self) -> None:
        for one in self._to:
            one.close()
        self._server.close()

    def _accept(self) -> None:
        for _ in self.setup.receivers:
            self._to.append(self._server.accept()[0])


class FakeReceiver(Receiver):
    def open(self) -> None:
        deadline = time.monotonic() + _CONNECT_S
        while True:
            try:
                self._from = socket.create_connection(("127.0.0.1", self.setup.port))
                break
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        self._buffer = b""
        self._count = 0

    def receive(self, timeout_s: float) -> bytes | None:
        if self.setup.options.get("fault") == "cut off" and self._count >= CUT_OFF_AFTER:
            raise ConnectionError("the fake cut this receiver off")
        self._from.settimeout(timeout_s)
        while True:
            size = int.from_bytes(self._buffer[:_SIZE_BYTES], "little")
            if len(self._buffer) >= _SIZE_BYTES + size and self._buffer:
                break
            try:
                data = self._from.recv(65_536)
            except TimeoutError:
                return None
            if not data:
                return None
            self._buffer += data
        payload = self._buffer[_SIZE_BYTES : _SIZE_BYTES + size]
        self._buffer = self._buffer[_SIZE_BYTES + size :]
        self._count += 1
        return payload

    def receive_many(self, messages_max: int, timeout_s: float) -> Sequence[bytes]:  # noqa: ARG002
        payload = self.receive(timeout_s)
        return () if payload is None else (payload,)

    def close(self) -> None:
        self._from.close()


def variant(fault: str = "") -> Variant:
    return next(v for v in PEER.variants if v.options["fault"] == fault)


PEER = Peer(
    "fake",
    tuple(
        Variant(f"fake {fault}".strip(), FakeSender, FakeReceiver, {"fault": fault}, plain=True)
        for fault in ("", "lossy", "cut off", "raises", "dies", "unavailable", "mute")
    ),
)
NEEDS_SERVER = Peer(
    "fake with a server",
    PEER.variants,
    server=Server("no-such-server", "no-such-package", lambda binary, _setup: [binary]),
)
