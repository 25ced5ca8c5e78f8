"""A payload that is no bytes is refused before anything is sent: in groups and in federations, by
asyncio and for threads, and in the same words whether semcast is compiled or not.
"""

import asyncio
from typing import Any

import pytest
from tests.live.groups import SECRET, new_group

import semcast
import semcast.blocking

ALONE: dict[str, Any] = {
    "name": "a", "secret": SECRET, "transport": "unicast", "host": "127.0.0.1",
}  # fmt: skip
refused = pytest.mark.parametrize(
    ("payload", "told"),
    [
        ("text", r"^bytes object expected; got str$"),
        (bytearray(b"x"), r"^bytes object expected; got bytearray$"),
        (7, r"^bytes object expected; got int$"),
    ],
)


@refused
def test_a_group_refuses_it(payload: Any, told: str) -> None:
    with semcast.blocking.join(new_group(), size=1, **ALONE) as group:
        for send in (group.send, group.send_nowait):
            for replaces in (None, "key"):
                with pytest.raises(TypeError, match=told):
                    send(payload, replaces)
        assert group.stats()["multicast"] == 0
        assert group.send(b"1") == 1
        assert group.receive(timeout=60.0).payload == b"1"


@refused
def test_a_group_refuses_it_in_asyncio(payload: Any, told: str) -> None:
    async def run() -> None:
        async with semcast.join(new_group(), size=1, **ALONE) as group:
            with pytest.raises(TypeError, match=told):
                await group.send(payload)
            with pytest.raises(TypeError, match=told):
                group.send_nowait(payload, "key")
            assert group.stats()["multicast"] == 0
            assert await group.send(b"1") == 1
            assert (await group.receive()).payload == b"1"

    asyncio.run(run())


@refused
def test_a_federation_refuses_it(payload: Any, told: str) -> None:
    with semcast.blocking.federate(new_group(), groups=("alpha",), **ALONE) as site:
        for send in (site.send, site.send_nowait):
            for replaces in (None, "key"):
                with pytest.raises(TypeError, match=told):
                    send("alpha", payload, replaces)
        assert site.send("alpha", b"1") == 1
        assert site.receive(timeout=60.0).payload == b"1"


@refused
def test_a_federation_refuses_it_in_asyncio(payload: Any, told: str) -> None:
    async def run() -> None:
        async with semcast.federate(new_group(), groups=("alpha",), **ALONE) as site:
            with pytest.raises(TypeError, match=told):
                await site.send("alpha", payload)
            with pytest.raises(TypeError, match=told):
                site.send_nowait("alpha", payload, "key")
            assert await site.send("alpha", b"1") == 1
            assert (await site.receive()).payload == b"1"

    asyncio.run(run())
