"""Two members in one program, without asyncio: python examples/hello_blocking.py

Usually each is in a process of its own, on any machine of the network. `interface="lo"` keeps it on
this one.
"""

import threading
import uuid

import semcast.blocking

NAMES = ["alice", "bob"]
# On your network: the same for all members; `semcast keys new` makes one.
SECRET = uuid.uuid4().hex


def alice(group_name: str) -> None:
    """Sends two quotes and a trade."""
    with semcast.blocking.join(
        group_name, name="alice", members=NAMES, secret=SECRET, interface="lo"
    ) as group:
        group.send(b"101.25", replaces="AAPL")
        group.send(b"101.50", replaces="AAPL")  # nobody needs the one before it any more
        group.send(b"trade 17")  # never dropped
        # Leaving waits until everybody has everything.


def bob(group_name: str) -> None:
    """Receives until the trade has come."""
    with semcast.blocking.join(
        group_name, name="bob", members=NAMES, secret=SECRET, interface="lo"
    ) as group:
        for message in group:
            print(message.sender, message.seq, message.key.decode(), message.payload.decode())
            if message.payload.startswith(b"trade"):
                break


def main() -> None:
    """Run both."""
    group_name = f"hello-{uuid.uuid4()}"
    sender = threading.Thread(target=alice, args=(group_name,))
    sender.start()
    bob(group_name)
    sender.join()


if __name__ == "__main__":
    main()
