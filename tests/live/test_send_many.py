"""Many messages at once: what cannot be sent as it was asked is refused before any is sent."""

import asyncio
from typing import Any

import pytest
from tests.live.groups import common, meeting, new_group, take, way_settings
from tests.live.material import Way

import semcast
from semcast.errors import LocalProtocolError

WAY = Way("unicast", ipv6=False)
PAYLOADS = [b"1", b"2", b"3"]
WRONG: list[tuple[Any, Any, str]] = [
    (PAYLOADS, ["key"], "3 payloads and 1 entry of replaces"),
    (PAYLOADS, ["key", None], "3 payloads and 2 entries of replaces"),
    (PAYLOADS, [], "3 payloads and 0 entries of replaces"),
    (PAYLOADS, ("key",) * 4, "3 payloads and 4 entries of replaces"),
    ([], ["key"], "0 payloads and 1 entry of replaces"),
    # A text is a sequence as well, but never meant as one.
    (PAYLOADS, "key", "replaces is one key"),
    (PAYLOADS, b"key", "replaces is one key"),
    (b"123", None, "payloads is one payload"),
    ("123", None, "payloads is one payload"),
    ([b"1", "2"], None, "payload 1 is a str"),
    ([b"1", b"2", bytearray(b"3")], ["key"] * 3, "payload 2 is a bytearray"),
    ([b"1", None], None, "payload 1 is a NoneType"),
]
wrong = pytest.mark.parametrize(
    ("payloads", "replaces", "told"), WRONG, ids=[told for _, _, told in WRONG]
)


@wrong
def test_what_does_not_fit_together_is_refused_and_nothing_is_sent(
    payloads: Any, replaces: Any, told: str
) -> None:
    with meeting(WAY, ("a",)) as (a,):
        with pytest.raises(LocalProtocolError, match=told):
            a.send_many(payloads, replaces)
        assert a.stats()["multicast"] == 0
        assert a.send_many(PAYLOADS, ["key", None, "key"]) == 3
        assert [one.payload for one in take(a, 2)] == [b"2", b"3"]


@wrong
def test_asyncio_refuses_it_too(payloads: Any, replaces: Any, told: str) -> None:
    async def run() -> None:
        async with semcast.join(new_group(), name="a", **common("a"), **way_settings(WAY)) as a:
            with pytest.raises(LocalProtocolError, match=told):
                await a.send_many(payloads, replaces)
            assert a.stats()["multicast"] == 0
            assert await a.send_many(tuple(PAYLOADS), ("key", None, "key")) == 3

    asyncio.run(run())
