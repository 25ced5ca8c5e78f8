"""A bank with two main computers, branches and developers: python examples/federation.py

This is the bank of PROP §1. Both main computers are in the group "accounts" and execute all
transactions of the branches. An overdraft costs a penalty, so in another order the same deposits
and withdrawals would leave other balances. How much it costs is said in the group "tables", which
has the main computers and the developers' machine. The groups overlap: only if both main computers
see the messages of both groups in one order do they agree in the end. Branches only send.
"""

import asyncio
import random
import secrets
import sys
import uuid
from collections import Counter

import semcast

SITES = {
    "main1": ("accounts", "tables"), "main2": ("accounts", "tables"), "dev": ("tables",),
    "north": (), "south": (),
}  # fmt: skip
SENDERS = ("north", "south", "dev")
# A site that waits for a processor must not be taken for one that failed, so `silence_ms` is long.
SETTINGS = semcast.Settings(secret=secrets.token_hex(16), interface="lo", silence_ms=10_000)
SETTINGS["sites"] = SITES


async def main_computer(bank: str, name: str) -> tuple[Counter[str], int]:
    """Execute everything in the order in which it comes. Returns balances, and the last penalty."""
    balances, penalty, open_sites = Counter[str](), 10, set(SENDERS)
    async with semcast.federate(bank, **(SETTINGS | semcast.Settings(name=name))) as site:
        async for message in site:
            if message.payload == b"done":
                open_sites.discard(message.sender)
            elif message.group == "tables":
                penalty = int(message.payload)
            else:
                account, amount = message.payload.decode().split()
                balances[account] += int(amount)
                balances[account] -= penalty if balances[account] < 0 else 0
            if not open_sites:
                break
    return balances, penalty


async def branch(bank: str, name: str, count: int) -> None:
    """Send deposits and withdrawals, which are never replaced."""
    draw, own = random.Random(name), semcast.Settings(name=name)
    async with semcast.federate(bank, **(SETTINGS | own)) as site:
        for _ in range(count):
            account, amount = f"account{draw.randrange(10)}", draw.randrange(-99, 100)
            await site.send("accounts", f"{account} {amount}".encode())
        await site.send("accounts", b"done")


async def developers(bank: str, count: int) -> None:
    """Release another penalty now and then."""
    async with semcast.federate(bank, **(SETTINGS | semcast.Settings(name="dev"))) as site:
        for number in range(1, count // 10 + 1):
            await site.send("tables", b"%d" % (number % 50))
            while (await site.receive()).sender != "dev":  # it is in this group, so it hears itself
                pass
        await site.send("tables", b"done")


async def main(count: int) -> None:
    bank = f"bank-{uuid.uuid4().hex[:8]}"
    computers = [main_computer(bank, name) for name in ("main1", "main2")]
    branches = [branch(bank, name, count) for name in ("north", "south")]
    senders = asyncio.gather(*branches, developers(bank, count))
    found, _ = await asyncio.gather(asyncio.gather(*computers), senders)
    for at, (balances, penalty) in enumerate(found, 1):
        shown = ", ".join(f"{balances[account]}" for account in sorted(balances))
        print(f"main{at}: a penalty of {penalty}, and balances of {shown}")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 300))
