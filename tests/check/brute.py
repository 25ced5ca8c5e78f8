"""The properties by their definitions, quantifier by quantifier: slow and obviously right.

Each function returns the violations as pairs: where (the time of the event, or the node for what is
judged at the end) and the message. Nothing is shared with `semcast.check`.
"""

from collections.abc import Callable, Iterator
from itertools import product

from semcast.check import MessageId
from semcast.journal import Event, Journal, keys_in, parse_node

Found = set[tuple[int | str, MessageId]]


def is_by_key(event: Event) -> bool:
    """Whether a message replaces all earlier ones of its key or keys."""
    return bool(event.key) and event.rank is None and (event.obsoletes or ())[:1] == (0,)


def taken(event: Event) -> bool:
    """Whether the application got a message."""
    return event.event in ("deliver", "state")


def name(event: Event) -> MessageId:
    assert event.sender is not None
    assert event.seq is not None
    return MessageId(event.sender, event.seq)


def cover(event: Event) -> MessageId | None:
    if event.by_sender is None or event.by_seq is None:
        return None
    return MessageId(event.by_sender, event.by_seq)


class Facts:
    """What the definitions speak of."""

    def __init__(self, journal: Journal) -> None:
        self.header = journal.header
        self.events = journal.events
        self.multicasts: dict[MessageId, int] = {}
        for at, event in enumerate(self.events):
            if event.event == "multicast":
                self.multicasts.setdefault(name(event), at)
        self.nodes = [*self.header.members]
        self.nodes += sorted({event.node for event in self.events} - set(self.nodes))
        self.closure = self._closure()

    def before(self, at: int, node: str, *kinds: str) -> Iterator[tuple[int, Event]]:
        """The events of these kinds at a node before a position."""
        for index, event in enumerate(self.events[:at]):
            if event.node == node and event.event in kinds:
                yield index, event

    def happened(self, at: int, node: str, kind: str, about: MessageId) -> bool:
        return any(name(event) == about for _, event in self.before(at, node, kind))

    def is_correct(self, node: str) -> bool:
        sender, life = parse_node(node)
        return (
            not any(
                event.node == node and event.event in ("crash", "leave") for event in self.events
            )
            and not self.ended_early(node)
            and not any(
                parse_node(other)[0] == sender and parse_node(other)[1] > life
                for other in self.nodes
            )
        )

    def ended_early(self, node: str) -> bool:
        """Ended by itself, but with messages waiting, or while somebody else went on."""
        return self.header.one_order and any(
            ended.node == node
            and ended.event == "end"
            and (
                (ended.seq or 0) > 0
                or any(
                    later.event == "multicast" and later.node != node for later in self.events[at:]
                )
            )
            for at, ended in enumerate(self.events)
        )

    def is_trusted(self, node: str) -> bool:
        """Correct, or until it left, which it did when what it took was safe."""
        return self.is_correct(node) or any(
            event.node == node and event.event == "settled" for event in self.events
        )

    def replaced(self, older: MessageId, newer: MessageId) -> bool:
        return (older, newer) in self.closure

    def replaced_or_same(self, older: MessageId, newer: MessageId) -> bool:
        return older == newer or self.replaced(older, newer)

    def names(self, newer: MessageId, older: MessageId) -> bool:
        """Whether the annotation of `newer` says so itself, without a rank."""
        return self.events[self.multicasts[newer]].rank is None and self._direct(older, newer)

    def _direct(self, older: MessageId, newer: MessageId) -> bool:
        old, new = self.events[self.multicasts[older]], self.events[self.multicasts[newer]]
        if new.rank is not None:
            return (
                old.rank is not None
                and (old.key or "") == (new.key or "")
                and (old.rank, parse_node(older.sender), older.seq)
                < (new.rank, parse_node(newer.sender), newer.seq)
            )
        if older.sender != newer.sender or self.multicasts[older] >= self.multicasts[newer]:
            return False
        if old.group != new.group:
            return False
        return newer.seq - older.seq in (new.obsoletes or ()) or (
            is_by_key(old)
            and is_by_key(new)
            and set(keys_in(old.key or "")) <= set(keys_in(new.key or ""))
        )

    def _closure(self) -> set[tuple[MessageId, MessageId]]:
        if not self.header.purging:
            return set()
        all_of_them = list(self.multicasts)
        closure = {
            (older, newer)
            for older, newer in product(all_of_them, repeat=2)
            if self._direct(older, newer)
        }
        for middle in all_of_them:
            for older, newer in product(all_of_them, repeat=2):
                if (older, middle) in closure and (middle, newer) in closure:
                    closure.add((older, newer))
        return closure

    def delivered(self, node: str, about: MessageId) -> bool:
        end = len(self.events)
        return self.happened(end, node, "deliver", about) or self.happened(
            end, node, "state", about
        )

    def has(self, node: str, about: MessageId) -> bool:
        """Delivered, or excused."""
        if self.delivered(node, about) or about.seq < self.join_point(node, about.sender):
            return True
        if self.happened(len(self.events), node, "ignore", about):
            return True
        return not self.header.deliver_own and about.sender == node

    def join_point(self, node: str, sender: str) -> float:
        if node in self.header.members or node == sender:
            return 1
        told = [
            one.seq
            for _, one in self.before(len(self.events), node, "join")
            if one.sender == sender and one.seq is not None
        ]
        if told:
            return told[-1 if self.header.open else 0]
        if self.header.open:
            return 1 if self.came_later(sender, node) else float("inf")
        came = min(at for at, event in enumerate(self.events) if event.node == node)
        for about, at in self.multicasts.items():
            if self.header.one_order and about.sender == sender and at > came:
                return about.seq
        return float("inf")

    def came_later(self, sender: str, node: str) -> bool:
        """Whether a sender came into the same group with the same view as a node, or later."""
        first = [
            next(
                (event for event in self.events if (event.node, event.event) == (one, "view")), None
            )
            for one in (sender, node)
        ]
        return (
            first[0] is not None
            and first[1] is not None
            and first[0].sender == first[1].sender
            and (first[0].seq or 0) >= (first[1].seq or 0)
        )

    def satisfied(self, node: str, about: MessageId) -> bool:
        """The node delivers some m' with m ⊑ m'."""
        return any(
            self.replaced_or_same(about, other) and self.has(node, other)
            for other in self.multicasts
        )


def integrity(journal: Journal) -> Found:
    facts = Facts(journal)
    found: Found = set()
    for at, event in enumerate(journal.events):
        if event.event == "multicast":
            if facts.multicasts[name(event)] != at or event.node != event.sender:
                found.add((event.time_ns, name(event)))
        elif taken(event):
            sent = facts.multicasts.get(name(event), len(journal))
            known = sent < at if journal.header.one_order else sent < len(journal)
            before = [
                one.event
                for _, one in facts.before(at, event.node, "deliver", "state", "undo")
                if name(one) == name(event)
            ]
            if not known or before[-1:] not in ([], ["undo"]):
                found.add((event.time_ns, name(event)))
    return found


def fifo_order(journal: Journal) -> Found:
    facts = Facts(journal)
    return {
        (event.time_ns, name(event))
        for at, event in enumerate(journal.events)
        if taken(event) and name(event) in facts.multicasts
        for _, earlier in facts.before(at, event.node, "deliver", "state")
        if earlier.sender == event.sender
        and name(earlier) in facts.multicasts
        and facts.multicasts[name(event)] < facts.multicasts[name(earlier)]
    }


def streams(facts: Facts, about: MessageId) -> set[tuple[str, str, bool]]:
    """What is delivered in order if the order is "key": one stream for each key."""
    event = facts.events[facts.multicasts[about]]
    if event.rank is not None:
        return {(about.sender, event.key, True)} if event.key else set()
    if event.key:
        return {(about.sender, key, False) for key in keys_in(event.key)}
    return set() if event.obsoletes else {(about.sender, "", False)}


def same_stream(facts: Facts, one: MessageId, other: MessageId) -> bool:
    return not streams(facts, one).isdisjoint(streams(facts, other))


def _deliveries(facts: Facts, at: int, node: str) -> list[MessageId]:
    """What a node delivered before, as far as anybody multicast it."""
    before = [name(event) for _, event in facts.before(at, node, "deliver", "state")]
    return [about for about in before if about in facts.multicasts]


def key_order(journal: Journal) -> Found:
    facts = Facts(journal)
    return {
        (event.time_ns, m)
        for at, event in enumerate(journal.events)
        if taken(event) and (m := name(event)) in facts.multicasts
        for later in _deliveries(facts, at, event.node)
        if later.sender == m.sender
        and facts.multicasts[m] < facts.multicasts[later]
        and (same_stream(facts, m, later) or (facts.header.purging and facts.names(later, m)))
    } | late_lives(facts)


def late_lives(facts: Facts) -> Found:
    """A message had come to a node when it delivered one of a later life about the same key, and it
    was delivered after that.
    """
    return {
        (event.time_ns, m)
        for at, event in enumerate(facts.events)
        if event.event == "deliver" and (m := name(event)) in facts.multicasts
        for before, other in facts.before(at, event.node, "deliver")
        if name(other) in facts.multicasts
        and parse_node(m.sender)[0] == parse_node(name(other).sender)[0]
        and parse_node(m.sender)[1] < parse_node(name(other).sender)[1]
        and values_of(facts, m) & values_of(facts, name(other))
        and facts.happened(before, event.node, "receive", m)
    }


def values_of(facts: Facts, about: MessageId) -> set[str]:
    """The keys that it is about, as far as it has no rank."""
    return {key for _, key, ranked in streams(facts, about) if key and not ranked}


def key_completeness(journal: Journal) -> Found:
    facts = Facts(journal)
    return {
        (event.time_ns, m)
        for at, event in enumerate(journal.events)
        if taken(event) and (later := name(event)) in facts.multicasts
        for m in facts.multicasts
        for shared in streams(facts, m) & streams(facts, later)
        if facts.multicasts[m] < facts.multicasts[later]
        # It is the first delivery that comes after m in its stream, or m itself.
        and not any(
            facts.multicasts[other] >= facts.multicasts[m]
            for other in _deliveries(facts, at, event.node)
            if shared in streams(facts, other)
        )
        and m.seq >= owes_from(facts, at, event.node, m.sender)
        and not facts.happened(at, event.node, "ignore", m)
        and not any(
            facts.multicasts[other] < at or not facts.header.one_order
            for other in facts.multicasts
            if facts.replaced(m, other)
        )
    }


def owes_from(facts: Facts, at: int, node: str, sender: str) -> float:
    if node == sender:
        return 1 if facts.header.deliver_own else float("inf")
    if node in facts.header.members:
        return 1
    told = [event.seq for _, event in facts.before(at, node, "join") if event.sender == sender]
    known = [seq for seq in told if seq is not None]
    if known:
        return known[-1 if facts.header.open else 0]
    return 1 if facts.came_later(sender, node) else float("inf")


def fifo_completeness(journal: Journal) -> Found:
    facts = Facts(journal)
    return {
        (node, m)
        for node, m, later in product(facts.nodes, facts.multicasts, facts.multicasts)
        if m.sender == later.sender
        and facts.multicasts[m] < facts.multicasts[later]
        and facts.is_correct(node)
        and facts.delivered(node, later)
        and not facts.satisfied(node, m)
    }


def validity(journal: Journal) -> Found:
    facts = Facts(journal)
    return {
        (m.sender, m)
        for m in facts.multicasts
        if m.sender in facts.nodes
        and facts.is_correct(m.sender)
        and not facts.satisfied(m.sender, m)
    }


def agreement(journal: Journal) -> Found:
    facts = Facts(journal)
    return {
        (node, m)
        for node, m, other in product(facts.nodes, facts.multicasts, facts.nodes)
        if facts.is_correct(node)
        and facts.is_trusted(other)
        and facts.delivered(other, m)
        and not facts.satisfied(node, m)
    }


def sender_reliability(journal: Journal) -> Found:
    facts = Facts(journal)
    return {
        (node, m)
        for node, m in product(facts.nodes, facts.multicasts)
        if m.sender in facts.nodes
        and facts.is_trusted(m.sender)
        and facts.is_correct(node)
        and not facts.satisfied(node, m)
    }


def accounting(journal: Journal) -> Found:
    facts = Facts(journal)
    found: Found = set()
    for at, event in enumerate(journal.events):
        if event.event == "view":
            continue  # View Sequence says what is wrong with it
        crashed = any(True for _ in facts.before(at, event.node, "crash"))
        if crashed or (event.event in _BOOKED and not _BOOKED[event.event](facts, at, event)):
            about = event.event in _BOOKED or event.event == "multicast"
            found.add((event.time_ns, name(event) if about else MessageId("", 0)))
    return found


def _fate(facts: Facts, at: int, node: str, about: MessageId) -> str:
    """What happened last to a message at a node, as far as delivery goes."""
    last = ""
    kinds = ("receive", "ignore", "deliver", "state", "purge", "skip")
    for index, event in facts.before(at, node, *kinds):
        if name(event) == about and (event.event != "purge" or event.where == "delivery"):
            last = event.event
            undone = [
                name(other) == about
                for later, other in facts.before(at, node, "undo")
                if later > index
            ]
            if last == "deliver" and any(undone):
                last = ""
    return last


def _good_cover(facts: Facts, at: int, event: Event) -> bool:
    by = cover(event)
    if by is None or by not in facts.multicasts or name(event) not in facts.multicasts:
        return False
    if facts.header.one_order and facts.multicasts[by] >= at:
        return False
    return facts.replaced(name(event), by)


def _good_skip(facts: Facts, at: int, event: Event) -> bool:
    if _fate(facts, at, event.node, name(event)):
        return False
    if cover(event) == name(event):
        return any(
            facts.replaced(name(event), other)
            and (facts.multicasts[other] < at or not facts.header.one_order)
            for other in facts.multicasts
        )
    return _good_cover(facts, at, event)


def _good_purge(facts: Facts, at: int, event: Event) -> bool:
    if not _good_cover(facts, at, event):
        return False
    by = cover(event)
    assert by is not None
    entered = [
        name(one) for _, one in facts.before(at, event.node, "receive", "ignore", "multicast")
    ]
    if event.where == "delivery":
        return _fate(facts, at, event.node, name(event)) == "receive" and by in entered
    if event.where in ("relay", "gossip", "link"):
        return by in entered
    if event.where == "retransmit" and not facts.header.federated:
        purged = [
            1
            for _, other in facts.before(at, event.node, "purge")
            if other.where == "retransmit" and name(other) == name(event)
        ]
        return not purged and name(event) in entered and by in entered
    return True


_BOOKED: dict[str, Callable[[Facts, int, Event], bool]] = {
    "receive": lambda facts, at, event: not _fate(facts, at, event.node, name(event)),
    "ignore": lambda facts, at, event: not _fate(facts, at, event.node, name(event)),
    "deliver": lambda facts, at, event: (
        _fate(facts, at, event.node, name(event)) in ("receive", "deliver", "state")
    ),
    "state": lambda facts, at, event: (
        _fate(facts, at, event.node, name(event)) in ("", "deliver", "state")
    ),
    "skip": _good_skip,
    "purge": _good_purge,
}


def relaying(journal: Journal) -> Found:
    facts = Facts(journal)
    found: Found = set()
    for at, event in enumerate(journal.events):
        passed_on = event.event == "relay"
        purged = event.event == "purge" and event.where in ("relay", "gossip", "link")
        if not (passed_on or purged):
            continue
        about = name(event)
        entered = facts.before(at, event.node, "receive", "ignore", "multicast")
        here = any(name(one) == about for _, one in entered)
        gone = any(
            name(one) == about and one.where in ("relay", "gossip")
            for _, one in facts.before(at, event.node, "purge")
        )
        if not here or (gone and event.where != "link"):
            found.add((event.time_ns, about))
    return found
