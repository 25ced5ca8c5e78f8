"""A quote feed and subscribers that come and go: python examples/subscribers.py

The feed sends 2,000 quotes a second of 5,000 symbols. Ten subscribers come and go, two of them
slow. Each first gets the quote of every symbol, then what is new; nobody waits for the slow ones.
"""

import asyncio
import random
import secrets
import sys
import uuid

import semcast

SYMBOLS = [f"SYM{number:04}" for number in range(5000)]
SETTINGS = semcast.Settings(
    secret=secrets.token_hex(16), reliability="sender", interface="lo", join_timeout_s=60
)


async def feed(name: str) -> None:
    """Every symbol once, then quotes at random."""
    prices, own = random.Random(1), semcast.Settings(name="feed", deliver_own=False)
    async with semcast.join(name, **(SETTINGS | own)) as group:
        await group.send_many([b"100.00"] * len(SYMBOLS), SYMBOLS)
        while True:
            for _ in range(20):
                await group.send(b"%.2f" % prices.uniform(90, 110), prices.choice(SYMBOLS))
            await asyncio.sleep(0.01)


async def subscriber(name: str, number: int, until_s: float) -> str:
    """Come, take quotes for a while, and go; then come again. The quick know every symbol then."""
    now_s, draw, slow = asyncio.get_running_loop().time, random.Random(number), number < 2
    said: list[int] = []
    own = semcast.Settings(name=f"sub{number}" + " (slow)" * slow, role="reader")
    while not said or now_s() < until_s:
        known: dict[bytes, bytes] = {}
        async with semcast.join(name, **(SETTINGS | own)) as group:
            goes_s = now_s() + draw.uniform(0.5, 2)
            while now_s() < goes_s or (len(known) < len(SYMBOLS) and not slow):
                for message in await group.receive_many(10 if slow else 1000):
                    known[message.key] = message.payload
                await asyncio.sleep(0.02 if slow else 0)
        said.append(len(known))
    return f"{own['name']}: came {len(said)} times, and knew {said} symbols in the end"


async def main(seconds: float) -> None:
    name = f"quotes-{uuid.uuid4().hex[:8]}"
    until_s = asyncio.get_running_loop().time() + seconds
    quotes = asyncio.create_task(feed(name))
    print(*await asyncio.gather(*(subscriber(name, one, until_s) for one in range(10))), sep="\n")
    quotes.cancel()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 6.0))
