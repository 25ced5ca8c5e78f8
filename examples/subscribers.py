"""A quote feed and subscribers that come and go: python examples/subscribers.py

The feed sends 2,000 quotes a second of 5,000 symbols. Ten subscribers come and go, two of them
slow. Each first gets the quote of every symbol, then what is new; nobody waits for the slow ones.
"""

import asyncio
import contextlib
import random
import secrets
import sys
import uuid

import semcast

SYMBOLS = [f"SYM{number:04}" for number in range(5000)]
SETTINGS: semcast.Settings = {
    "secret": secrets.token_hex(16), "reliability": "sender", "interface": "lo",
}  # fmt: skip


async def feed(name: str, until_s: float) -> None:
    """Every symbol once, then quotes at random."""
    prices, own = random.Random(1), semcast.Settings(name="feed", deliver_own=False)
    async with semcast.join(name, **(SETTINGS | own)) as group:
        await group.send_many([b"100.00"] * len(SYMBOLS), SYMBOLS)
        while asyncio.get_running_loop().time() < until_s:
            for _ in range(20):
                await group.send(b"%.2f" % prices.uniform(90, 110), prices.choice(SYMBOLS))
            await asyncio.sleep(0.01)


async def subscriber(name: str, number: int, until_s: float, said: dict[str, list[int]]) -> None:
    """Come, take quotes for a while, and go; then come again."""
    loop, draw, slow = asyncio.get_running_loop(), random.Random(number), number < 2
    own = semcast.Settings(name=f"sub{number}" + " (slow)" * slow, role="reader")
    while loop.time() < until_s - 1:
        known: dict[bytes, bytes] = {}
        async with semcast.join(name, **(SETTINGS | own)) as group:
            goes_s = min(until_s, loop.time() + draw.uniform(1, 3))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(goes_s):
                    while True:
                        for message in await group.receive_many(10 if slow else 1000):
                            known[message.key] = message.payload
                        await asyncio.sleep(0.02 if slow else 0)
        said.setdefault(own["name"], []).append(len(known))


async def main(seconds: float) -> None:
    name, said = f"quotes-{uuid.uuid4().hex[:8]}", dict[str, list[int]]()
    until_s = asyncio.get_running_loop().time() + seconds
    readers = [subscriber(name, number, until_s, said) for number in range(10)]
    await asyncio.gather(feed(name, until_s), *readers)
    for who in sorted(said):
        print(f"{who}: came {len(said[who])} times, and knew {said[who]} symbols in the end")


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 6.0))
