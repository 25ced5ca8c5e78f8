"""Safe purging (SRM §4.3, Figure 4): what others may ask for is purged only for a message that is
safe, that is, received by more than f processes; S-RM rests on it. Holds on every prefix.

A process that skips a message counts as having it once it has what it skipped it for, or that is
safe: as Figure 4's safe(m) counts whoever received some m' with m ⊑ m'. A cover that everybody has
who is left will do as well. Only a log in one order can show any of this; others are not judged.
"""

from collections import defaultdict
from typing import Final, final

from semcast.check.history import History, Step
from semcast.check.violation import Violation
from semcast.journal import Journal, parse_node

PROPERTY: Final = "Safe Purging"


def check(log: Journal | History) -> list[Violation]:
    """Count, at each purge from retransmission, who has its cover by then."""
    history = History.of(log)
    if history.header.reliability != "group" or not history.header.one_order:
        return []
    return _Check(history).run()


@final
class _Check:
    def __init__(self, history: History) -> None:
        self.history: Final = history
        self.senders: Final = [parse_node(name)[0] for name in history.nodes]
        # By message: the nodes that have it so far. INV-SAFE: `safe` are the messages that more
        # than f members have; members and not nodes, since a life takes its messages with it.
        self.having: Final = [0] * len(history.messages)
        self.safe: Final[set[int]] = set()
        # By message, and by node and message: which nodes skipped what for it and do not have it
        # yet. Each is settled at most once, so that a whole log takes one pass.
        self.until_safe: Final[defaultdict[int, list[tuple[int, int]]]] = defaultdict(list)
        self.until_there: Final[defaultdict[tuple[int, int], list[int]]] = defaultdict(list)
        self.present = history.initial

    def run(self) -> list[Violation]:
        found = []
        for step in self.history.steps:
            if step.event in ("receive", "multicast"):
                self.has(step.node, step.message)
            elif step.event == "skip":
                self.on_skip(step)
            elif step.event in ("crash", "leave"):
                self.present &= ~(1 << step.node)
            elif step.event == "purge" and step.by >= 0 and not self.allowed(step):
                found.append(self.violation(step))
        return found

    def allowed(self, step: Step) -> bool:
        return (
            self.history.event(step).where != "retransmit"
            or step.by in self.safe
            or not self.present & ~self.having[step.by]
        )

    def on_skip(self, step: Step) -> None:
        cover = step.by
        if cover < 0:
            return
        there = (self.having[cover] >> step.node) & 1
        # Skipped for itself: whoever purged it, when that was safe, has forgotten for what.
        if there or cover in self.safe or cover == step.message:
            self.has(step.node, step.message)
        else:
            self.until_safe[cover].append((step.node, step.message))
            self.until_there[step.node, cover].append(step.message)

    def has(self, node: int, message: int) -> None:
        """A node has a message; what follows from that for others follows at once."""
        news = [(node, message)]
        while news:
            node, message = news.pop()
            if (self.having[message] >> node) & 1:
                continue
            self.having[message] |= 1 << node
            news += [(node, older) for older in self.until_there.pop((node, message), ())]
            if message not in self.safe and self.members(message) > self.history.header.f:
                self.safe.add(message)
                news += self.until_safe.pop(message, ())

    def members(self, message: int) -> int:
        """How many members have it."""
        having = self.history.nodes_in(self.having[message])
        return len({self.senders[node] for node in having})

    def violation(self, step: Step) -> Violation:
        event = self.history.event(step)
        name, cover = self.history.messages[step.message], self.history.messages[step.by]
        text = (
            f"{event.node} purges {name} from retransmission for {cover}, which is not safe: "
            f"{self.members(step.by)} have it, and {self.history.header.f + 1} must"
        )
        return Violation(PROPERTY, text, event.node, (name, cover), event.time_ns)
