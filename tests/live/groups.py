"""Real groups for tests: members in this process, and members in processes of their own.

A way goes in (`material.Way`), a complete group comes out. Everything that is waited for has a
deadline, and everything that is started is ended.
"""

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from tests.live.material import Way

import semcast
import semcast.blocking
from semcast.live.config import configure
from semcast.live.meeting import joining
from semcast.wire.message import Message

ROOT = Path(__file__).parents[2]
SECRET = "a secret that only tests have..."
DEADLINE_S = 90.0
# Most members are not root: a socket of theirs cannot be bound to one interface after another.
LIKE_A_USER = ["setpriv", "--bounding-set=-net_raw"]


def new_group() -> str:
    """A name that no other run of these tests has."""
    return f"test-{uuid.uuid4()}"


def way_settings(way: Way) -> dict[str, Any]:
    """How the members of a group that meets in this way reach each other."""
    if way.kind == "unicast":
        host = "::1" if way.ipv6 else "127.0.0.1"
        return {"transport": "unicast", "host": host, "ipv6": way.ipv6}
    return {"transport": "multicast", "interface": "lo", "ipv6": way.ipv6}


def common(names: Sequence[str]) -> dict[str, Any]:
    """What all members are told, but for the group's name and the way."""
    return {"members": list(names), "secret": SECRET, "join_timeout_s": DEADLINE_S}


def wait_until(true: Callable[[], bool], what: str, seconds: float = DEADLINE_S) -> None:
    """Look again and again; fails after a deadline, and says what did not happen."""
    give_up_s = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < give_up_s, f"not in {seconds:g} s: {what}"
        time.sleep(0.03)  # those who are asked have better things to do


# -- in this process -------------------------------------------------------------------------------


def address_of(group: semcast.blocking.Group) -> str:
    """Where a member is, as others are told it in `peers`."""
    host, port = group._engine.session.transport.address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def free_port(*hosts: str) -> int:
    """A port that nobody has at any of these hosts, for datagrams."""
    while True:
        with ExitStack() as stack, suppress(OSError):
            port = 0
            for host in hosts:
                family = socket.AF_INET6 if ":" in host else socket.AF_INET
                sock = stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
                sock.bind((host, port))
                port = sock.getsockname()[1]
            return port


@contextmanager
def meeting(
    way: Way, names: Sequence[str] = "abc", also: Sequence[str] = (), **settings: Any
) -> Iterator[list[semcast.blocking.Group]]:
    """A complete group whose members are all in this process.

    `also` are addresses of others, to which the members of this group talk too.
    """
    given = common(names) | way_settings(way) | {"group": new_group()} | settings
    with ExitStack() as stack:
        members: list[semcast.blocking.Group] = []
        for name in names:
            peers = [] if way.kind == "multicast" else [address_of(one) for one in members]
            config = configure(given | {"name": name, "peers": [*peers, *also]})
            members.append(semcast.blocking.Group(config))
            stack.callback(members[-1].leave, 0.0)
        for member in members:
            joining.wait_complete(member._engine)
        yield members


@asynccontextmanager
async def with_two_others(
    way: Way, **settings: Any
) -> AsyncIterator[tuple[semcast.Group, semcast.blocking.Group, semcast.blocking.Group]]:
    """An asyncio member "a", and two others in threads."""
    given = common("abc") | way_settings(way) | {"group": new_group()} | settings
    others: list[semcast.blocking.Group] = []
    try:
        for name in "bc":
            peers = [] if way.kind == "multicast" else [address_of(one) for one in others]
            config = configure(given | {"name": name, "peers": peers})
            others.append(semcast.blocking.Group(config))
        peers = [] if way.kind == "multicast" else [address_of(one) for one in others]
        async with semcast.join(given.pop("group"), name="a", **given, peers=peers) as a:
            for other in others:
                await asyncio.to_thread(joining.wait_complete, other._engine)
            yield a, others[0], others[1]
    finally:
        for other in others:
            await asyncio.to_thread(other.leave, 0.0)


def take(group: semcast.blocking.Group, count: int) -> list[Message]:
    """Exactly so many messages; fails after a deadline."""
    got: list[Message] = []
    give_up_s = time.monotonic() + DEADLINE_S
    while len(got) < count:
        left_s = give_up_s - time.monotonic()
        assert left_s > 0, f"{len(got)} of {count} messages came to {group.name}"
        with suppress(TimeoutError):
            got += group.receive_many(count - len(got), left_s)
    return got


def quiet(group: semcast.blocking.Group) -> bool:
    """Whether nothing waits here."""
    try:
        group.receive_many(1, 0.0)
    except TimeoutError:
        return True
    return False


# -- in processes of their own ---------------------------------------------------------------------


class NodeError(Exception):
    """What a node answered instead: the error's name and its text."""


class Node:
    """One process with one member in it; see `node` for what it can be told."""

    def __init__(self, name: str, netns: str = "") -> None:
        self.name = name
        self.address = ""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the node)
        prefix = ["ip", "netns", "exec", netns, *LIKE_A_USER] if netns else []
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "tests.live.node"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=ROOT,
        )
        self._rest = b""

    def start(self, do: str, **arguments: Any) -> None:
        """Tell it to do something; `finish` has the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        self.process.stdin.flush()

    def finish(self, seconds: float = 2 * DEADLINE_S) -> Any:
        """The answer to what was started."""
        assert self.process.stdout is not None
        give_up_s = time.monotonic() + seconds
        fileno = self.process.stdout.fileno()
        while b"\n" not in self._rest:
            left_s = max(0.0, give_up_s - time.monotonic())
            ready = select.select([fileno], [], [], left_s)[0]
            assert ready, f"{self.name} does not answer in {seconds:g} s; {self.errors()}"
            more = os.read(fileno, 1 << 20)
            assert more, f"{self.name} has ended; {self.errors()}"
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        answer = json.loads(line)
        if "error" in answer:
            raise NodeError(f"{self.name}: {answer['error']}: {answer['text']}")
        return answer["ok"]

    def has_answered(self) -> bool:
        """Whether there is an answer to what was started."""
        assert self.process.stdout is not None
        return bool(self._rest or select.select([self.process.stdout], [], [], 0)[0])

    def call(self, do: str, **arguments: Any) -> Any:
        """Tell it to do something, and wait for the answer."""
        self.start(do, **arguments)
        return self.finish()

    def errors(self) -> str:
        """The end of what it wrote to stderr."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-2000:]

    def pause(self) -> None:
        """SIGSTOP, and wait until it has stopped."""
        self.process.send_signal(signal.SIGSTOP)
        stat = Path(f"/proc/{self.process.pid}/stat")
        wait_until(lambda: ") T " in stat.read_text(), f"{self.name} stops")

    def resume(self) -> None:
        """SIGCONT."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL: it ends without a word."""
        self.process.kill()
        self.process.wait(DEADLINE_S)

    def close(self) -> None:
        self.kill()
        for stream in (self.process.stdin, self.process.stdout, self._errors):
            assert stream is not None
            with suppress(OSError):
                stream.close()


class Nodes:
    """A complete group, each member in a process of its own; use as a context."""

    def __init__(self, way: Way, names: Sequence[str] = "abc", **settings: Any) -> None:
        self.way = way
        self.names = names
        self.nodes: dict[str, Node] = {}
        self._settings = common(names) | way_settings(way) | {"group": new_group()} | settings
        self._stack = ExitStack()

    @property
    def group(self) -> str:
        """What the group is called."""
        return str(self._settings["group"])

    def __enter__(self) -> Self:
        try:
            for name in self.names:
                self.spawn(name)
            self.meet()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes."""
        self._stack.close()

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes.values())

    def spawn(self, name: str) -> Node:
        """A process for this member, which takes the place of the former one if there is one."""
        node = Node(name, self.netns_of(name))
        self._stack.callback(node.close)
        self.nodes[name] = node
        return node

    def netns_of(self, name: str) -> str:  # noqa: ARG002
        """The network namespace that a member lives in; by default that of the test."""
        return ""

    def meet(self, **settings: Any) -> None:
        """Come together, in a group of these settings; also after all have left another one."""
        self._settings |= settings
        for node in self:
            node.address = ""
        for name in self.names:
            self.begin(name)
        for node in self:
            node.start("complete")
        for node in self:
            node.finish()

    def settings_of(self, name: str) -> dict[str, Any]:
        """What only one member is told: where the others are, if it needs to know."""
        if self.way.kind == "multicast":
            return {}
        return {"peers": [node.address for node in self if node.address and node.name != name]}

    def begin(self, name: str, **settings: Any) -> None:
        """Let a member look for the others."""
        given = self._settings | self.settings_of(name) | {"name": name} | settings
        self.nodes[name].address = self.nodes[name].call("begin", settings=given)

    def restart(self, name: str, ahead_s: float = 0.0, **settings: Any) -> Node:
        """The same member in another process, whose clock may be wrong."""
        node = self.spawn(name)
        if ahead_s:
            node.call("clock", ahead_s=ahead_s)
        self.begin(name, **settings)
        node.call("complete")
        return node


def payloads(collected: Sequence[Sequence[Any]], sender: str = "") -> list[str]:
    """The payloads of what a node received, of one sender or of all."""
    return [one[4] for one in collected if not sender or one[0] == sender]


def has_event(node: Node, kind: str, member: str = "") -> bool:
    """Whether a node has seen such an event, of one member or of anybody."""
    return any(
        event["kind"] == kind and (not member or event["member"] == member)
        for event in node.call("events")
    )
