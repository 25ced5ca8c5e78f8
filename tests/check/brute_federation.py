"""What a federation promises, by its definitions (PROP §1, §3.1, §5.2), as in `brute`.

The three orders are told as pairs or cycles of messages, of which a kernel tells some: here are all
pairs, and whether there is a cycle at all.
"""

from itertools import combinations, permutations

from tests.check.brute import Facts, Found, name

from semcast.check import MessageId
from semcast.journal import Event, Journal, keys_in, parse_node

Pair = tuple[MessageId, MessageId]


class Sites(Facts):
    """What the definitions speak of."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(journal)
        self.atomic = self.header.recovery == "atomic"
        self.lives: dict[int, list[str]] = {}
        for one in sorted(self.nodes, key=parse_node):
            self.lives.setdefault(parse_node(one)[0], []).append(one)
        # Deliveries that were undone, each by its place, with the place of what undid it.
        self.undone: dict[int, int] = {}
        self.strays: list[int] = []
        for lives in self.lives.values():
            self._undo(lives)

    def of(self, node: str, *kinds: str) -> list[tuple[int, Event]]:
        return list(self.before(len(self.events), node, *kinds))

    def _undo(self, lives: list[str]) -> None:
        standing: list[int] = []
        for life in lives:
            for at, event in self.of(life, "deliver", "undo"):
                if event.event == "deliver":
                    standing.append(at)
                    continue
                same = [one for one in standing if name(self.events[one]) == name(event)]
                if same:
                    standing.remove(same[-1])
                    self.undone[same[-1]] = at
                else:
                    self.strays.append(at)

    def is_correct(self, node: str) -> bool:
        return super().is_correct(node) and not self.of(node, "out")

    def final(self, node: str) -> str:
        return self.lives[parse_node(node)[0]][-1]

    def trusts(self, node: str) -> bool:
        """Correct until it left; with the atomic recovery, what its site is in the end."""
        if node not in self.nodes:
            return False
        return self.is_trusted(self.final(node) if self.atomic else node)

    def opens(self, node: str) -> list[tuple[int, list[str]]]:
        lives = self.lives[parse_node(node)[0]]
        whose = lives[: lives.index(node) + 1] if self.atomic else [node]
        found = [event for one in whose for _, event in self.of(one, "open")]
        told = [(event.seq or 0, keys_in(event.key) if event.key else []) for event in found]
        return sorted(told, key=lambda one: one[0])

    def is_member(self, node: str, group: str, graph: int) -> bool:
        before = [groups for number, groups in self.opens(node) if number <= graph]
        return bool(before) and group in before[-1]

    def newest(self) -> int:
        return max(event.seq or 0 for event in self.events if event.event == "open")

    def resumed_by(self, life: str) -> list[str]:
        return [
            event.node for event in self.events if event.event == "resume" and event.sender == life
        ]

    def is_lost(self, life: str) -> bool:
        if self.atomic:
            return False
        if self.of(life, "crash", "out"):
            return True
        if self.of(life, "leave", "end"):
            return False
        opened = self.opens(life)
        behind = bool(opened) and bool(opened[-1][1]) and opened[-1][0] < self.newest()
        return behind or self.final(life) != life

    def owes(self, site: int) -> bool:
        """Whether it was told to undo more than it undid."""
        told = [event.seq or 0 for one in self.lives[site] for _, event in self.of(one, "resume")
                if event.sender in self.nodes]  # fmt: skip
        return sum(told) > sum(len(self.of(one, "undo")) for one in self.lives[site])

    def remembers(self, life: str, former: str) -> bool:
        """Whether a life begins with the memory of a former one, or with that of a life between
        them that remembers it; or of one before it, since the memory of a site goes on.
        """
        lives = self.lives[parse_node(life)[0]]
        known = [event.sender for _, event in self.of(life, "recall")][-1:]
        if not known or known[0] not in lives[: lives.index(life)]:
            return False
        if lives.index(known[0]) <= lives.index(former) < lives.index(life):
            return True
        return self.remembers(known[0], former)

    def sequence(self, site: int) -> list[tuple[int, MessageId]]:
        """What a site delivered, in the lives whose order counts; each message once."""
        found: list[tuple[int, MessageId]] = []
        for life in self.lives[site]:
            if self.is_lost(life) and (not self.resumed_by(life) or self.owes(site)):
                continue
            for at, event in self.of(life, "deliver"):
                if at not in self.undone and name(event) not in [one for _, one in found]:
                    found.append((at, name(event)))
        return found

    def orders(self) -> list[list[MessageId]]:
        return [[one for _, one in self.sequence(site)] for site in self.lives]

    def group(self, about: MessageId) -> str | None:
        return next(
            event.group
            for event in self.events
            if (event.sender, event.seq) == about and event.event == "deliver"
        )

    def stands(self, node: str, about: MessageId) -> bool:
        """Whether any life of a node's site delivered it and did not undo it after that."""
        lives = self.lives[parse_node(node)[0]]
        times = 0
        for life in lives:
            for _, event in self.of(life, "deliver", "undo"):
                if name(event) == about:
                    times = max(0, times + (1 if event.event == "deliver" else -1))
        return times > 0

    def undid(self, node: str, about: MessageId) -> bool:
        lives = self.lives[parse_node(node)[0]]
        return any(self.happened(len(self.events), life, "undo", about) for life in lives)

    def has(self, node: str, about: MessageId) -> bool:
        return self.stands(node, about)


def single_source_order(journal: Journal) -> Found:
    facts = Sites(journal)
    return {
        (event.time_ns, name(event))
        for at, event in enumerate(journal.events)
        if event.event == "deliver"
        and not undid_itself(facts, at)
        and name(event) in facts.multicasts
        for before, earlier in facts.before(at, event.node, "deliver")
        if not undid_itself(facts, before)
        and earlier.sender == event.sender
        and name(earlier) in facts.multicasts
        and sent_to(facts, name(earlier)) == sent_to(facts, name(event))
        and facts.multicasts[name(event)] < facts.multicasts[name(earlier)]
    }


def sent_to(facts: Facts, about: MessageId) -> str | None:
    return facts.events[facts.multicasts[about]].group


def undid_itself(facts: Sites, at: int) -> bool:
    by = facts.undone.get(at)
    return by is not None and facts.events[by].node == facts.events[at].node


def inversions(facts: Sites) -> set[Pair]:
    """All pairs that two sites deliver in different orders, each once in either order."""
    return {
        pair
        for one, other in permutations(facts.orders(), 2)
        for first, second in combinations(one, 2)
        if first in other and second in other and other.index(second) < other.index(first)
        for pair in ((first, second), (second, first))
    }


def multiple_group_order(journal: Journal) -> set[Pair]:
    return inversions(Sites(journal))


def multiple_source_order(journal: Journal) -> set[Pair]:
    facts = Sites(journal)
    return {pair for pair in inversions(facts) if facts.group(pair[0]) == facts.group(pair[1])}


def is_before(facts: Sites) -> set[Pair]:
    """The transitive closure of what all sites say."""
    closure = {pair for one in facts.orders() for pair in combinations(one, 2)}
    while True:
        more = {(a, d) for a, b in closure for c, d in closure if b == c} - closure
        if not more:
            return closure
        closure |= more


def is_cyclic(journal: Journal) -> bool:
    return any(a == b for a, b in is_before(Sites(journal)))


def rollback(journal: Journal) -> set[tuple[int, MessageId | None]]:
    facts = Sites(journal)
    found: set[tuple[int, MessageId | None]] = set()
    events = journal.events
    for site, lives in facts.lives.items():
        found |= _delivered_again(facts, site)
        whole = facts.header.one_order or not any(facts.of(life, "crash") for life in lives)
        for at in facts.strays:
            if events[at].node in lives and whole:
                found.add((events[at].time_ns, name(events[at])))
        for life in lives:
            if facts.atomic:
                found |= {(event.time_ns, name(event)) for _, event in facts.of(life, "undo")}
            else:
                found |= _told(facts, lives, life)
                found |= _untold(facts, lives, life)
    return found


def _delivered_again(facts: Sites, site: int) -> set[tuple[int, MessageId | None]]:
    once = {about: facts.events[at].node for at, about in facts.sequence(site)}
    return {
        (event.time_ns, name(event))
        for life in facts.lives[site]
        if not facts.is_lost(life) or (facts.resumed_by(life) and not facts.owes(site))
        for at, event in facts.of(life, "deliver")
        if at not in facts.undone and once[name(event)] != life
    }


def _told(facts: Sites, lives: list[str], former: str) -> set[tuple[int, MessageId | None]]:
    """What is undone of a life is a tail, and as much as later ones were told."""
    found: set[tuple[int, MessageId | None]] = set()
    if not facts.resumed_by(former):
        return found
    flags = [at in facts.undone for at, _ in facts.of(former, "deliver")]
    if sorted(flags) != flags:
        first = [at for at, _ in facts.of(former, "deliver")][flags.index(True)]
        at = facts.undone[first]
        found.add((facts.events[at].time_ns, name(facts.events[first])))
    told = [
        (life, event)
        for life in lives
        for _, event in facts.of(life, "resume")
        if event.sender in facts.nodes
    ]
    asked = sum(event.seq or 0 for _, event in told)
    undone = sum(at in facts.undone for life in lives for at, _ in facts.of(life, "deliver"))
    life, last = told[-1]
    later = [one for one in lives if one == life or facts.remembers(one, life)]
    goes_on = any(
        event.time_ns > last.time_ns for one in later for _, event in facts.of(one, "deliver")
    )
    whole = facts.header.one_order or not any(facts.of(one, "crash") for one in lives)
    if undone != asked and goes_on and whole:
        found.add((last.time_ns, None))
    return found


def _untold(facts: Sites, lives: list[str], life: str) -> set[tuple[int, MessageId | None]]:
    """It is in a graph without knowing what became of a former life that it remembers."""
    mine = facts.of(life, "deliver")
    if not mine or not facts.opens(life) or not facts.header.recovery:
        return set()
    until = lives[: lives.index(life) + 1]
    for former in until[:-1]:
        told = [one for one in facts.resumed_by(former) if one in until]
        standing = [at for at, _ in facts.of(former, "deliver") if at not in facts.undone]
        failed = bool(facts.of(former, "out", "crash") and facts.opens(former))
        earlier = any(
            facts.of(one, "deliver") and facts.opens(one) and facts.remembers(one, former)
            for one in until[:-1]
        )
        if failed and facts.remembers(life, former) and standing and not told and not earlier:
            return {(mine[0][1].time_ns, name(mine[0][1]))}
    return set()


def member_delivery(journal: Journal) -> Found:
    facts = Sites(journal)
    found: Found = set()
    for m in facts.multicasts:
        group = sent_to(facts, m)
        assert group is not None
        covering = [other for other in facts.multicasts if facts.replaced_or_same(m, other)]
        came = [one for one in covering if received(facts, one)]
        members = [
            node
            for node in facts.nodes
            if facts.is_correct(node)
            and always_in(facts, node, group)
            and not facts.satisfied(node, m)
        ]
        if not came and facts.trusts(m.sender) and members:
            found.add((m.sender, m))
        for node in facts.nodes:
            lacks = facts.is_correct(node) and not facts.satisfied(node, m)
            if lacks and owes(facts, node, m, group):
                found.add((node, m))
    return found


def received(facts: Sites, about: MessageId) -> list[tuple[str, int]]:
    """Who received a message, under which graph."""
    return [
        (event.node, -1 if event.view is None else event.view)
        for event in facts.events
        if event.event == "receive" and name(event) == about
    ]


def owes(facts: Sites, node: str, m: MessageId, group: str) -> bool:
    came = received(facts, m)
    for graph in {graph for _, graph in came}:
        kept = [
            one for one, under in came
            if under == graph and facts.trusts(one) and not facts.undid(one, m)
        ]  # fmt: skip
        if kept and any(number == graph and group in one for number, one in facts.opens(node)):
            return True
        since = [groups for number, groups in facts.opens(node) if number > graph]
        stays = facts.is_member(node, group, graph) and all(group in groups for groups in since)
        if not kept and facts.trusts(m.sender) and stays:
            return True
    lives = facts.lives[parse_node(node)[0]]
    undid = [
        at for at, life in enumerate(lives) for _, event in facts.of(life, "undo")
        if name(event) == m
    ]  # fmt: skip
    former = lives[: max(undid, default=0)]
    known = [number for one in former for number, _ in facts.opens(one)]
    others = [
        one for one, graph in came
        if one != node and facts.is_correct(one) and graph <= max(known, default=-1)
    ]  # fmt: skip
    return facts.undid(node, m) and facts.is_member(node, group, facts.newest()) and bool(others)


def always_in(facts: Sites, node: str, group: str) -> bool:
    """Whether a node has been in a group since the first graph of all."""
    opened = facts.opens(node)
    first = min(event.seq or 0 for event in facts.events if event.event == "open")
    return bool(opened) and opened[0][0] == first and all(group in one for _, one in opened)


def addressees(journal: Journal) -> Found:
    """Who receives what it should not."""
    facts = Sites(journal)
    found: Found = set()
    for event in journal.events:
        if event.event != "receive":
            continue
        graph = -1 if event.view is None else event.view
        opened = facts.opens(event.node)
        unknown = not opened or opened[0][0] > graph
        group = event.group or ""
        sent = name(event) in facts.multicasts and sent_to(facts, name(event))
        wrong = bool(sent) and sent != group
        if wrong or not (unknown or facts.is_member(event.node, group, graph)):
            found.add((event.time_ns, name(event)))
    return found
