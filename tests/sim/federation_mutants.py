"""Broken variants of the sites of federations (PROP): with the propagation graph, in two phases."""

from typing import Final

from tests.sim.variant import Mutant, Patch

FEDERATION_MUTANTS: Final = (
    Mutant(
        "propagation: of a purged message another cover is told",
        "federations",
        (
            Patch(
                "protocol/propagation/line.py",
                "victim.purged(int(one.cover.seq))",
                "victim.purged(victim.seq + 1)",
            ),
        ),
        first=136,
        breaks="Accounting",
    ),
    Mutant(
        "propagation: a site catches up with the last one first",
        "federations",
        (
            Patch(
                "protocol/propagation/catching.py",
                "        self._missing.extend(missing)\n",
                "        self._missing.extend(reversed(missing))\n",
            ),
        ),
        first=54,
        breaks="Multiple Group Order",
    ),
    Mutant(
        "propagation: a bounce makes the source resend only the bounced message",
        "federations",
        (
            Patch(
                "protocol/propagation/own.py",
                "        for entry in own.take_back():\n",
                "        for entry in own.take_back()[:1]:\n",
            ),
        ),
        first=114,
        breaks="Member Delivery",
    ),
    Mutant(
        "propagation: Open is passed on last, behind what was held",
        "federations",
        (
            Patch(
                "protocol/propagation/turns.py",
                "                line.put_order(record)\n        self.passing = Passing(",
                "                self.later.append((line, record))\n"
                "        self.passing = Passing(",
            ),
            Patch(
                "protocol/propagation/turns.py",
                "        self.frozen = False\n        # By group",
                "        self.frozen = False\n"
                "        self.later: list[tuple[Line, bytes]] = []\n"
                "        # By group",
            ),
            Patch(
                "protocol/propagation/turns.py",
                "            going = self._serve_own() or going\n",
                "            going = self._serve_own() or going\n"
                "        for line, record in self.later:\n"
                "            line.put_order(record)\n"
                "        self.later.clear()\n",
            ),
        ),
        first=43,
        breaks="Member Delivery",
    ),
    Mutant(
        "propagation: a piece that came before waits again, and blocks the queue",
        "federations",
        (
            Patch(
                "protocol/propagation/lanes.py",
                "        if number < self.next or number > self.limit"
                " or int(number) in self._waiting:\n",
                "        if number > self.limit or int(number) in self._waiting:\n",
            ),
            Patch(
                "protocol/propagation/lanes.py",
                "            waiting = self._waiting.pop(int(self.next), None)\n"
                "            if waiting is None:\n"
                "                break\n",
                "            if min(self._waiting) != self.next:\n"
                "                break\n"
                "            waiting = self._waiting.pop(int(self.next))\n",
            ),
        ),
        first=65,
        breaks="Rest",
    ),
    Mutant(
        "propagation: what comes twice is passed on twice",
        "federations",
        (
            Patch(
                "protocol/propagation/lanes.py",
                "        number = piece.number\n",
                "        number = piece.number\n"
                "        if number < self.next and piece.begins and piece.ends:\n"
                "            self.sink.put(piece.data, now_ns)\n",
            ),
            Patch(
                "protocol/propagation/passing.py",
                "        if entry.place <= self.installed.get(entry.group, entry.place):\n",
                "        if entry.group not in self.installed:\n",
            ),
        ),
        first=2,
        breaks="Integrity",
    ),
    Mutant(
        "propagation: held messages get places before the next graph opens",
        "federations",
        (
            Patch(
                "protocol/propagation/turns.py",
                "        while self.open and not self.frozen:\n            head = line.head()\n",
                "        while self.passing is not None and not self.frozen:\n"
                "            head = line.head()\n",
            ),
        ),
        first=15,
        breaks="Member Delivery",
    ),
    Mutant(
        "propagation: what survivors lack is installed the last one first",
        "federations",
        (
            Patch(
                "protocol/propagation/recovering.py",
                "    return [found[at] for at in _sorted(set(found), after)]\n",
                "    return [found[at] for at in reversed(_sorted(set(found), after))]\n",
            ),
        ),
        first=23,
        breaks="Multiple Source Order",
    ),
    Mutant(
        "propagation: sites without a place are not told of the next graph (R4)",
        "federations",
        (
            Patch(
                "protocol/propagation/manager.py",
                "            if not after.graph.holds(seat.sender):\n"
                "                told.add(seat.sender)\n",
                "            pass\n",
            ),
        ),
        first=44,
        breaks="Rest",
    ),
    Mutant(
        "propagation: a minority of the sites decides",
        "federations",
        (
            Patch(
                "protocol/propagation/council.py",
                "    if 2 * len(present) == len(seats):\n"
                "        return seats[0].sender in sites\n"
                "    return 2 * len(present) > len(seats)\n",
                "    return bool(present)\n",
            ),
            # What only some have accepted is seldom all that matters, if sites remember the rest.
            Patch(
                "protocol/propagation/council.py",
                "        while len(self._accepted) > ACCEPTED_MAX:\n",
                "        while len(self._accepted) > 1:\n",
            ),
        ),
        first=906,
        breaks="Multiple Group Order",
    ),
    Mutant(
        "propagation: survivors do not catch up",
        "federations",
        (
            Patch(
                "protocol/propagation/records.py",
                "for entry in report.lacked(meant)]\n",
                "for entry in meant if report.graph < 0]\n",
            ),
        ),
        first=40,
        breaks="Member Delivery",
    ),
    Mutant(
        "propagation: what follows on an order is put in front of it",
        "federations",
        (
            Patch(
                "protocol/propagation/line.py",
                "        self._orders += 1\n        self._last = None\n",
                "        self._orders += 1\n",
            ),
        ),
        first=1,
        breaks="Rest",
    ),
    Mutant(
        "propagation: a site that comes back is not told what to roll back",
        "federations",
        (
            Patch(
                "protocol/propagation/returning.py",
                "        return out.take()\n",
                '        return b""\n',
            ),
        ),
        first=303,
        breaks="Rollback",
    ),
    Mutant(
        "propagation: a site that has reported what it has goes on accepting",
        "federations",
        (
            Patch(
                "protocol/propagation/standing.py",
                "        self._turns.frozen = True\n        self.reported",
                "        self.reported",
            ),
        ),
        first=99,
        breaks="Member Delivery",
    ),
    Mutant(
        "propagation: an entry goes to a child behind one of another group",
        "federations",
        (
            Patch(
                "protocol/propagation/neighbour.py",
                "        item = self._line.pop()\n"
                "        if item is None:\n"
                '            return b""\n',
                "        item = self._line.pop()\n"
                "        if item is None:\n"
                '            return b""\n'
                "        after = self._line.head()\n"
                "        alone = len(self._line._parts) == 1\n"
                "        if isinstance(item, Entry) and isinstance(after, Entry) and alone:\n"
                "            if item.group != after.group:\n"
                "                self._line.pop()\n"
                "                self._line.put(item)\n"
                "                item = after\n",
            ),
        ),
        first=56,
        breaks="Multiple Group Order",
    ),
    Mutant(
        "propagation: everybody is said to have what the children were sent",
        "federations",
        (
            Patch(
                "protocol/propagation/passing.py",
                "            found = min(found, self._reached[child].get(group, 0))\n",
                "            pass\n",
            ),
        ),
        first=11,
        breaks="Member Delivery",
    ),
    Mutant(
        "propagation: the source does not resend after the primary destination failed",
        "federations",
        (
            Patch(
                "protocol/propagation/own.py",
                "            begins = recovers or own.target in gone or own.target == NO_SITE\n",
                "            begins = own.target == NO_SITE\n",
            ),
        ),
        first=11,
        breaks="Rest",
    ),
    Mutant(
        "propagation: a site purges in its own forward lines for its own message",
        "federations",
        (
            Patch(
                "protocol/propagation/neighbour.py",
                "        return cover.source.site != self._me.sender\n",
                "        return True\n",
            ),
        ),
        first=6,
        breaks="Member Delivery",
    ),
    Mutant(
        "propagation: a window is free before everybody has the message",
        "federations",
        (
            Patch(
                "protocol/propagation/own.py",
                "own.settle(max(stable, accepted) if graph < self._all_before else stable)",
                "own.settle(accepted)",
            ),
        ),
        first=77,
        breaks="Member Delivery",
    ),
    Mutant(
        "propagation: the next manager does not finish an Open that was half done",
        "federations",
        (
            Patch(
                "protocol/propagation/manager.py",
                "        elif before is not None and before.number == opening.number - 1:\n"
                "            self._close_and_open(before, opening, record, now_ns)\n",
                "        else:\n"
                "            assert before is None or before.number < opening.number\n",
            ),
        ),
        first=561,
        breaks="Rest",
    ),
    Mutant(
        "propagation: null messages carry no next number, and nothing is sent again",
        "federations",
        # Either alone is harmless: what is not acknowledged is sent again without being asked
        # for, and whoever hears of the next number asks. The paper has null messages alone.
        (
            Patch(
                "protocol/propagation/link.py",
                "int(self.out[at].next), int(lane.next) - 1, limit",
                "int(self.out[at].acked) + 1, int(lane.next) - 1, limit",
            ),
            Patch(
                "protocol/propagation/lanes.py",
                "            self._again[number] = None\n        self._probes = not self._sent\n",
                "            pass\n",
            ),
        ),
        first=43,
    ),
    Mutant(
        "propagation: atomic: an entry is acknowledged before it is written down",
        "federations",
        (
            Patch(
                "protocol/propagation/memory.py",
                "        if self._store is not None:\n"
                "            self._append(self._entry(_ENTRY, entry))\n",
                "        if self._store is not None:\n"
                "            late, self.late = self.late, self._entry(_ENTRY, entry)\n"
                "            if late:\n"
                "                self._append(late)\n",
            ),
            Patch(
                "protocol/propagation/memory.py",
                "        self._records: int = 0\n",
                '        self._records: int = 0\n        self.late = b""\n',
            ),
        ),
        first=30,
        breaks="Rollback",
    ),
    Mutant(
        "propagation: atomic: what a child has is sent again, and taken again",
        "federations",
        # Sending it again is harmless by itself: a child drops what it has.
        (
            Patch(
                "protocol/propagation/resuming.py",
                "            if entry.graph == graph.number and lacks and site in below:\n",
                "            if entry.graph == graph.number and site in below:\n",
            ),
            Patch(
                "protocol/propagation/passing.py",
                "        if entry.place <= self.installed.get(entry.group, entry.place):\n"
                "            return True\n",
                "",
            ),
        ),
        first=18,
        breaks="Integrity",
    ),
    Mutant(
        "propagation: what is sent again gets another place",
        "federations",
        (
            Patch(
                "protocol/propagation/passing.py",
                "        if entry.seq > self.last.get(entry.stream, 0):\n",
                "        if entry.seq > 0:\n",
            ),
        ),
        first=1,
        breaks="Accounting",
    ),
    Mutant(
        "propagation: histories are merged without regard to the order of each",
        "federations",
        (
            Patch(
                "protocol/propagation/recovering.py",
                "                after.setdefault(before, set()).add(entry.at)\n",
                "                pass\n",
            ),
        ),
        first=131,
        breaks="Multiple Group Order",
    ),
    Mutant(
        "propagation: an answer to a former attempt counts",
        "federations",
        (
            Patch(
                "protocol/propagation/own.py",
                "own.attempt == attempt and graph >= own.graph and seq <= own.last:",
                "seq <= own.last:",
            ),
        ),
        first=43,
        breaks="Member Delivery",
    ),
    Mutant(
        "propagation: a source turns to the next primary destination at once",
        "federations",
        (
            Patch(
                "protocol/propagation/own.py",
                "            if begins or not outstanding:\n",
                "            if begins or not outstanding or primary != own.target:\n",
            ),
        ),
        first=43,
        breaks="Integrity",
    ),
    Mutant(
        "propagation: a graph counts as open everywhere when one site has opened it",
        "federations",
        (
            Patch(
                "protocol/propagation/decided.py",
                "        least = min(self._opened",
                "        least = max(self._opened",
            ),
        ),
        first=1,
        breaks="Member Delivery",
    ),
    Mutant(
        "propagation: a site goes on passing after a Close",
        "federations",
        (
            Patch(
                "protocol/propagation/turns.py",
                "        self.open = False\n        self._memory.closed",
                "        self._memory.closed",
            ),
        ),
        first=1,
        breaks="Rest",
    ),
    Mutant(
        "propagation: whoever is held back does not ask whether there is room by now",
        "federations",
        (
            Patch(
                "protocol/propagation/lanes.py",
                "        self._probes = not self._sent\n",
                "",
            ),
        ),
        first=257,
        breaks="Rest",
    ),
    Mutant(
        "two phases: a message is delivered before it is decided",
        "votes",
        (
            Patch(
                "protocol/propagation/two_phase/queue.py",
                "        return first.message if first.decided else None\n",
                "        return first.message\n",
            ),
        ),
        breaks="Multiple Group Order",
    ),
    Mutant(
        "two phases: a member forgets which priorities were decided",
        "votes",
        (
            Patch(
                "protocol/propagation/two_phase/queue.py",
                "        self._counter = max(self._counter, counter)\n",
                "",
            ),
        ),
        first=10,
        breaks="Multiple Group Order",
    ),
    Mutant(
        "two phases: the source takes the first answer, not the highest",
        "votes",
        (
            Patch(
                "protocol/propagation/two_phase/sending.py",
                "        if (counter, site) > (self.counter, self.site):\n",
                "        if self.counter == 0:\n",
            ),
        ),
    ),
    Mutant(
        "two phases: sources are not told what left the queues",
        "votes",
        (
            Patch(
                "protocol/propagation/two_phase/peers.py",
                "            self._left_ns = NEVER\n            for peer",
                "            self._left_ns = NEVER\n        if now_ns < 0:\n            for peer",
            ),
        ),
        breaks="Rest",
    ),
    Mutant(
        "propagation: atomic: a parent does not wait to hear how far a child is that is back",
        "federations",
        (
            Patch(
                "protocol/propagation/neighbour.py",
                "            found.hold(True)\n",
                "",
            ),
        ),
        first=5254,
        breaks="Rest",
    ),
    Mutant(
        "propagation: what was ahead of a full history is never told",
        "federations",
        (
            Patch(
                "protocol/propagation/history.py",
                "        while self._ahead and not self._is_full():\n",
                "        while self._messages_max < 1:\n",
            ),
        ),
        first=1,
        breaks="Rest",
    ),
    Mutant(
        "propagation: what was sent before a failure is not waited for",
        "federations",
        (
            Patch(
                "protocol/propagation/own.py",
                "            outstanding = own.offered > own.ordered or (",
                "            outstanding = any(one.seq > own.ordered for one in own.sent) or (",
            ),
        ),
        first=6917,
        breaks="Integrity",
    ),
    Mutant(
        "propagation: what is sent again is not rolled back if nobody else had it",
        "federations",
        (
            Patch(
                "protocol/propagation/returning.py",
                "        and entry.seq > ordered.get(entry.stream, 0)\n",
                "        and entry.seq < 0\n",
            ),
        ),
        first=5499,
        breaks="Multiple Group Order",
    ),
)
