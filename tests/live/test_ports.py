"""Sockets that groups share: who gets which, and that the last one closes it."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.live.groups import free_port
from tests.live.material import collect

from semcast.errors import TransportError
from semcast.live.sockets.datagrams import Transport
from semcast.live.sockets.options import TransportSettings
from semcast.live.sockets.ports import Ports
from semcast.live.sockets.transport import open_transport

HERE = "127.0.0.1"


class Opener:
    """Opens transports that share ports, and closes them in the end."""

    def __init__(self, stack: ExitStack) -> None:
        self.ports = Ports()
        self._stack = stack

    def open(self, group_id: int, **given: object) -> Transport:
        settings = {"transport": "unicast", "host": HERE, "group_id": group_id} | given
        made = open_transport(TransportSettings(**settings), ports=self.ports)  # type: ignore[arg-type]
        self._stack.callback(made.close)
        return made


@pytest.fixture
def opener() -> Iterator[Opener]:
    with ExitStack() as stack:
        yield Opener(stack)


@pytest.mark.parametrize("kind", ["unicast", "multicast"])
def test_groups_that_are_bound_alike_share_a_port_and_members_of_one_group_do_not(
    kind: str, opener: Opener
) -> None:
    given = {"transport": kind} | ({"interface": "lo", "host": ""} if kind == "multicast" else {})
    a, b, again, c = (opener.open(group_id, **given) for group_id in (1, 2, 1, 3))
    assert a.address == b.address == c.address
    assert again.address != a.address
    other = opener.open(2, **given)
    assert other.address == again.address, "the second port is shared too"


@pytest.mark.parametrize("changed", [{"host": "127.0.0.2"}, {"receive_buffer_bytes": 100_000}])
def test_groups_that_are_bound_otherwise_have_a_port_of_their_own(
    changed: dict[str, object], opener: Opener
) -> None:
    assert opener.open(1).address != opener.open(2, **changed).address


def test_multicasts_that_go_further_leave_by_another_port(opener: Opener) -> None:
    near, far = (
        opener.open(1 + ttl, transport="multicast", interface="lo", host="", ttl=ttl)
        for ttl in (1, 2)
    )
    assert near.address != far.address


def test_a_port_that_was_asked_for_is_shared_by_groups_and_refused_to_a_second_member(
    opener: Opener,
) -> None:
    port = free_port(HERE)
    assert opener.open(1, port=port).address == opener.open(2, port=port).address == (HERE, port)
    with pytest.raises(TransportError, match=f"cannot bind {HERE} port {port}"):
        opener.open(1, port=port)
    # And what was refused has closed nothing that others have.
    a, b = opener.open(3, port=port), opener.open(4)
    b.send((HERE, port), [b"still there"])
    assert collect(a, 1) == [(b"still there", b.address)]


def test_a_port_stays_open_until_its_last_group_leaves_it(opener: Opener) -> None:
    a, b = opener.open(1), opener.open(2)
    probe = opener.open(3, host="127.0.0.2")
    a.close()
    a.close()  # harmless
    probe.send(b.address, [b"for b"])
    assert collect(b, 1) == [(b"for b", probe.address)]
    again = opener.open(1)
    assert again.address == b.address
    fileno = b.filenos()[0]
    b.close()
    again.close()
    assert again.filenos()[0] == -1 != fileno
    assert not opener.ports._open[1:], "only the probe's is open"


def test_each_of_several_groups_multicasts_from_the_shared_address(opener: Opener) -> None:
    """Each has a connected socket of its own for that."""
    given = {"transport": "multicast", "interface": "lo", "host": ""}
    groups = range(1, 6)
    first = [opener.open(group_id, **given) for group_id in groups]
    second = [opener.open(group_id, **given) for group_id in groups]
    for group_id, one in zip(groups, first, strict=True):
        one.send_all([b"to group %d" % group_id])
    for group_id, one in zip(groups, second, strict=True):
        assert collect(one, 1) == [(b"to group %d" % group_id, first[0].address)]
    assert len({one.address for one in first}) == 1
    first[0].close()
    first[1].send_all([b"more"])
    assert collect(second[1], 1) == [(b"more", first[1].address)]
