"""Journals written by hand, in few words: `log.multicast("p1#3", 2)`, `log.take("p2", "p1#3")`.

A node is written p1 or p3.2, a message p1#3 or p3.2#3; without a life it is the first one. Each
event happens a nanosecond after the one before.
"""

from dataclasses import replace

from semcast.check import MessageId, Property, Violation, judge
from semcast.journal import Header, Journal, keys_text, parse_node


def node(name: str) -> str:
    return name if "." in name else f"{name}.1"


def message(name: str) -> MessageId:
    sender, seq = name.split("#")
    return MessageId(node(sender), int(seq))


def hash_of(name: str) -> int:
    """A number that two names do not have in common."""
    sender, life = parse_node(name)
    return 1 << (8 * sender + life)


# Every promise of S-RM, no bounds.
HEADER = Header(run="by hand", members=("p1.1", "p2.1", "p3.1"))


class Log:
    def __init__(self, header: Header = HEADER, **changes: object) -> None:
        self.journal = Journal(replace(header, **changes))  # type: ignore[arg-type]

    def event(
        self,
        at: str,
        event: str,
        about: str,
        *,
        by: str | None = None,
        where: str | None = None,
        obsoletes: tuple[int, ...] | None = None,
        key: str | None = None,
        rank: int | None = None,
        size: int = 10,
    ) -> None:
        name = message(about)
        cover = None if by is None else message(by)
        self.journal.record(
            len(self.journal) + 1,
            node(at),
            event,
            name.sender,
            name.seq,
            obsoletes,
            key,
            rank,
            size=size,
            where=where,
            by_sender=None if cover is None else cover.sender,
            by_seq=None if cover is None else cover.seq,
        )

    def multicast(
        self,
        about: str,
        *distances: int,
        key: str | None = None,
        rank: int | None = None,
        size: int = 10,
    ) -> None:
        at = message(about).sender
        self.event(at, "multicast", about, obsoletes=distances, key=key, rank=rank, size=size)

    def receive(self, at: str, *about: str, size: int = 10) -> None:
        for one in about:
            self.event(at, "receive", one, size=size)

    def deliver(self, at: str, *about: str) -> None:
        for one in about:
            self.event(at, "deliver", one)

    def take(self, at: str, *about: str) -> None:
        """Receive and deliver."""
        for one in about:
            self.receive(at, one)
            self.deliver(at, one)

    def purge(self, at: str, about: str, by: str | None, where: str = "delivery") -> None:
        self.event(at, "purge", about, by=by, where=where)

    def skip(self, at: str, about: str, by: str | None) -> None:
        self.event(at, "skip", about, by=by)

    def stable(self, at: str, about: str) -> None:
        self.event(at, "stable", about)

    def join(self, at: str, about: str | None = None) -> None:
        if about is None:
            self.world(at, "join")
        else:
            self.event(at, "join", about)

    def state(self, at: str, *about: str) -> None:
        """Get messages as part of what stands."""
        for one in about:
            self.event(at, "state", one)

    def ignore(self, at: str, *about: str) -> None:
        """Messages come that are not wanted."""
        for one in about:
            self.event(at, "ignore", one)

    def view(self, at: str, number: int, *members: str, digest: int = 0, origin: int = 9) -> None:
        """Go by a view from now on; its digest is of the members, if none is given."""
        names = [node(one) for one in members]
        known = digest or sum(hash_of(one) for one in names)
        self.journal.record(
            len(self.journal) + 1,
            node(at),
            "view",
            f"p{origin}.0",
            number,
            key=keys_text([one.encode() for one in names]),
            by_sender=f"p{origin}.0",
            by_seq=known,
            view=number,
        )

    def world(self, at: str, event: str) -> None:
        """Something that happens to a node."""
        self.journal.record(len(self.journal) + 1, node(at), event)

    def crash(self, at: str) -> None:
        self.world(at, "crash")


def only(found: list[Violation], at: str, *about: str) -> str:
    """The text of the one violation that there must be."""
    assert [(one.node, one.messages) for one in found] == [
        (node(at), tuple(message(name) for name in about))
    ]
    return found[0].text


def broken(one: Property, journal: Journal) -> list[Violation]:
    """The violations of one property, also where the header does not promise its order, its kind of
    membership, state, or what it says of the end.
    """
    header = journal.header
    if header.order not in one.order:
        header = replace(header, order=one.order[0])
    if not one.safety and header.reliability not in one.reliability:
        header = replace(header, reliability=one.reliability[0])
    if header.membership not in one.membership:
        header = replace(header, membership=one.membership[0])
    if one.state:
        header = replace(header, state="keys")
    other = Journal(header)
    other.events.extend(journal.events)
    return judge(other, [one]).violations
