"""`python -m bench.gossip`: live members of a group that gossips, under overload.

So many processes join one group over the loopback. Three of them replace one value each, faster
than links are allowed to carry it; all of them now and then send something that nothing replaces.
The share of the latter that reached more than 95% of the members is measured with eager purging,
and with random dropping beside it (PSRM §4.3; the paper's own setting is simulated, see
`examples/scenarios/psrm.toml`). The journals of all members go through the checkers, and with
`--verify` through `semcast verify` too, which has to say the same. JSON goes to standard output, a
table to standard error.
"""

import argparse
import json
import secrets
import subprocess
import sys
import tempfile
import time
import uuid
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

import semcast.blocking
from bench.members import hear, processes
from semcast.check import History, check_all
from semcast.journal import read_journal

SECRET: Final = secrets.token_hex(16)
SENDERS: Final = 3
POLICIES: Final = ("eager", "random")
# What each link may carry, and how many copies may wait for it.
LIMITS: Final = {"relay_bytes_s": 4_000, "relay_messages": 10, "relay_repair": False}


def member(
    pipe: Connection, group: str, number: int, settings: dict[str, Any], shape: dict[str, float]
) -> None:
    """One process: joins, waits for the others, sends its part, and takes what comes."""
    came: set[bytes] = set()
    with semcast.blocking.join(group, name=f"m{number}", **settings) as joined:
        pipe.send(("in", joined.stats()["neighbours"]))
        start_s = pipe.recv()
        interval_s = 1 / shape["rate_msg_s"]
        kept_every_s = shape["members"] / shape["kept_msg_s"]
        next_s = start_s if number < SENDERS else float("inf")
        next_kept_s = start_s + kept_every_s * number / shape["members"]
        ends_s, kept = start_s + shape["seconds"], 0
        while time.time() < ends_s + shape["rest_s"]:
            now_s = time.time()
            while next_s <= min(now_s, ends_s):
                joined.send(bytes(60), replaces="value")
                next_s += interval_s * SENDERS
            while next_kept_s <= min(now_s, ends_s):
                joined.send(b"kept %d %d" % (number, kept))
                kept, next_kept_s = kept + 1, next_kept_s + kept_every_s
            due_s = min(next_s, next_kept_s, now_s + 0.05)
            try:
                came.update(one.payload for one in joined.receive_many(timeout=due_s - now_s))
            except (TimeoutError, ValueError):
                time.sleep(0)
        pipe.send((kept, sorted(one for one in came if one.startswith(b"kept")), joined.stats()))


def run(policy: str, shape: dict[str, float], folder: Path) -> dict[str, Any]:
    """One group with this policy; what reached whom, and what the checkers say."""
    group, members = f"bench-{uuid.uuid4().hex[:8]}", int(shape["members"])
    settings = LIMITS | {"secret": SECRET, "reliability": "gossip", "interface": "lo"}
    settings |= {"relay_policy": policy, "record": str(folder), "record_run": policy}
    each = [(group, number, settings, shape) for number in range(members)]
    with processes(member, each) as pipes:
        for pipe in pipes:
            hear(pipe)
        start_s = time.time() + 2.0
        for pipe in pipes:
            pipe.send(start_s)
        found = [hear(pipe, shape["seconds"] + shape["rest_s"]) for pipe in pipes]
    return _measured(found, folder, policy)


def _measured(found: list[Any], folder: Path, policy: str) -> dict[str, Any]:
    taken = [set(came) for _, came, _ in found]
    sent = [b"kept %d %d" % (at, seq) for at, one in enumerate(found) for seq in range(one[0])]
    shares = [sum(payload in one for one in taken) / len(taken) for payload in sent]
    history = History(read_journal(folder, policy))
    report = check_all(history)
    return {
        "policy": policy,
        "members": len(found),
        "kept_messages": len(sent),
        "atomic_share": sum(share > 0.95 for share in shares) / len(shares),
        "mean_reached": sum(shares) / len(shares),
        "neighbours": [int(stats["neighbours"]) for _, _, stats in found],
        "purged_relay": sum(int(stats["purged_relay"]) for _, _, stats in found),
        "dropped_relay": sum(int(stats["dropped_relay"]) for _, _, stats in found),
        "journal_events": sum(history.counts.values()),
        "broken": [name for name, count in report.counts.items() if count],
    }


def main(arguments: list[str] | None = None) -> int:
    """Both policies; 1 if a journal does not hold that has to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=40, help="processes, each a member")
    parser.add_argument("--seconds", type=float, default=5.0, help="for how long they send")
    parser.add_argument("--rate", type=float, default=180.0, help="replaced messages a second")
    parser.add_argument("--kept", type=float, default=20.0, help="others a second, of all members")
    parser.add_argument("--verify", action="store_true", help="run semcast verify as well")
    parser.add_argument("--rest", type=float, default=4.0, help="seconds for the last to arrive")
    chosen = parser.parse_args(arguments)
    shape = {"members": chosen.members, "seconds": chosen.seconds, "rest_s": chosen.rest}
    shape |= {"rate_msg_s": chosen.rate, "kept_msg_s": chosen.kept}
    with tempfile.TemporaryDirectory() as name:
        found = [run(policy, shape, Path(name, policy)) for policy in POLICIES]
        if chosen.verify:
            for one in found:
                one["verified"] = _verify(str(Path(name, one["policy"])))
    print(json.dumps({"runs": found}, indent=2))
    _show(found)
    # Random dropping is here to show that it loses what eager purging keeps.
    faults = {name for one in found for name in one["broken"]} - {"Atomicity"}
    return 1 if faults or found[0]["broken"] or not all(map(agrees, found)) else 0


def agrees(one: dict[str, Any]) -> bool:
    """Whether `semcast verify`, if it was run, found broken what the checkers found."""
    verified = one.get("verified")
    if verified is None:
        return True
    return {name for name, row in verified.items() if row["violations"]} == set(one["broken"])


def _verify(folder: str) -> dict[str, Any]:
    """What `semcast verify` says of a folder: by property, how much it judged and what broke."""
    command = [sys.executable, "-m", "semcast", "verify", folder, "--json"]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE)
    found = json.loads(done.stdout)["properties"]
    assert isinstance(found, dict)
    return found


def _show(found: list[dict[str, Any]]) -> None:
    table = Table(
        "policy", "members", "reached > 95%", "mean reached", "purged", "dropped", "broken"
    )
    for one in found:
        table.add_row(
            one["policy"], f"{one['members']}", f"{one['atomic_share']:.1%}",
            f"{one['mean_reached']:.1%}", f"{one['purged_relay']:,}", f"{one['dropped_relay']:,}",
            ", ".join(one["broken"]),
        )  # fmt: skip
    Console(stderr=True).print(table)


if __name__ == "__main__":
    sys.exit(main())
