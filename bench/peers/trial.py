"""One run of one peer: a server if it needs one, its workers, a handshake, the work, the facts.

Goes in: a peer's variant and a case. Comes out: what each process reported. Every wait has a
deadline, and everything started here is stopped here. Knows no peer.
"""

import contextlib
import json
import os
import queue
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.peers.api import SENDER, Peer, Setup, UnavailableError, Variant, receivers_of
from bench.peers.case import Case
from bench.peers.orders import FINISH, GO, STOP
from bench.peers.usage import cpu_s_of

ROOT = Path(__file__).resolve().parent.parent.parent
_OPEN_S = 20.0
_SERVER_S = 10.0
# Beyond what the work itself takes, for a sender that is blocked.
_SEND_GRACE_S = 20.0
_REPORT_S = 5.0
_EXIT_S = 3.0


class TrialError(Exception):
    """A run failed; the text is the reason that the table shows."""


@dataclass(frozen=True)
class Facts:
    """What the processes of one run reported."""

    sender: dict[str, Any]
    receivers: list[dict[str, Any]]
    server_cpu_s: float


class Worker:
    """One of the processes, and the threads' end of its pipes."""

    def __init__(self, python: str, role: str, folder: Path, events: "Events") -> None:
        self.role = role
        self._log = folder / f"{role}.log"
        # The workers must find the installed semcast, never the sources beside this file.
        environment = {name: v for name, v in os.environ.items() if name != "PYTHONPATH"}
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [python, "-m", "bench.peers.worker"],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._listener = threading.Thread(target=self._listen, args=(events,), daemon=True)
        self._listener.start()

    def tell(self, **order: Any) -> None:
        stdin = self.process.stdin
        assert stdin is not None
        # If it is gone, its last words are in the queue.
        with contextlib.suppress(BrokenPipeError):
            stdin.write(json.dumps(order) + "\n")
            stdin.flush()

    def last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else "no message"

    def stop(self) -> None:
        try:
            self.process.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._listener.join()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                # What could not be written is of no use any more.
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _listen(self, events: "Events") -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            events.put((self, json.loads(line)))
        events.put((self, {"event": "exited"}))


Events = queue.Queue[tuple[Worker, dict[str, Any]]]


class Trial:
    """One run; use once."""

    def __init__(self, python: str, module: str, peer: Peer, variant: Variant, case: Case) -> None:
        self._python = python
        self._module = module
        self._peer = peer
        self._variant = variant
        self._case = case
        self._receivers = receivers_of(case.receivers)
        self._events: Events = queue.Queue()
        self._heard: dict[tuple[str, str], dict[str, Any]] = {}

    def run(self) -> Facts:
        """Raises TrialError or UnavailableError with a reason; leaves nothing running."""
        with tempfile.TemporaryDirectory(prefix="bench-peers-") as name:
            folder = Path(name)
            options, size_bytes = self._variant.options, self._case.size_bytes
            port, readers = _free_port(), self._receivers
            setup = Setup("", folder.name, port, name, size_bytes, options, readers)
            server = self._start_server(setup)
            workers: dict[str, Worker] = {}
            try:
                for role in (SENDER, *readers):
                    workers[role] = Worker(self._python, role, folder, self._events)
                    workers[role].tell(
                        module=self._module,
                        setup={**asdict(setup), "role": role},
                        case=self._case.to_json(),
                        variant=self._peer.variants.index(self._variant),
                    )
                facts = self._work(workers, server)
                for worker in workers.values():
                    worker.tell(do=FINISH)
                return facts
            except BaseException:
                for worker in workers.values():
                    worker.process.kill()
                raise
            finally:
                for worker in workers.values():
                    worker.stop()
                _stop_server(server)

    def _work(self, workers: dict[str, Worker], server: subprocess.Popen[bytes] | None) -> Facts:
        sender, readers = workers[SENDER], [workers[role] for role in self._receivers]
        self._await("ready", readers, _OPEN_S, "did not hear the sender")
        server_s = cpu_s_of(server.pid) if server else 0.0
        sender.tell(do=GO)
        self._await("sent", [sender], self._case.seconds + _SEND_GRACE_S, "is blocked in send")
        sent = self._heard[SENDER, "sent"]
        for reader in readers:
            reader.tell(do=STOP, sent=sent["sent"], stopped_ns=sent["stopped_ns"])
        try:
            self._await("done", readers, self._case.drain_s, "")
        except TimeoutError:
            for reader in readers:
                reader.tell(do=FINISH)
            self._await("done", readers, _REPORT_S, "is blocked in receive")
        sender.tell(do=FINISH)
        self._await("done", [sender], _REPORT_S, "is blocked after the work")
        return Facts(
            {**sent, **self._heard[SENDER, "done"]},
            [self._heard[role, "done"] for role in self._receivers],
            cpu_s_of(server.pid) - server_s if server else 0.0,
        )

    def _await(self, event: str, workers: list[Worker], timeout_s: float, otherwise: str) -> None:
        """Wait for an event of each of the workers; without `otherwise`, TimeoutError if late."""
        deadline = time.monotonic() + timeout_s
        while missing := [w.role for w in workers if (w.role, event) not in self._heard]:
            try:
                worker, heard = self._events.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                if not otherwise:
                    raise TimeoutError from None
                raise TrialError(
                    f"{' and '.join(missing)} {otherwise} for {timeout_s:g} s; killed"
                ) from None
            name = heard.pop("event")
            if name == "unavailable":
                raise UnavailableError(heard["reason"])
            if name == "failed":
                raise TrialError(f"{worker.role}: {heard['reason']}"[:200])
            if name == "exited":
                # One that was told to finish, and has said all, may be gone before the others.
                if (worker.role, "done") in self._heard:
                    continue
                raise TrialError(f"{worker.role} ended early: {worker.last_words()}")
            self._heard[worker.role, name] = heard

    def _start_server(self, setup: Setup) -> subprocess.Popen[bytes] | None:
        server = self._peer.server
        if server is None:
            return None
        binary = find_binary(server.binary, self._python)
        if binary is None:
            raise UnavailableError(f"not here: apt-get install {server.debian or server.binary}")
        with (Path(setup.folder) / "server.log").open("wb") as log:
            process = subprocess.Popen(
                server.command(binary, setup), cwd=setup.folder, stdout=log, stderr=log
            )
        deadline = time.monotonic() + _SERVER_S
        while not _listens(setup.port):
            if process.poll() is not None or time.monotonic() > deadline:
                _stop_server(process)
                raise TrialError(f"{server.binary} does not answer on port {setup.port}")
            time.sleep(0.02)
        return process


def find_binary(name: str, python: str) -> str | None:
    """A server beside the interpreter, on PATH, or where Debian puts what only root runs."""
    folders = [str(Path(python).parent), os.environ.get("PATH", ""), "/usr/sbin", "/sbin"]
    return shutil.which(name, path=os.pathsep.join(folders))


def _stop_server(process: subprocess.Popen[bytes] | None) -> None:
    if process is None:
        return
    process.terminate()
    try:
        process.wait(_EXIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0
