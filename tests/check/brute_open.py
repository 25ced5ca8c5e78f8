"""View Sequence, State and Stream Completeness by their definitions."""

from tests.check.brute import Facts, Found, name, owes_from, taken

from semcast.check import MessageId
from semcast.journal import Event, Journal, keys_in, parse_node

NOBODY = MessageId("", 0)


def view_sequence(journal: Journal) -> Found:
    facts = Facts(journal)
    if journal.header.reliability != "group":
        return set()
    views = [(at, event) for at, event in enumerate(journal.events) if event.event == "view"]
    return {
        (event.time_ns, NOBODY) for at, event in views if not _good_view(facts, views, at, event)
    }


def _good_view(facts: Facts, views: list[tuple[int, Event]], at: int, event: Event) -> bool:
    same = [one for _, one in views if (one.sender, one.seq) == (event.sender, event.seq)]
    own = [one for _, one in facts.before(at, event.node, "view")]
    return (
        same[0].by_seq == event.by_seq
        and all((one.seq or 0) < (event.seq or 0) for one in own if one.sender == event.sender)
        and [*own, event][0].sender == event.sender
        and event.node in keys_in(event.key or "")
        and not any(True for _ in facts.before(at, event.node, "crash"))
    )


def stream_completeness(journal: Journal) -> Found:
    facts = Facts(journal)
    return {
        (event.time_ns, m)
        for at, event in enumerate(journal.events)
        if taken(event) and (later := name(event)) in facts.multicasts
        for m in facts.multicasts
        if m.sender == later.sender
        and facts.multicasts[m] < facts.multicasts[later]
        # It is the first delivery that comes after m, or m itself.
        and not any(
            facts.multicasts.get(name(other), -1) >= facts.multicasts[m]
            for _, other in facts.before(at, event.node, "deliver", "state")
            if other.sender == m.sender
        )
        and m.seq >= owes_from(facts, at, event.node, m.sender)
        and not facts.happened(at, event.node, "ignore", m)
        and not any(
            facts.multicasts[other] < at or not facts.header.one_order
            for other in facts.multicasts
            if facts.replaced(m, other)
        )
    }


def state(journal: Journal) -> Found:
    facts = Facts(journal)
    return {
        (node, m)
        for node in facts.nodes
        if facts.is_correct(node) and node not in facts.header.members
        for m in facts.multicasts
        if m.sender != node
        and m.seq < _begin(facts, node, m.sender)
        and _stands(facts, m)
        and any(
            facts.is_correct(life) and (life == m.sender or _may_give(facts, life, m))
            for life in facts.nodes
        )
        and not any(
            facts.replaced_or_same(m, other)
            and (_had(facts, life, other) or _knew(facts, life, other))
            for other in facts.multicasts
            for life in facts.nodes
            if life == node or _former(facts, life, node)
        )
    }


def _may_give(facts: Facts, node: str, m: MessageId) -> bool:
    """Whether a node can give a message of another; in a feed none does."""
    return facts.header.reliability != "sender" and _had_cover(facts, node, m)


def _had_cover(facts: Facts, node: str, m: MessageId) -> bool:
    """Whether a node had a message, or one that replaces it."""
    return any(
        facts.replaced_or_same(m, other) and _had(facts, node, other) for other in facts.multicasts
    )


def _begin(facts: Facts, node: str, sender: str) -> int:
    """Where a node says that it begins, the last time if it begins anew."""
    told = [one for one in facts.events if (one.node, one.event) == (node, "join")]
    return max((one.seq or 0 for one in told if one.sender == sender), default=0)


def _stands(facts: Facts, m: MessageId) -> bool:
    """Nothing replaces it, and it is the newest of its sender about some key."""
    event = facts.events[facts.multicasts[m]]
    if event.rank is not None or not event.key:
        return False
    later = {
        key
        for other, at in facts.multicasts.items()
        if other.sender == m.sender
        and at > facts.multicasts[m]
        and facts.events[at].rank is None
        and facts.events[at].key
        for key in keys_in(facts.events[at].key or "")
    }
    replaced = any(facts.replaced(m, other) for other in facts.multicasts)
    return not replaced and not set(keys_in(event.key)) <= later


def _had(facts: Facts, node: str, m: MessageId) -> bool:
    return facts.delivered(node, m) or facts.happened(len(facts.events), node, "ignore", m)


def _knew(facts: Facts, node: str, m: MessageId) -> bool:
    """Whether a process that gets none of its own messages multicast this one."""
    return node == m.sender and not facts.header.deliver_own


def _former(facts: Facts, life: str, node: str) -> bool:
    (sender, number), (other, later) = parse_node(life), parse_node(node)
    crashed = any(True for _ in facts.before(len(facts.events), life, "crash"))
    return sender == other and number < later and not crashed
