"""An auction among many (PSRM §2.4): python examples/auction.py

A higher bid replaces a lower one, whoever made it, wherever that still waits. So bids that no
longer matter are the first to go where links are slow; who won is told to all. It is by gossip.
"""

import asyncio
import contextlib
import random
import secrets
import sys
import uuid

import semcast
from semcast.obsolescence import Ranked

KEY = secrets.token_hex(16)
SETTINGS: semcast.Settings = {"secret": KEY, "reliability": "gossip", "interface": "lo"}


async def bidder(name: str, number: int, goes_s: float, said: dict[str, tuple[str, int]]) -> None:
    """Bid more than the best bid so far, now and then, until the lamp is sold."""
    draw, who, seen, best = random.Random(number), f"bidder{number}", 0, 0
    own: semcast.Settings = {"name": who}
    async with semcast.join(name, **(SETTINGS | own)) as group:
        while who not in said:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(draw.uniform(0.01, 0.1)):
                    message = await group.receive()
                    seen += 1
                    if message.key:
                        best = max(best, int(message.payload.split()[0]))
                    else:
                        said[who] = (message.payload.decode(), seen)
                    continue
            if asyncio.get_running_loop().time() < goes_s:
                best += draw.randrange(1, 20)
                await group.send(b"%d %s" % (best, who.encode()), Ranked("lamp", best))


async def main(seconds: float, bidders: int = 10) -> None:
    name, said, best = f"auction-{uuid.uuid4().hex[:8]}", dict[str, tuple[str, int]](), b"0"
    own: semcast.Settings = {"name": "auctioneer"}
    async with semcast.join(name, **(SETTINGS | own)) as group:
        goes_s = asyncio.get_running_loop().time() + seconds
        bids = [asyncio.create_task(bidder(name, n, goes_s, said)) for n in range(bidders)]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds + 2):
                while True:  # the last bids are still under way for a while
                    bid = (await group.receive()).payload
                    best = bid if int(bid.split()[0]) > int(best.split()[0]) else best
        await group.send(b"sold for " + best)
        await asyncio.gather(*bids)
    for who, (sold, seen) in sorted(said.items()):
        print(f"{who} saw {seen} messages, and at last: {sold}")


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 3.0))
