"""Peers by name: a name of several addresses is all of them, and one of none hinders nobody."""

import logging
import socket
from collections.abc import Callable
from typing import Any

import pytest
from tests.live.company import joined
from tests.live.groups import free_port
from tests.live.processes import new_group

import semcast.blocking
from semcast.errors import ConfigError, TransportError
from semcast.live.meeting.joining import resolve

HOSTS = {"a": "127.0.0.1", "b": "127.0.0.2", "c": "127.0.0.3"}
Names = dict[str, list[str]]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """A name server that knows these names alone; numbers need none."""
    known: Names = {}
    real: Callable[..., Any] = socket.getaddrinfo

    def look_up(host: str, *more: Any) -> Any:
        if host[0].isdecimal() or ".." in host:  # which is no name that anybody could be asked
            return real(host, *more)
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [answer for one in known[host] for answer in real(one, *more)]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return known


def unicast(port: int, peers: list[str]) -> dict[str, Any]:
    """Everybody at the same port of another address; only a knows where the others are."""
    own: dict[str, Any] = {name: {"host": host} for name, host in HOSTS.items()}
    own["a"] |= {"peers": peers}
    return {"transport": "unicast", "port": port, **own}


def assert_joins(settings: dict[str, Any]) -> None:
    with joined(list(HOSTS), **settings) as group:
        group["a"].send(b"hello")
        for member in group.values():
            assert member.receive(timeout=60).payload == b"hello"


def test_a_group_meets_by_one_name_that_is_the_addresses_of_several(names: Names) -> None:
    """Each of them is needed: b and c know nobody."""
    port = free_port(*HOSTS.values())
    names["feed.test"] = [HOSTS["b"], HOSTS["c"]]
    assert resolve([f"feed.test:{port}"], ipv6=False) == [("127.0.0.2", port), ("127.0.0.3", port)]
    assert_joins(unicast(port, [f"feed.test:{port}"]))


def test_one_unknown_name_among_several_is_a_warning(
    names: Names, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port(*HOSTS.values())
    names["feed.test"] = [HOSTS["b"], HOSTS["c"]]
    with caplog.at_level(logging.WARNING, "semcast"):
        assert_joins(unicast(port, ["gone.test:7400", f"feed.test:{port}", "no..name:1"]))
    told = [one for one in caplog.records if "has no address" in one.getMessage()]
    assert [one.__dict__["semcast"]["peer"] for one in told] == ["gone.test:7400", "no..name:1"]
    assert "'gone.test:7400' has no address: Name or service not known" in told[0].getMessage()


@pytest.mark.usefixtures("names")
def test_if_all_names_are_unknown_that_is_one_line_and_nobody_waits() -> None:
    """Not a question of time: with no address to try, it would never end otherwise."""
    with pytest.raises(TransportError, match=r"gone\.test.*lost\.test") as caught:
        semcast.blocking.join(
            new_group(), name="a", size=2, insecure=True, transport="unicast", host="127.0.0.1",
            peers=["gone.test:1", "lost.test:2"], join_timeout_s=3600.0,
        )  # fmt: skip
    assert "\n" not in str(caught.value)


def test_a_peer_that_is_no_address_is_told_before_any_is_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Looking up may take long, and a mistake is one whatever comes of it."""
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: pytest.fail("looked up"))
    with pytest.raises(ConfigError, match="'nonsense'; say host:port"):
        resolve(["feed.test:7400", "nonsense"], ipv6=False)
