"""`python -m bench.flood`: what a sealed group does while somebody without its key floods it.

A sender and two receivers, each a process of its own, multicast on the loopback interface: 64-byte
messages that nothing replaces, as fast as they go. A further process hears the group as anybody on
its network does, has no secret, and sends it 20,000 datagrams a second of one kind:

    garbage       random bytes
    mutations     datagrams of the group, altered: in any place, or with a packet number yet to come
    replays       datagrams of the group as they were
    unknown ids   altered so that they claim to be of somebody whom nobody has heard of
    new lives     altered so that they claim to be of a member that has just started again

Next to each flood the same processor time goes to a process that only burns it, in the same rhythm:
a machine with less time left does less, whoever takes it. What counts is the ratio of the two, at
the slower receiver ("kept"). Floods and burners take turns, in many short rounds. On a machine that
others use, "by CPU time" says more: the same for each second of processor time that the group got.
"""

import argparse
import json
import multiprocessing
import os
import platform
import random
import socket
import statistics
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, Final

from rich.console import Console
from rich.table import Table

import semcast.blocking
from semcast.errors import SemcastError
from semcast.ids import ID_MAX
from semcast.live.sockets.address import group_host, group_port
from semcast.wire import seal
from semcast.wire.header import HEADER_BYTES, SOURCE_BYTES
from semcast.wire.keys import group_id

GROUP: Final = f"bench flood {os.getpid()}"
SENDER, RECEIVERS = "feed", ("near", "far")
MESSAGE_BYTES: Final = 64
MESSAGES_AT_ONCE: Final = 64
RATE_PER_S: Final = 20_000
# What a flood sends has at most this size: larger datagrams would be a flood of bytes.
FORGED_BYTES_MAX: Final = 1_400
RECORDED_MAX: Final = 2_000
KINDS: Final = ("garbage", "mutations", "replays", "unknown ids", "new lives")
KEPT_MIN: Final = 0.7
_RHYTHM_S: Final = 0.001
_SENDER_AT: Final = slice(12, 20)
_LIFE_AT: Final = slice(20, 28)
_PACKET_AT: Final = slice(SOURCE_BYTES, HEADER_BYTES)


# -- members ---------------------------------------------------------------------------------------


def member(group: str, name: str, secret: str, counter: Any, told: Connection) -> None:
    """One member, until it is told to end; `counter` is how many messages it has taken (or sent),
    and the processor time it has used.
    """
    names = (SENDER, *RECEIVERS)
    with semcast.blocking.join(
        group, name=name, secret=secret, members=names, transport="multicast",
        interface="127.0.0.1", deliver_own=False,
    ) as joined:  # fmt: skip
        told.send(None)
        batch = [bytes(MESSAGE_BYTES)] * MESSAGES_AT_ONCE
        while not told.poll():
            try:
                if name == SENDER:
                    counter[0] += joined.send_many(batch, timeout=0.1)
                else:
                    counter[0] += len(joined.receive_many(timeout=0.1))
                counter[1] = time.process_time()
            except TimeoutError:
                continue
        told.recv()
        told.send({key: value for key, value in joined.stats().items() if "refused" in key})
        told.recv()


# -- who floods, and who only burns ----------------------------------------------------------------


def record(address: tuple[str, int], seconds: float) -> list[bytes]:
    """What goes by, as anybody can hear it; no more than fits, of every size a fair part."""
    found: list[bytes] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        joined = socket.inet_aton(address[0]) + socket.inet_aton("127.0.0.1")
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, joined)
        sock.settimeout(0.1)
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s and len(found) < RECORDED_MAX:
            try:
                found.append(sock.recv(1 << 16))
            except TimeoutError:
                continue
    return found


def forger(kind: str, recorded: list[bytes], draw: random.Random) -> Callable[[], bytes]:
    """What makes one more forged datagram of a kind, from what was heard."""
    short = [one[:FORGED_BYTES_MAX] for one in recorded]
    genuine = [one for one in recorded if len(one) <= FORGED_BYTES_MAX] or recorded[:1]
    newest = max(int.from_bytes(one[_LIFE_AT], "little") for one in recorded)

    def altered(at: slice, value: int) -> bytes:
        changed = bytearray(draw.choice(short))
        changed[at] = struct.pack("<q", value)
        return bytes(changed)

    def mutation() -> bytes:
        if draw.random() < 0.5:
            return altered(_PACKET_AT, draw.randrange(1 << 40, 1 << 60))
        changed = bytearray(draw.choice(short))
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        return bytes(changed)

    return {
        "garbage": lambda: draw.randbytes(draw.randrange(1, 400)),
        "mutations": mutation,
        "replays": lambda: draw.choice(genuine),
        "unknown ids": lambda: altered(_SENDER_AT, draw.randrange(ID_MAX)),
        "new lives": lambda: altered(_LIFE_AT, newest + draw.randrange(1, 1 << 50)),
    }[kind]


def every_ms(seconds: float) -> Iterator[int]:
    """Now and then, how many datagrams more should have been sent by now."""
    began_s = time.perf_counter()
    due = 0
    while (passed_s := time.perf_counter() - began_s) < seconds:
        more = int(passed_s * RATE_PER_S) - due
        due += more
        yield more
        time.sleep(_RHYTHM_S)


def flood(address: tuple[str, int], seconds: float, datagrams: list[bytes]) -> tuple[int, float]:
    """Send these, again and again; how many, and the processor time that sending took."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        sock.connect(address)
        began_s, sent = time.process_time(), 0
        for more in every_ms(seconds):
            for _ in range(more):
                with suppress(OSError):  # there is no room: as if it had been lost
                    sock.send(datagrams[sent % len(datagrams)])
                sent += 1
        return sent, time.process_time() - began_s


def burn(seconds: float, processor_s: float) -> float:
    """Use so much processor time in so many seconds, in the same rhythm; what it was."""
    began_s, wall_s = time.process_time(), time.perf_counter()
    for _ in every_ms(seconds):
        wanted_s = processor_s * (time.perf_counter() - wall_s) / seconds
        while time.process_time() - began_s < wanted_s:
            pass
    return time.process_time() - began_s


def attacker(group: str, told: Connection) -> None:
    """Does as told: records, floods, burns; until it is told to end."""
    identity = group_id(group)
    address = (group_host(identity, False), group_port(identity))
    draw = random.Random(1)
    recorded: list[bytes] = []
    while (order := told.recv()) is not None:
        match order:
            case ("record", seconds):
                recorded = record(address, seconds)
                told.send(len(recorded))
            case ("flood", kind, seconds):
                # Made beforehand: what forging costs whoever forges is not the question.
                make = forger(kind, recorded, draw)
                datagrams = [make() for _ in range(int(RATE_PER_S * seconds))]
                told.send(None)
                told.send(flood(address, seconds, datagrams))
            case ("burn", seconds, processor_s):
                told.send(None)
                told.send(burn(seconds, processor_s))


# -- the measurement -------------------------------------------------------------------------------


class Company:
    """The processes of one run."""

    def __init__(self, context: SpawnContext) -> None:
        secret = random.SystemRandom().randbytes(32).hex()
        self.counters: dict[str, Any] = {}
        self.pipes: dict[str, Connection] = {}
        self.processes: list[SpawnProcess] = []
        for name in (SENDER, *RECEIVERS):
            self.counters[name] = context.Array("d", 2, lock=False)
            self._start(context, name, member, GROUP, name, secret, self.counters[name])
        self._start(context, "attacker", attacker, GROUP)
        for name in (SENDER, *RECEIVERS):
            self._answer(name)

    def _start(
        self, context: SpawnContext, name: str, work: Callable[..., None], *more: Any
    ) -> None:
        ours, theirs = context.Pipe()
        self.pipes[name] = ours
        process = context.Process(target=work, args=(*more, theirs), daemon=True)
        process.start()
        self.processes.append(process)

    def _answer(self, name: str) -> Any:
        if not self.pipes[name].poll(60):
            raise SemcastError(f"{name} did not answer within 60 s")
        return self.pipes[name].recv()

    def order(self, *order: object) -> Any:
        """Have the attacker do something; what it says."""
        self.pipes["attacker"].send(order)
        return self._answer("attacker")

    def measure(self, *order: object) -> tuple[float, float, Any]:
        """While the attacker does something: messages a second at the slower receiver, the same
        for each second of processor time that the group used, and what the attacker says.
        """
        self.order(*order)
        before, began_s = self._count(), time.perf_counter()
        said = self._answer("attacker")
        seconds, after = time.perf_counter() - began_s, self._count()
        taken = min(after[name][0] - before[name][0] for name in RECEIVERS)
        cpu_s = sum(after[name][1] - before[name][1] for name in after)
        return taken / seconds, taken / cpu_s if cpu_s else 0.0, said

    def _count(self) -> dict[str, tuple[float, float]]:
        return {name: (one[0], one[1]) for name, one in self.counters.items()}

    def end(self) -> dict[str, dict[str, float]]:
        """What each member refused; all processes end."""
        found = {}
        names = (SENDER, *RECEIVERS)
        for name in names:
            self.pipes[name].send(None)
            found[name] = self._answer(name)
        for name in (*names, "attacker"):
            self.pipes[name].send(None)
        for process in self.processes:
            process.join(30)
        return found


@contextmanager
def company() -> Iterator[Company]:
    context = multiprocessing.get_context("spawn")
    running: Company | None = None
    try:
        running = Company(context)
        yield running
    finally:
        for process in multiprocessing.active_children():
            process.terminate()


def one_round(running: Company, kind: str, seconds: float) -> dict[str, float]:
    """A flood, and what only burns as much."""
    flooded, flooded_cpu, (sent, processor_s) = running.measure("flood", kind, seconds)
    burned, burned_cpu, burned_s = running.measure("burn", seconds, processor_s)
    return {
        "flooded_msg_s": flooded,
        "burned_msg_s": burned,
        "flooded_msg_cpu_s": flooded_cpu,
        "burned_msg_cpu_s": burned_cpu,
        "flood_datagrams_s": sent / seconds,
        "flood_cpu": processor_s / seconds,
        "burner_cpu": burned_s / seconds,
    }


def judged(rounds: list[dict[str, float]]) -> dict[str, float]:
    """The rounds of one kind as one: means, for a machine has quiet and busy moments."""
    found = {name: statistics.mean(one[name] for one in rounds) for name in rounds[0]}
    found["kept"] = found["flooded_msg_s"] / found["burned_msg_s"]
    found["kept_by_cpu"] = found["flooded_msg_cpu_s"] / found["burned_msg_cpu_s"]
    return found


def run(kinds: list[str], seconds: float, rounds: int, console: Console) -> dict[str, Any]:
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    with company() as running:
        time.sleep(1)
        alone, _, _ = running.measure("burn", seconds, 0.0)
        heard = running.order("record", 2.0)
        if not heard:
            raise SemcastError("nothing of the group was heard; is there multicast on lo?")
        for _ in range(rounds):
            for kind in kinds:
                with console.status(f"{kind} at {RATE_PER_S:,} a second"):
                    found[kind].append(one_round(running, kind, seconds))
        refused = running.end()
    return {
        "python": platform.python_version(),
        "compiled": not str(seal.__file__).endswith(".py"),
        "cores": os.cpu_count(),
        "rate_datagrams_s": RATE_PER_S,
        "rounds": rounds,
        "seconds": seconds,
        "alone_msg_s": alone,
        "kept_min": KEPT_MIN,
        "kinds": {kind: judged(some) for kind, some in found.items()},
        "refused": refused,
    }


def show(report: dict[str, Any], console: Console) -> None:
    build = "compiled" if report["compiled"] else "interpreted"
    title = (
        f"A sealed group of 3 under floods of {RATE_PER_S:,} datagrams a second; {build}, "
        f"{report['cores']} cores; alone {report['alone_msg_s']:,.0f} messages/s"
    )
    table = Table(title=title, title_justify="left")
    names = ("flood", "messages/s", "beside a burner", "kept", "by CPU time", "flooder's CPU")
    for name in names:
        table.add_column(name, justify="left" if name == "flood" else "right")
    for kind, one in report["kinds"].items():
        table.add_row(
            kind,
            f"{one['flooded_msg_s']:,.0f}",
            f"{one['burned_msg_s']:,.0f}",
            f"{one['kept']:.0%}",
            f"{one['kept_by_cpu']:.0%}",
            f"{one['flood_cpu']:.0%}",
        )
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.flood", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each flood lasts")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", default=",".join(KINDS), help="some of: " + ", ".join(KINDS))
    parser.add_argument("--json", action="store_true", help="the figures as JSON")
    given = parser.parse_args()
    if not 0 < given.seconds <= 60 or not 1 <= given.rounds <= 100:
        parser.error("--seconds goes up to 60, and --rounds from 1 to 100")
    kinds = [kind.strip() for kind in given.only.split(",")]
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"no kind of flood: {', '.join(sorted(unknown))}")
    try:
        report = run(kinds, given.seconds, given.rounds, Console(stderr=True))
    except SemcastError as error:
        sys.exit(f"bench.flood: {error}")
    if given.json:
        print(json.dumps(report, indent=2))
    else:
        show(report, Console())


if __name__ == "__main__":
    main()
