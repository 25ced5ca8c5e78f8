"""Publish and subscribe where almost everybody wants almost everything: python examples/pubsub.py

Ten processes publish readings of twenty sensors, and alarms. Each subscribes to most sensors, by a
prefix of their names (`only`). Nobody keeps a list of subscribers: messages travel by gossip, and
whoever does not want one still passes it on. A reading replaces the last one of its sensor; alarms
are never replaced, so almost all arrive even if links are too slow for all readings.
"""

import asyncio
import contextlib
import random
import secrets
import sys
import uuid

import semcast

SETTINGS: semcast.Settings = {
    "secret": secrets.token_hex(16), "reliability": "gossip", "interface": "lo",
    "relay_bytes_s": 20_000, "relay_messages": 20,
}  # fmt: skip
TOPICS = [f"{room}/{number}" for room in ("hall", "roof") for number in range(10)]


async def process(name: str, number: int, until_s: float) -> tuple[int, int, int, list[bytes]]:
    """Publish, and take what is wanted. Returns how much, of what, what was skipped, all alarms."""
    draw, loop = random.Random(number), asyncio.get_running_loop()
    wants = ("hall", "roof") if number % 3 else ("hall",)
    taken, skipped, topics, alarms = 0, 0, set[bytes](), list[bytes]()
    own: semcast.Settings = {"name": f"p{number}"}
    async with semcast.join(name, only=wants, **(SETTINGS | own)) as group:
        await asyncio.sleep(2)  # all are there
        await group.send(b"alarm of p%d" % number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until_s):
                while True:
                    if loop.time() < until_s - 2:
                        for topic in draw.sample(TOPICS, 5):
                            await group.send(b"%.1f" % draw.uniform(10, 30), replaces=topic)
                    for message in await group.receive_many(1000):
                        taken, skipped = taken + 1, skipped + len(message.skipped)
                        topics.update([message.key] if message.key else [])
                        alarms += [] if message.key else [message.payload]
                    await asyncio.sleep(0.05)
    return taken, len(topics), skipped, alarms


async def main(seconds: float) -> None:
    name, until_s = f"sensors-{uuid.uuid4().hex[:8]}", asyncio.get_running_loop().time() + seconds
    done = await asyncio.gather(*(process(name, number, until_s) for number in range(10)))
    for at, (taken, topics, skipped, alarms) in enumerate(done):
        told = f"{taken} messages of {topics} sensors, {skipped} skipped"
        print(f"p{at}: {told}, {len(alarms)} alarms")


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 6.0))
