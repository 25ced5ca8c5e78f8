"""A member in a process of its own: settings as JSON in its argument, orders as lines of JSON in,
one line of JSON out for each. Started by tests.live.processes.
"""

import json
import sys
from dataclasses import asdict
from typing import Any

import semcast.blocking
from semcast.live.blocking import Group


def obey(group: Group, order: dict[str, Any]) -> Any:
    """Do what an order says."""
    match order["do"]:
        case "send":
            for text, key in order["messages"]:
                group.send(text.encode(), replaces=key, timeout=60)
            return len(order["messages"])
        case "receive":
            got: list[list[Any]] = []
            while len(got) < order["count"]:
                message = group.receive(timeout=60)
                got.append([message.sender, message.seq, message.payload.decode()])
            return got
        case "receive_until":
            found = [group.receive(timeout=60)]
            while found[-1].payload.decode() != order["text"]:
                found.append(group.receive(timeout=60))
            return [one.payload.decode() for one in found]
        case "drain":
            return group.drain(60)
        case "stats":
            return group.stats()
        case "view":
            return [asdict(one) for one in group.view]
        case "keys":
            return [one._asdict() for one in group.keys()]  # noqa: SIM118  (no dictionary)
        case "leave":
            return group.leave(order.get("drain_s", 60))
    raise AssertionError(order)


def main() -> None:
    """Join, obey, leave."""
    settings = json.loads(sys.argv[1])
    group = semcast.blocking.join(**settings)
    print(json.dumps({"joined": group.name}), flush=True)
    for line in sys.stdin:
        print(json.dumps({"done": obey(group, json.loads(line))}), flush=True)


if __name__ == "__main__":
    main()
