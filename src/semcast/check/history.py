"""A journal, indexed once for all checkers: who, what, in which order, and who has what.

A `Journal` goes in. Nodes and messages become numbers, sets of nodes become bits of an integer, so
that each checker is one pass. Knows nothing of the properties.
"""

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Final, NamedTuple, final

from semcast.check.relation import NEVER, Relation
from semcast.check.violation import MessageId
from semcast.errors import InputError
from semcast.journal import Event, Journal, parse_node

# Events that happen to one message. Others may name a seq that nobody has multicast yet.
_ABOUT_MESSAGES: Final = frozenset(
    ("multicast", "receive", "deliver", "purge", "skip", "retransmit")
)


class Step(NamedTuple):
    """One event, in numbers; -1 where there is none."""

    # Position in the journal.
    at: int
    event: str
    node: int
    message: int
    # The message that covers it.
    by: int


@final
class History:
    """What checkers need to know of a journal."""

    def __init__(self, journal: Journal) -> None:
        self.journal: Final = journal
        self.header: Final = journal.header
        self.counts: Final = Counter[str](event.event for event in journal)
        self.nodes: Final[list[str]] = []
        self._nodes: Final[dict[str, int]] = {}
        self.messages: Final[list[MessageId]] = []
        self._messages: Final[dict[tuple[str, int], int]] = {}
        # By message: where it was multicast, or NEVER.
        self.multicast_at: Final[list[int]] = []
        # By sender: its messages in the order in which it multicast them.
        self.streams: Final[dict[str, list[int]]] = {}
        # By message: the nodes that delivered it.
        self.delivered: Final[list[int]] = []
        # By node and sender: the first seq that a node which came later expects.
        self.joins: Final[dict[tuple[int, str], int]] = {}
        self._first_at: Final[dict[int, int]] = {}
        self._gone: Final[set[int]] = set()
        # By node: where its log says that it ended by itself, and with how many messages waiting.
        self._ends: Final[dict[int, tuple[int, int]]] = {}
        # By node: where it multicast last.
        self._sent_at: Final[dict[int, int]] = {}
        # Nodes that left when what they sent and took was safe at the others.
        self.settled = 0
        for name in self.header.members:
            self.node(name)
        self.initial: Final = (1 << len(self.nodes)) - 1
        self.steps: Final = list(self._read())
        # Those that neither crashed nor left. A node of which a later life is known crashed, too.
        self.correct: Final = self._correct()
        # Those that ended by themselves.
        self.ended: Final = sum(1 << node for node in self._ends)
        # Those that are owed something for what they delivered or sent: also who left settled. It
        # owes nothing itself any more.
        self.trusted: Final = self.correct | self.settled

    @staticmethod
    def of(log: "Journal | History") -> "History":
        """The history of a journal, unless it is one already."""
        return log if isinstance(log, History) else History(log)

    # -- names -------------------------------------------------------------------------------------

    def node(self, name: str) -> int:
        """The number of a node."""
        at = self._nodes.get(name)
        if at is None:
            parse_node(name)
            at = self._nodes[name] = len(self.nodes)
            self.nodes.append(name)
        return at

    def only(self, name: str) -> int:
        """The set of this node alone; empty if no such node is known."""
        at = self._nodes.get(name)
        return 0 if at is None else 1 << at

    def nodes_in(self, mask: int) -> Iterator[int]:
        """The nodes of a set, in order."""
        while mask:
            low = mask & -mask
            yield low.bit_length() - 1
            mask ^= low

    def event(self, step: Step) -> Event:
        """The event as it stands in the journal."""
        return self.journal.events[step.at]

    @property
    def end_ns(self) -> int:
        """When the journal ends."""
        return max((event.time_ns for event in self.journal.events[-1:]), default=0)

    def multicast_before(self, message: int, at: int) -> bool:
        """Whether a message was multicast before this position, as far as the journal can tell."""
        position = self.multicast_at[message]
        return position < at if self.header.one_order else position != NEVER

    # -- who has what ------------------------------------------------------------------------------

    @cached_property
    def relation(self) -> Relation:
        """Who replaces whom, by all annotations multicast; empty if nothing was to be purged.

        With an empty relation semantic reliability is plain reliability (SRM §4.2).
        """
        relation = Relation(self.multicast_at)
        if self.header.purging:
            for step in self.steps:
                if step.event == "multicast" and self.multicast_at[step.message] == step.at:
                    event = self.event(step)
                    if event.rank is not None:
                        relation.add_ranked(step.message, event)
                    elif event.obsoletes:
                        relation.add_unranked(step.message, self._named(step, event.obsoletes))
        relation.finish()
        return relation

    def _named(self, step: Step, distances: tuple[int, ...]) -> tuple[int, ...]:
        """The messages at these distances: those that there are, nearest first."""
        sender, seq = self.messages[step.message]
        found = []
        for distance in sorted(distances):
            named = self._messages.get((sender, seq - distance))
            # A message replaces what was multicast before it and nothing else.
            if named is not None and self.multicast_at[named] < step.at:
                found.append(named)
        return tuple(found)

    @cached_property
    def satisfied(self) -> list[int]:
        """By message m: the nodes that have delivered some m' with m ⊑ m' or need not deliver any.

        A node that came later has what lies before its join point by other means; and so, if it is
        not to deliver its own messages, has a sender those.
        """
        had = list(self.delivered)
        for sender, stream in self.streams.items():
            if not self.header.deliver_own:
                for message in stream:
                    had[message] |= self.only(sender)
            points = [(self._join_point(node, sender), node) for node in range(len(self.nodes))]
            self._mark_before(had, stream, sorted(point for point in points if point[0] > 1))
        return self.relation.spread(had)

    def _mark_before(
        self, had: list[int], stream: list[int], points: list[tuple[int, int]]
    ) -> None:
        """Every node of `points`, lowest first, has the messages of the stream before its point."""
        if not points:
            return
        mask = 0
        for message in sorted(stream, key=lambda message: -self.messages[message].seq):
            while points and points[-1][0] > self.messages[message].seq:
                mask |= 1 << points.pop()[1]
            had[message] |= mask

    def _join_point(self, node: int, sender: str) -> int:
        """The first seq of this sender that a node owes anything about.

        All of it, if it was there from the start. Otherwise from where it says that it joined. One
        that never said so owes what was multicast after it came, if that can be told.
        """
        if (self.initial >> node) & 1 or self._nodes.get(sender) == node:
            return 1
        told = self.joins.get((node, sender))
        if told is not None:
            return told
        if self.header.one_order:
            came = self._first_at[node]
            for message in self.streams[sender]:
                if self.multicast_at[message] > came:
                    return self.messages[message].seq
        return NEVER

    # -- reading -----------------------------------------------------------------------------------

    def _read(self) -> Iterator[Step]:
        for at, event in enumerate(self.journal):
            node = self._nodes.get(event.node, -1)
            if node < 0:
                node = self.node(event.node)
            self._first_at.setdefault(node, at)
            message = by = -1
            if event.event in _ABOUT_MESSAGES:
                message = self._message(event, event.sender, event.seq)
                if event.by_seq is not None:
                    by = self._message(event, event.by_sender, event.by_seq)
                if event.event == "multicast":
                    self._sent_at[node] = at
                    self._on_multicast(message, at)
                elif event.event == "deliver":
                    self.delivered[message] |= 1 << node
            elif event.event in ("crash", "leave"):
                self._gone.add(node)
            elif event.event == "end":
                self._ends[node] = (at, max(event.seq or 0, self._ends.get(node, (0, 0))[1]))
            elif event.event == "settled":
                self.settled |= 1 << node
            elif event.event == "join" and event.sender is not None and event.seq is not None:
                self.joins.setdefault((node, event.sender), event.seq)
            yield Step(at, event.event, node, message, by)

    def _message(self, event: Event, sender: str | None, seq: int | None) -> int:
        if sender is None or seq is None:
            raise InputError(
                f"event {event.lsn} ({event.event}) of {event.node} does not say which message; "
                "sender and seq are needed, and both of the cover if there is one"
            )
        number = self._messages.get((sender, seq))
        if number is None:
            number = self._messages[sender, seq] = len(self.messages)
            self.messages.append(MessageId(sender, seq))
            self.multicast_at.append(NEVER)
            self.delivered.append(0)
        return number

    def _on_multicast(self, message: int, at: int) -> None:
        # If a message was multicast twice, which is a violation, the first time counts.
        if self.multicast_at[message] == NEVER:
            self.multicast_at[message] = at
            self.streams.setdefault(self.messages[message].sender, []).append(message)

    def _correct(self) -> int:
        newest: dict[int, int] = {}
        for name in self.nodes:
            sender, incarnation = parse_node(name)
            newest[sender] = max(newest.get(sender, 0), incarnation)
        mask = 0
        for at, name in enumerate(self.nodes):
            sender, incarnation = parse_node(name)
            left = at in self._gone or self._ended_early(at)
            if not left and incarnation == newest[sender]:
                mask |= 1 << at
        return mask

    def _ended_early(self, node: int) -> bool:
        """Whether it ended while others went on, or with messages waiting; as in `journal.lives`,
        where the logs of single lives are through with it.
        """
        if not self.header.one_order or node not in self._ends:
            return False
        end_at, waiting = self._ends[node]
        return waiting > 0 or any(
            at > end_at for other, at in self._sent_at.items() if other != node
        )
