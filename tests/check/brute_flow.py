"""Flow Bounds, Safe Purging and Stability by their definitions, counted anew at every event."""

from tests.check.brute import Facts, Found, cover, name

from semcast.check import MessageId
from semcast.journal import Event, Journal, keys_in, parse_node


def flow_bounds(journal: Journal) -> Found:
    facts = Facts(journal)
    found: Found = set()
    for at, event in enumerate(journal.events):
        if event.event in ("multicast", "receive", "ignore"):
            through = _when_through(journal, at, event)
            if _beyond(facts, through, event):
                found.add((event.time_ns, name(event)))
    return found


def _when_through(journal: Journal, at: int, event: Event) -> int:
    """The position after the purges that an arrival causes."""
    through = at + 1
    for index in range(at + 1, len(journal)):
        later = journal.events[index]
        if later.node != event.node:
            continue
        if later.event != "purge" or name(event) not in (name(later), cover(later)):
            break
        through = index + 1
    return through


def _beyond(facts: Facts, at: int, event: Event) -> bool:
    header = facts.header
    delivery: dict[MessageId, int] = {}
    retained: dict[MessageId, int] = {}
    for past in facts.events[:at]:
        if past.node != event.node or past.sender is None:
            continue
        about, size = name(past), past.size or 0
        if past.event == "receive":
            delivery.setdefault(about, size)
        if past.event == "multicast" or (
            past.event in ("receive", "ignore")
            and header.reliability == "group"
            and past.sender != past.node
        ):
            retained.setdefault(about, size)
        if past.event == "deliver" or (past.event == "purge" and past.where == "delivery"):
            delivery.pop(about, None)
        if past.event == "purge" and past.where == "retransmit":
            retained.pop(about, None)
        if past.event == "stable":
            for kept in list(retained):
                if kept.sender == about.sender and kept.seq <= about.seq:
                    del retained[kept]
    members = len({parse_node(node)[0] for node in facts.nodes})
    kept_for = members if header.reliability == "group" else 1
    of_source = [kept for kept in retained if kept.sender == event.sender]
    pairs = []
    if event.event == "receive":
        pairs += [(len(delivery), header.delivery_messages)]
        pairs += [(sum(delivery.values()), header.delivery_bytes)]
    pairs += [(len(delivery) + len(retained), header.total_messages)]
    if name(event) in retained:
        pairs += [(len(of_source), header.window_messages)]
        pairs += [(sum(retained.values()), header.window_bytes * kept_for)]
    return any(bound > 0 and held > bound for held, bound in pairs)


def safe_purging(journal: Journal) -> Found:
    facts = Facts(journal)
    if journal.header.reliability != "group" or not journal.header.one_order:
        return set()
    return {
        (event.time_ns, name(event))
        for at, event in enumerate(journal.events)
        if event.event == "purge" and event.where == "retransmit"
        for by in [cover(event)]
        if by is not None and not _is_safe(facts, at, by, event.node)
    }


def _is_safe(facts: Facts, at: int, by: MessageId, node: str) -> bool:
    """Whether more than f members have it, or all that are left of those at the start; in an open
    group, or all but one in the view of the node that purges.
    """
    having: set[tuple[str, MessageId]] = set()
    while True:
        more = {
            (event.node, name(event))
            for event in facts.events[:at]
            if event.event in ("multicast", "receive", "ignore")
            or (event.event == "skip" and _has_instead(facts, event, having))
        }
        if more <= having:
            break
        having |= more
    if facts.header.open:
        members = view_of(facts, at, node)
        f = facts.header.f if members is None else min(facts.header.f, len(members) - 1)
        return _voted(facts, having, by, f) or not any(
            (one, by) not in having and _needs(facts, at, one, by)
            for one in (facts.nodes if members is None else members)
            if one in facts.nodes
        )
    left = [
        node
        for node in facts.header.members
        if not any(True for _ in facts.before(at, node, "crash", "leave"))
    ]
    return _voted(facts, having, by) or all((node, by) in having for node in left)


def _needs(facts: Facts, at: int, node: str, by: MessageId) -> bool:
    """Whether a node that lacks a cover would have to get it."""
    if any(True for _ in facts.before(at, node, "crash", "leave")):
        return False
    joins = [one for _, one in facts.before(len(facts.events), node, "join")]
    told = [one.seq or 0 for one in joins if one.sender == by.sender]
    if told:
        return told[0] <= by.seq
    return node == by.sender or facts.came_later(by.sender, node)


def _has_instead(facts: Facts, skip: Event, having: set[tuple[str, MessageId]]) -> bool:
    by = cover(skip)
    return by is not None and (
        by == name(skip) or (skip.node, by) in having or _voted(facts, having, by)
    )


def _voted(
    facts: Facts, having: set[tuple[str, MessageId]], about: MessageId, f: int | None = None
) -> bool:
    members = {parse_node(node)[0] for node, m in having if m == about}
    return len(members) > (facts.header.f if f is None else f)


def view_of(facts: Facts, at: int, node: str) -> list[str] | None:
    """The members in the view by which a node goes."""
    views = [event for _, event in facts.before(at, node, "view")]
    return keys_in(views[-1].key or "") if views else None


def stability(journal: Journal) -> Found:
    facts = Facts(journal)
    header = journal.header
    if not header.one_order or (header.open and header.reliability == "sender"):
        return set()
    return {
        (event.time_ns, name(event))
        for at, event in enumerate(journal.events)
        if event.event == "stable"
        for node in facts.nodes
        if not any(True for _ in facts.before(at, node, "crash", "leave"))
        and not _has_all(facts, at, node, name(event))
        and (
            not journal.header.open
            or (members := view_of(facts, at, event.node)) is None
            or node in members
        )
    }


def _has_all(facts: Facts, at: int, node: str, up_to: MessageId) -> bool:
    mine = [
        event
        for _, event in facts.before(at, node, "multicast", "receive", "ignore", "skip", "join")
        if event.sender == up_to.sender
    ]
    first = 1
    if node not in facts.header.members:
        if not mine:
            return True
        if mine[0].event == "join":
            first = name(mine[0]).seq
    got = {name(event).seq for event in mine if event.event != "join"}
    return all(seq in got for seq in range(first, up_to.seq + 1))
