"""Two members in one program, with asyncio: python examples/hello_asyncio.py

Usually each is in a process of its own, on any machine of the network. `interface="lo"` keeps it on
this one.
"""

import asyncio
import uuid

import semcast

NAMES = ["alice", "bob"]
# On your network: the same for all members; `semcast keys new` makes one.
SECRET = uuid.uuid4().hex


async def alice(group_name: str) -> None:
    """Sends two quotes and a trade."""
    async with semcast.join(
        group_name, name="alice", members=NAMES, secret=SECRET, interface="lo"
    ) as group:
        await group.send(b"101.25", replaces="AAPL")
        await group.send(b"101.50", replaces="AAPL")  # nobody needs the one before it any more
        await group.send(b"trade 17")  # never dropped
        # Leaving waits until everybody has everything.


async def bob(group_name: str) -> None:
    """Receives until the trade has come."""
    async with semcast.join(
        group_name, name="bob", members=NAMES, secret=SECRET, interface="lo"
    ) as group:
        async for message in group:
            print(message.sender, message.seq, message.key.decode(), message.payload.decode())
            if message.payload.startswith(b"trade"):
                break


async def main() -> None:
    """Run both."""
    group_name = f"hello-{uuid.uuid4()}"
    await asyncio.gather(alice(group_name), bob(group_name))


if __name__ == "__main__":
    asyncio.run(main())
