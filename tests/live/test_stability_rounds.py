"""Twelve hosts that lose 5% of what comes, one of them stopped for a while: each way to learn what
may be forgotten, in turn.

Every message becomes stable at every member, and none too early: the journals of all of them are
judged. SRM §5.3, STAB §3, §4.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.live.groups import Node, has_event, new_group, wait_until
from tests.live.journals import check_journals, leave_all
from tests.live.material import Way
from tests.live.namespace import lan
from tests.live.test_namespaces import Hosts

from semcast.journal import Journal
from semcast.live.meeting.roster import member_id
from semcast.settings.table import STABILITY_PROTOCOLS

pytest.importorskip("pyarrow")
HOSTS = [f"h{number}" for number in range(12)]
# Members are numbered by their ids: the first is the coordinator, those after it are inside the
# tree, the last is a leaf.
NUMBERED = sorted(HOSTS, key=member_id)
# Who is stopped: a coordinator where there is one alone, inside the tree where there is a tree.
STOPPED = {
    "gossip": NUMBERED[3],
    "coordp": NUMBERED[0],
    "fulldist": NUMBERED[5],
    "train": NUMBERED[0],
    "s_coordp": NUMBERED[1],
    "s_train": NUMBERED[1],
}
COUNT = 25


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """Twelve processes that come together in one group after another."""
    with lan(HOSTS) as network:
        for host in HOSTS:
            network.lose(host, percent=5)
        # Twelve interpreters share what processors there are: they need not hurry.
        settings = {"window_messages": 64, "gossip_period_ms": 100.0, "join_timeout_s": 60.0}
        with closing(Hosts(network, Way("multicast", ipv6=False), **settings)) as nodes:
            for host in HOSTS:
                nodes.spawn(host)
            yield nodes


def stable_up_to(journal: Journal) -> dict[tuple[str, str], int]:
    """By member and source, up to where it has called everything stable."""
    found: dict[tuple[str, str], int] = {}
    for event in journal.select(event="stable"):
        at = (event.node, event.sender or "")
        found[at] = max(found.get(at, 0), event.seq or 0)
    return found


def at_rest(node: Node) -> bool:
    """Whether it has sent all, its application has taken all, and it has forgotten all."""
    if node.call("sending"):
        return False
    stats = node.call("stats")
    held = ("retained_held", "early_held", "delivery_held")
    return all(stats[name] == 0 for name in held)


@pytest.mark.parametrize("protocol", STABILITY_PROTOCOLS)
def test_every_message_becomes_stable_at_every_member_and_none_too_early(
    hosts: Hosts, protocol: str, tmp_path: Path
) -> None:
    stopped = STOPPED[protocol]
    other = next(name for name in NUMBERED if name != stopped)
    hosts.meet(group=new_group(), stability=protocol, record=str(tmp_path))
    for node in hosts:
        node.call("collect")
    for node in hosts:
        node.call("traffic", count=COUNT, keys=4, gap_s=0.05)
    wait_until(lambda: hosts[other].call("count", sender=stopped) > 5, "some messages came")
    hosts[stopped].pause()
    wait_until(lambda: has_event(hosts[other], "suspected", stopped), "it is missed")
    hosts[stopped].resume()
    for node in hosts:
        wait_until(lambda node=node: at_rest(node), f"{node.name} is at rest", 60)  # type: ignore[misc]
    leave_all(hosts)
    (history,) = check_journals(tmp_path, rested=len(HOSTS))
    journal = history.journal
    sources = {event.sender or "" for event in journal.select(event="multicast")}
    stable = stable_up_to(journal)
    assert len(sources) == len(HOSTS)
    assert stable == {(node, sender): COUNT for node in sources for sender in sources}
