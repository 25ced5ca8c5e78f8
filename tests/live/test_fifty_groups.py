"""Many real groups in one process: one thread, few sockets, and nobody starves another."""

import asyncio
import gc
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.live.groups import (
    DEADLINE_S,
    common,
    meeting,
    new_group,
    take,
    wait_until,
    way_settings,
    with_two_others,
)
from tests.live.material import Way

import semcast.blocking
from semcast.errors import GroupClosedError
from semcast.live.config import configure
from semcast.live.host import hosting
from semcast.live.meeting import joining

GROUPS = 50
KINDS = ["multicast", "unicast"]
# Of each further group: what hears its multicasts, and what sends them; see docs/design/transport.
SOCKETS_PER_MEMBER = {"multicast": 2, "unicast": 0}

Group = semcast.blocking.Group


def engine_threads() -> int:
    return sum(one.name == "semcast" for one in threading.enumerate())


def open_sockets() -> int:
    count = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            count += str(link.readlink()).startswith("socket:")
    return count


@contextmanager
def groups_of_two(way: Way, count: int, **settings: Any) -> Iterator[list[list[Group]]]:
    """So many complete groups, whose members are both here."""
    with ExitStack() as stack:
        yield [stack.enter_context(meeting(way, "ab", **settings)) for _ in range(count)]


@pytest.mark.parametrize("kind", KINDS)
def test_fifty_groups_have_one_thread_and_few_sockets_and_each_delivers(kind: str) -> None:
    gc.collect()
    threads, sockets = set(threading.enumerate()), open_sockets()
    small = {"receive_buffer_bytes": 200_000, "send_buffer_bytes": 100_000}
    with groups_of_two(Way(kind, ipv6=False), GROUPS, deliver_own=False, **small) as groups:
        assert engine_threads() == 1
        # Threads of tests before this one may just be ending, so only new ones are counted.
        assert len(set(threading.enumerate()) - threads) == 1
        # A port for all members called a, and one for all called b.
        expected = 2 + 2 * GROUPS * SOCKETS_PER_MEMBER[kind]
        assert open_sockets() - sockets <= expected
        addresses = {one._engine.session.transport.address for pair in groups for one in pair}
        assert len(addresses) == 2
        for number, (a, b) in enumerate(groups):
            a.send(b"to %d" % number)
            b.send(b"back from %d" % number)
        for number, (a, b) in enumerate(groups):
            assert [one.payload for one in take(b, 1)] == [b"to %d" % number]
            assert [one.payload for one in take(a, 1)] == [b"back from %d" % number]
        for a, b in groups:
            assert a.stats()["datagrams_in"] > 0
            assert a.stats()["refused_group"] == b.stats()["refused_group"] == 0
    wait_until(lambda: set(threading.enumerate()) <= threads, "the thread ends")
    wait_until(lambda: open_sockets() <= sockets, "all sockets are closed")
    assert not hosting._hosts


def refused(group: Group) -> int:
    return sum(int(n) for name, n in group.stats().items() if name.startswith("refused_"))


def test_what_comes_for_no_group_here_is_counted_once_and_harms_none() -> None:
    with groups_of_two(Way("unicast", ipv6=False), 3, deliver_own=False) as groups:
        firsts = [a for a, _ in groups]
        address = firsts[0]._engine.session.transport.address
        assert all(one._engine.session.transport.address == address for one in firsts)
        before = sum(map(refused, firsts))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for size in (0, 3, 11, 12, 40, 1000):
                stranger.sendto(b"\1" * size, address)
        wait_until(lambda: sum(map(refused, firsts)) == before + 6, "each is refused once")
        for a, b in groups:
            b.send(b"x")
            assert a.receive(DEADLINE_S).payload == b"x"
        assert sum(map(refused, firsts)) == before + 6


def test_groups_of_both_kinds_of_applications_go_on_side_by_side() -> None:
    """Blocking threads, and asyncio, in one process."""

    async def run() -> None:
        way = Way("multicast", ipv6=False)
        async with with_two_others(way) as (a, b, _), with_two_others(way) as (other, c, _):
            readers = [asyncio.create_task(asyncio.to_thread(take, one, 20)) for one in (b, c)]
            for number in range(20):
                await a.send(b"%d" % number)
                await other.send(b"other %d" % number)
                assert (await asyncio.wait_for(a.receive(), DEADLINE_S)).payload == b"%d" % number
            got = [[message.payload for message in await reader] for reader in readers]
            assert got[0] == [b"%d" % number for number in range(20)]
            assert got[1] == [b"other %d" % number for number in range(20)]
            assert engine_threads() == 1

    asyncio.run(run())


# -- nobody starves another ------------------------------------------------------------------------


class Flood:
    """A thread that sends in one group, as much as it can, until it is stopped."""

    def __init__(self, group: Group) -> None:
        self.sent = 0
        self._group = group
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def _send(self) -> None:
        while not self._stopped.is_set():
            # All of it is replaced, so no reader can stop it.
            self._group.send(b"x" * 50, replaces="key")
            self.sent += 1

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), "the flood hangs"


@contextmanager
def flooding(group: Group) -> Iterator[Flood]:
    flood = Flood(group)
    try:
        wait_until(lambda: flood.sent > 100, "it floods")
        yield flood
    finally:
        flood.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_a_flood_in_one_group_leaves_another_its_turns(kind: str) -> None:
    """Nobody reads what is flooded, either: that is a slow reader, too."""
    with (
        groups_of_two(Way(kind, ipv6=False), 2, deliver_own=False) as (flooded, (a, b)),
        flooding(flooded[0]) as flood,
    ):
        rounds = 50
        before = flood.sent
        for number in range(rounds):
            a.send(b"%d" % number)
            assert b.receive(DEADLINE_S).payload == b"%d" % number
            b.send(b"back %d" % number)
            assert a.receive(DEADLINE_S).payload == b"back %d" % number
        # Both go on: messages went to and fro, and the flood is not stopped for good. On a busy
        # machine all rounds may fit between two turns of its thread, so this waits for one.
        wait_until(lambda: flood.sent > before, "the flood goes on")


def test_of_two_floods_neither_shuts_out_the_other() -> None:
    """A plain lock goes to the one that has just let go of it."""
    way = Way("multicast", ipv6=False)
    with (
        groups_of_two(way, 2, deliver_own=False) as (one, other),
        flooding(one[0]) as first,
        flooding(other[0]) as second,
    ):
        before = first.sent, second.sent
        wait_until(
            lambda: min(first.sent - before[0], second.sent - before[1]) > 5_000, "both go on"
        )


def test_a_reader_that_takes_nothing_stops_its_own_group_and_no_other() -> None:
    tight: dict[str, Any] = {"window_messages": 8, "delivery_messages": 4, "deliver_own": False}
    with groups_of_two(Way("multicast", ipv6=False), 2, **tight) as ((stuck, slow), (a, b)):
        sent = stuck.send_many([b"never replaced"] * 100, timeout=0.2)
        assert sent < 100, "it is stopped by its slow reader"
        for number in range(100):
            a.send(b"%d" % number, timeout=DEADLINE_S)
            assert b.receive(DEADLINE_S).payload == b"%d" % number
        assert len(take(slow, sent)) == sent


def test_many_threads_wait_for_many_groups_and_each_gets_its_own() -> None:
    count, messages = 8, 30
    with groups_of_two(Way("multicast", ipv6=False), count, deliver_own=False) as groups:
        got: list[list[bytes]] = [[] for _ in groups]

        def read(number: int) -> None:
            got[number] = [one.payload for one in take(groups[number][1], messages)]

        readers = [threading.Thread(target=read, args=(number,)) for number in range(count)]
        for reader in readers:
            reader.start()
        for at in range(messages):
            for number, (a, _) in enumerate(groups):
                a.send(b"%d of %d" % (at, number))
        for reader in readers:
            reader.join(DEADLINE_S)
        for number in range(count):
            assert got[number] == [b"%d of %d" % (at, number) for at in range(messages)]


# -- the worst -------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_host_that_breaks_ends_its_groups_and_the_next_one_has_another() -> None:
    way = Way("unicast", ipv6=False)
    with groups_of_two(way, 2) as groups:
        members = [one for pair in groups for one in pair]
        host = members[0]._engine.host
        host._inlets.close()  # as a bug of ours might
        wait_until(lambda: all(one.closed for one in members), "all are ended")
        for one in members:
            with pytest.raises(GroupClosedError, match="failed"):
                one.receive(DEADLINE_S)
        with groups_of_two(way, 1, deliver_own=False) as ((a, b),):
            assert a._engine.host is not host
            a.send(b"x")
            assert b.receive(DEADLINE_S).payload == b"x"
    assert not hosting._hosts


# -- forks -----------------------------------------------------------------------------------------


def child_joins(parents: list[Group], link: socket.socket) -> None:
    """In a forked child: its parent's groups are closed, and it can join one of its own."""
    for group in parents:
        try:
            group.send(b"x")
        except GroupClosedError:
            continue
        os._exit(1)
    alone = common("c") | way_settings(Way("unicast", ipv6=False)) | {"name": "c"}
    with semcast.blocking.Group(configure(alone | {"group": new_group()})) as own:
        joining.wait_complete(own._engine)
        own.send(b"of the child")
        if own.receive(DEADLINE_S).payload != b"of the child" or engine_threads() != 1:
            os._exit(2)
    link.send(b"ok")
    os._exit(0)


def test_a_forked_child_has_a_host_of_its_own_and_its_parents_goes_on() -> None:
    here, there = socket.socketpair()
    with here, there, groups_of_two(Way("multicast", ipv6=False), 3) as groups:
        child = os.fork()
        if child == 0:
            try:
                child_joins([one for pair in groups for one in pair], there)
            finally:
                os._exit(3)
        try:
            here.settimeout(DEADLINE_S)
            assert here.recv(10) == b"ok"
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        for number, (a, b) in enumerate(groups):
            a.send(b"%d" % number)
            assert b.receive(DEADLINE_S).payload == b"%d" % number
            assert not [event for event in a.past_events() if event.kind == "left"]
        assert engine_threads() == 1


def test_groups_that_are_forgotten_leave_and_others_go_on() -> None:
    way = Way("unicast", ipv6=False)
    with groups_of_two(way, 1, deliver_own=False) as ((a, b),):
        for _ in range(5):
            alone = common("x") | way_settings(way) | {"name": "x", "group": new_group()}
            forgotten = Group(configure(alone))
            engine = forgotten._engine
            del forgotten
            gc.collect()
            wait_until(lambda engine=engine: engine.seat.closing, "it leaves")  # type: ignore[misc]
            a.send(b"x")
            assert b.receive(DEADLINE_S).payload == b"x"
