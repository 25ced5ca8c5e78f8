"""Random small journals: runs of a toy protocol that mostly does right, with mischief in between.

`journals()` is a Hypothesis strategy. Two senders, three nodes and perhaps restarted ones, of which
one sends too; few messages with all kinds of annotations. Mischief is any event about any message.
"""

import random
from collections.abc import Callable

from hypothesis import strategies as st
from tests.check.brute import Facts
from tests.check.log import Log

from semcast.check import MessageId
from semcast.journal import Journal

NODES = ("p1.1", "p2.1", "p3.1")
# The last is another life of the first.
SENDERS = ("p1.1", "p2.1", "p1.2")
Choose = Callable[[int], int]


def text(about: MessageId) -> str:
    return f"{about.sender}#{about.seq}"


class Run:
    """A run in which everything is decided by `choose(n)`, a number below n."""

    def __init__(self, choose: Choose) -> None:
        self.choose = choose
        # In an open group nobody is there from the start, and views say who is there.
        self.open = not choose(3)
        self.log = Log(
            members=() if self.open else NODES,
            membership="open" if self.open else "closed",
            state=("none", "keys")[choose(2)],
            reliability="group" if choose(4) else "sender",
            deliver_own=bool(choose(6)),
            f=1 + choose(5) // 4,
            purging=bool(choose(10)),
            one_order=bool(choose(10)),
            delivery_messages=choose(3),
            delivery_bytes=choose(2) * 25,
            window_messages=choose(3) * 2,
            window_bytes=choose(2) * 20,
            total_messages=choose(3) * 4,
        )
        self.sent = dict.fromkeys(SENDERS, 0)
        self.nodes = [*NODES]
        self.next: dict[tuple[str, str], int] = {}
        self.held: dict[str, list[MessageId]] = {node: [] for node in NODES}
        self.view = 0
        self.change_view()

    def run(self, steps: int) -> Journal:
        actions = [self.multicast] * 4 + [self.receive] * 8 + [self.deliver] * 5
        actions += [self.stable] * 2 + [self.mischief, self.end, self.ignore]
        come = steps * 3 // 4 if self.choose(4) else steps
        for step in range(steps):
            actions[self.choose(len(actions))]()
            if step == come:
                self.begin("p4.1")
        if self.choose(4):
            self.come_to_rest()
        if not self.choose(3):
            self.end_by_themselves()
        return self.log.journal

    def sender(self) -> str:
        """One that sends, or has sent."""
        there = [one for one in SENDERS if one in self.nodes or self.sent[one]]
        return there[self.choose(len(there))]

    def multicast(self) -> None:
        sender = self.sender()
        if self.sent[sender] == 5 or sender not in self.nodes:
            return
        self.sent[sender] += 1
        about = f"{sender}#{self.sent[sender]}"
        kind = self.choose(16)
        if kind < 3:
            self.log.multicast(about)
        elif kind == 3:
            self.log.multicast(about, key="a", rank=self.choose(4))
        elif kind < 6 or kind > 10:
            self.log.multicast(about, *self.mark(), key="ab"[self.choose(4) // 3])
        elif kind > 8:
            keys = ('keys:["a", "b"]', 'keys:["b", "c"]', 'keys:["a", "a"]', "keys:[")
            self.log.multicast(about, *self.mark(), key=keys[self.choose(4)])
        else:
            distances = [d for d in range(1, self.sent[sender] + 1) if self.choose(2)]
            self.log.multicast(about, *distances)

    def mark(self) -> tuple[int, ...]:
        """It replaces by key; or the one before, whatever that is about; or nothing, as with a
        bitmap when the last of the key was too long ago.
        """
        return ((0,), (0,), (0,), (1,), (), ())[self.choose(6)]

    def receive(self, node: str = "", sender: str = "") -> None:
        node = node or self.nodes[self.choose(len(self.nodes))]
        sender = sender or self.sender()
        seq = self.next.get((node, sender), 1)
        if seq > self.sent[sender] or (node == sender and not self.log.journal.header.deliver_own):
            return
        self.next[node, sender] = seq + 1
        about = MessageId(sender, seq)
        facts = Facts(self.log.journal)
        if not self.choose(15):
            return  # lost without a word
        covers = [other for other in facts.multicasts if facts.replaced(about, other)]
        if covers and not self.choose(3):
            chosen = [*covers, about][self.choose(len(covers) + 1)]
            self.log.skip(node, text(about), text(chosen))
            return
        self.log.receive(node, text(about))
        for victim in [one for one in self.held[node] if facts.replaced(one, about)]:
            self.held[node].remove(victim)
            self.log.purge(node, text(victim), text(about))
            if self.choose(3):
                self.log.purge(node, text(victim), text(about), "retransmit")
        self.held[node].append(about)

    def change_view(self) -> None:
        """Everybody who is there goes by the next view, if the group is open."""
        self.view += 1
        for node in self.nodes if self.open else []:
            if self.choose(3):
                self.log.view(node, self.view, *self.nodes)
            else:
                self.wrong_view(node)

    def ignore(self) -> None:
        """A message comes that is not wanted."""
        node, sender = self.nodes[self.choose(len(self.nodes))], self.sender()
        seq = self.next.get((node, sender), 1)
        if seq <= self.sent[sender] and node != sender:
            self.next[node, sender] = seq + 1
            self.log.ignore(node, f"{sender}#{seq}")

    def deliver(self, node: str = "") -> None:
        node = node or self.nodes[self.choose(len(self.nodes))]
        if self.held[node]:
            # Out of order, now and then.
            at = 0 if self.choose(2) else self.choose(len(self.held[node]))
            self.log.deliver(node, text(self.held[node].pop(at)))

    def stable(self) -> None:
        sender = self.sender()
        everybody = sorted(self.next.get((node, sender), 1) - 1 for node in self.nodes)
        # A node too few, now and then.
        up_to = everybody[0 if self.choose(4) else 1]
        if up_to > 0:
            self.log.stable(self.nodes[0], f"{sender}#{up_to}")

    def end(self) -> None:
        """A node crashes, and perhaps comes back with another life."""
        if self.choose(2) or len(self.nodes) < 3:
            return
        node = self.nodes.pop(self.choose(3))
        how = "leave" if not self.choose(4) else "crash"
        if how == "leave" and self.choose(2):
            self.log.world(node, "settled")
        self.log.world(node, how)
        back = {"p3.1": "p3.2", "p1.1": "p1.2"}.get(node)
        if back is None or not self.choose(3):
            self.change_view()
            return
        self.begin(back)

    def begin(self, node: str) -> None:
        """A node begins somewhere in each stream."""
        self.nodes.append(node)
        self.held[node] = []
        self.change_view()
        for sender in SENDERS:
            point = self.sent[sender] + 1 - self.choose(2) * self.choose(self.sent[sender] + 1)
            if self.choose(5):
                self.log.join(node, f"{sender}#{point}")
                self.next[node, sender] = point
                self.give_state(node, sender, point)

    def give_state(self, node: str, sender: str, point: int) -> None:
        """Somebody who comes back gets what stands before the point where it begins."""
        facts = Facts(self.log.journal)
        stands = [
            one
            for one in facts.multicasts
            if one.sender == sender
            and one.seq < point
            and not any(
                other.seq < point and facts.replaced(one, other) for other in facts.multicasts
            )
        ]
        for one in stands:
            if not self.choose(3):
                self.log.state(node, text(one))

    def end_by_themselves(self) -> None:
        """Some end, perhaps with messages waiting; and perhaps somebody goes on after it."""
        for node in self.nodes:
            if self.choose(4):
                now_ns, waiting = len(self.log.journal) + 1, len(self.held[node])
                self.log.journal.record(now_ns, node, "end", seq=waiting)
            if not self.choose(6):
                self.multicast()

    def mischief(self) -> None:
        node = [*NODES, "p3.2"][self.choose(4)]
        about, other = (f"{self.sender()}#{1 + self.choose(6)}" for _ in range(2))
        kind = self.choose(14 if self.open else 10)
        if kind == 8:
            self.log.state(node, about)
        elif kind == 9:
            self.log.ignore(node, about)
        elif kind > 9:
            self.wrong_view(node)
        elif kind == 0:
            self.log.deliver(node, about)
        elif kind == 1:
            self.log.receive(node, about)
        elif kind == 2:
            self.log.skip(node, about, other)
        elif kind == 3:
            self.log.purge(node, about, None if not self.choose(4) else other)
        elif kind == 4:
            self.log.purge(node, about, other, "retransmit")
        elif kind == 5:
            self.log.stable(node, about)
        elif kind == 6:
            self.log.event(node, "multicast", about, obsoletes=(1,))
        else:
            self.log.purge(node, about, other, "network")

    def wrong_view(self, node: str) -> None:
        """A view that is an old one, of another group, of others, or with another content."""
        number = self.view + self.choose(3) - 1
        digest = self.choose(2) * 77
        members = [*self.nodes, node] if self.choose(2) else self.nodes
        self.log.view(node, number, *members, digest=digest, origin=9 - self.choose(3) // 2)

    def come_to_rest(self) -> None:
        """Everybody who is left gets everything, as far as mischief allows."""
        for node in self.nodes:
            for sender in SENDERS:
                while self.next.get((node, sender), 1) <= self.sent[sender]:
                    before = self.next.get((node, sender), 1)
                    self.receive(node, sender)
                    if self.next.get((node, sender), 1) == before:
                        break
            while self.held[node]:
                self.deliver(node)


@st.composite
def journals(draw: st.DrawFn, steps_max: int = 60) -> Journal:
    """Any run of at most so many steps, and perhaps the rest that follows.

    The choices come from a seed: drawn one by one, most would be 0, and most runs dull.
    """
    stream = random.Random(draw(st.integers(0, 2**32 - 1)))
    return Run(stream.randrange).run(draw(st.integers(10, steps_max)))


@st.composite
def spread(draw: st.DrawFn) -> Journal:
    """Three nodes that gossip; what each gets is a matter of luck, and of who came and went."""
    choose = random.Random(draw(st.integers(0, 1 << 30))).randrange
    luck = (100, 98, 90, 60)[choose(4)]
    live, ended = not choose(3), bool(choose(2))
    late = NODES[2] if not choose(4) else None
    log = Log(
        members=tuple(node for node in NODES if node != late),
        reliability="gossip",
        one_order=not live,
        deliver_own=bool(choose(4)),
    )
    gone: list[str] = []
    for number in range(10 + choose(50)):
        about = f"{NODES[number % 2]}#{1 + number // 2}"
        sender = about.split("#")[0]
        if sender in gone:
            continue
        by_rank = not choose(8)
        key = f"k{choose(30)}" if by_rank or not choose(4) else None
        distances = () if by_rank or key is None else (0,)
        log.multicast(about, *distances, key=key, rank=choose(5) if by_rank else None)
        for node in NODES:
            if node not in gone and (node != late or number > 20) and choose(100) < luck:
                log.event(node, ("deliver", "state", "ignore")[choose(30) // 28], about)
        if not choose(60):
            gone.append(NODES[choose(3)])
            log.event(gone[-1], ("crash", "leave", "settled")[choose(3)], about)
    for node in NODES if ended else ():
        log.journal.record(len(log.journal) + 1, node, "end", seq=0)
    return log.journal


@st.composite
def gossiped(draw: st.DrawFn) -> Journal:
    """Two nodes that gossip about a few messages, mostly as they should."""
    choose = random.Random(draw(st.integers(0, 1 << 30))).randrange
    log = Log(members=NODES, reliability="gossip")
    names = [f"{sender}#{seq}" for sender in NODES[:2] for seq in (1, 2, 3)]
    here: dict[str, list[str]] = {node: [] for node in NODES}
    for _ in range(choose(25)):
        node, kind = NODES[choose(3)], choose(20)
        known = here[node]
        about = names[choose(len(names))]
        if kind < 3:
            log.event(about.split("#")[0], "multicast", about, obsoletes=())
            here[about.split("#")[0]].append(about)
        elif kind < 9 and about not in known:
            log.receive(node, about)
            known.append(about)
        elif kind < 16 and known:
            log.event(node, "relay", known[choose(len(known))])
        elif kind < 19 and known:
            where = ("relay", "gossip", "link")[choose(3)]
            log.purge(node, known[choose(len(known))], names[choose(len(names))], where)
        elif kind == 19:
            log.event(node, ("relay", "ignore", "drop")[choose(3)], about)
    return log.journal
