"""The order of a federation, judged simply: a journal in; what is wrong with its deliveries, out.

Two messages that two sites deliver come in the same order at both (PROP §1, property c); all orders
together have no cycle; and a source's messages to a group come as they were sent (property a).
Rollbacks are left out of account, so this is for runs in which no site comes back.
"""

from itertools import pairwise

from semcast.journal import Journal

Name = tuple[str | None, int | None]


def deliveries(journal: Journal) -> dict[str, list[Name]]:
    """By node: the messages that its application took, in their order."""
    found: dict[str, list[Name]] = {}
    for event in journal.select(event="deliver"):
        found.setdefault(event.node, []).append((event.sender, event.seq))
    return found


def order_faults(journal: Journal) -> list[str]:
    """What is wrong, in words; nothing if all is well."""
    by_node = deliveries(journal)
    faults = [
        f"{node} took a message twice"
        for node, names in by_node.items()
        if len(set(names)) != len(names)
    ]
    return [*faults, *_pairs(by_node), *_cycle(by_node)]


def _pairs(by_node: dict[str, list[Name]]) -> list[str]:
    faults = []
    nodes = sorted(by_node)
    for at, one in enumerate(nodes):
        for other in nodes[at + 1 :]:
            common = set(by_node[one]) & set(by_node[other])
            first = [name for name in by_node[one] if name in common]
            second = [name for name in by_node[other] if name in common]
            if first != second:
                faults.append(f"{one} and {other} took common messages in different orders")
    return faults


def _cycle(by_node: dict[str, list[Name]]) -> list[str]:
    """Whether no order of all messages agrees with that of every site."""
    after: dict[Name, set[Name]] = {}
    before: dict[Name, int] = {}
    for names in by_node.values():
        for name in names:
            after.setdefault(name, set())
            before.setdefault(name, 0)
        for first, second in pairwise(names):
            if second not in after[first]:
                after[first].add(second)
                before[second] += 1
    free = [name for name, count in before.items() if count == 0]
    done = 0
    while free:
        done += 1
        for name in after[free.pop()]:
            before[name] -= 1
            if before[name] == 0:
                free.append(name)
    return [] if done == len(before) else ["the orders of all sites together have a cycle"]
