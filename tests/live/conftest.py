"""The four ways to reach a group, each on loopback."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.live.material import Way, closing
from tests.live.namespace import own_loopback, unavailable

from semcast.errors import TransportError
from semcast.live.sockets.transport import TransportSettings, open_transport

WAYS = [("multicast", False), ("multicast", True), ("unicast", False), ("unicast", True)]


@pytest.fixture(params=WAYS, ids=lambda way: f"{way[0]}-{'ipv6' if way[1] else 'ipv4'}")
def way(request: pytest.FixtureRequest) -> Iterator[Way]:
    """Every test that asks for this runs once for each way."""
    with ExitStack() as stack:
        yield stack.enter_context(closing(usable(Way(*request.param), stack)))


@pytest.fixture(params=[False, True], ids=["ipv4", "ipv6"])
def multicast(request: pytest.FixtureRequest) -> Iterator[Way]:
    with ExitStack() as stack:
        yield stack.enter_context(closing(usable(Way("multicast", request.param), stack)))


@pytest.fixture(params=[False, True], ids=["ipv4", "ipv6"])
def unicast(request: pytest.FixtureRequest) -> Iterator[Way]:
    with ExitStack() as stack:
        yield stack.enter_context(closing(usable(Way("unicast", request.param), stack)))


def usable(way: Way, stack: ExitStack) -> Way:
    """Loopback as it is, if it can do that; else a loopback of our own, or a skip."""
    settings = TransportSettings(transport=way.kind, ipv6=way.ipv6, interface="lo", group_id=1)
    try:
        open_transport(settings).close()
    except TransportError:
        stack.enter_context(own_loopback())
        try:
            open_transport(settings).close()
        except TransportError as error:
            unavailable(str(error))
    return way
