"""The orders of a federation (PROP §1): Multiple Source Order, Multiple Group Order and Acyclic
Order, each stronger than the one before.

- Multiple Source Order (b): two messages of one group are delivered in the same relative order by
  all sites that deliver both.
- Multiple Group Order (c): so are any two messages that two sites both deliver.
- Acyclic Order: the orders of all sites together have no cycle. A propagation graph gives that
  much: a site delivers m1 before m2, another m2 before m3 and a third one m3 before m1, although no
  two sites share two messages, breaks neither (b) nor (c).

What a site purged, skipped or undid is absent from its sequence; `sites` says whose counts. One
kernel judges all three, from the sequences of all sites of a run together (`knots`): linear in the
deliveries, beside one sort, if the orders are kept. Of a knot, pairs of sites are compared until
enough of them disagree, so that it takes at most as many times longer as there are sites in it.
"""

from typing import Final, final

from semcast.check.kernel import OF_RUN, Group, Kernel
from semcast.check.knots import Inversion, Knot, knots_in
from semcast.check.property import FEDERATION, Property
from semcast.check.violation import MessageId

# Of one knot and property, at most so many pairs of sites are told.
TOLD_MAX: Final = 20
# Of a cycle, so many steps.
_STEPS_MAX: Final = 12


@final
class OrdersKernel(Kernel):
    """All deliveries of one run."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        # Of what is in a knot. By site and message: the row; by message: any row, and its group.
        self._rows_of: dict[tuple[int, int], int] = {}
        self._row_of: dict[int, int] = {}
        self._gids: dict[int, int] = {}

    def end(self) -> None:
        """Find out whether there is one order, and tell who disagrees about what if not."""
        delivered = self.group.delivered
        codes = [delivered.codes[rows] for rows in delivered.sequences]
        knots = knots_in(codes, delivered.count)
        numbers = {code: number for number, knot in enumerate(knots) for code in knot}
        parts: list[dict[int, list[int]]] = [{} for _ in knots]
        rows_of: dict[tuple[int, int], int] = {}
        for site, rows in enumerate(delivered.sequences if knots else ()):
            for row, code in zip(rows.tolist(), codes[site].tolist(), strict=True):
                number = numbers.get(code)
                if number is not None:
                    parts[number].setdefault(site, []).append(code)
                    rows_of[site, code] = row
        self._rows_of = rows_of
        self._row_of = {code: row for (_, code), row in rows_of.items()}
        gids = delivered.column("gid")
        self._gids = {code: int(gids[row]) for code, row in self._row_of.items()}
        for part in parts:
            self._untie(Knot(part))

    def _untie(self, knot: Knot) -> None:
        sites = list(knot.sequences)
        told = dict.fromkeys((MULTIPLE_SOURCE_ORDER.name, MULTIPLE_GROUP_ORDER.name), 0)
        cycle: list[tuple[int, int, int]] = []
        for place, one in enumerate(sites):
            for other in sites[place + 1 :]:
                if min(told.values()) >= TOLD_MAX:
                    break
                found = knot.inversions(one, other, self._gids)
                for name, pair in zip(told, (found[1], found[0]), strict=True):
                    if pair is not None and told[name] < TOLD_MAX:
                        self._disagree(name, one, other, pair)
                        told[name] += 1
                if found[0] is not None and not cycle:
                    first, second = found[0]
                    cycle = [(one, first, second), (other, second, first)]
        if not cycle:
            messages = {code for some in knot.sequences.values() for code in some}
            cycle = knot.shortest_cycle(min(messages, key=self._name_of))
        self._tell_cycle(cycle)

    def _disagree(self, name: str, one: int, other: int, pair: Inversion) -> None:
        row, there = self._rows_of[one, pair.second], self._rows_of[other, pair.first]
        first, second = self._name_of(pair.first), self._name_of(pair.second)
        text = (
            f"delivers {first} before {second}, and {self._node_of(there)} {second} before {first}"
        )
        self._tell(name, row, [first, second], text)

    def _tell_cycle(self, cycle: list[tuple[int, int, int]]) -> None:
        names = [self._name_of(code) for _, code, _ in cycle]
        steps = [
            f"{self._node_of(self._rows_of[site, after])} {self._name_of(before)} before "
            f"{self._name_of(after)}"
            for site, before, after in cycle[1:_STEPS_MAX]
        ]
        more = len(cycle) - _STEPS_MAX
        text = f"delivers {names[0]} before {self._name_of(cycle[0][2])}, {', '.join(steps)}"
        text += f", and so on, {more} steps more, back to {names[0]}" if more > 0 else ""
        self._tell(ACYCLIC_ORDER.name, self._rows_of[cycle[0][0], cycle[0][2]], names, text)

    def _tell(self, name: str, row: int, about: list[MessageId], text: str) -> None:
        column = self.group.delivered.column
        self.report(name, int(column("n")[row]), list(about), int(column("time_ns")[row]), text)

    def _node_of(self, row: int) -> str:
        return self.run.nodes[int(self.group.delivered.column("n")[row])]

    def _name_of(self, code: int) -> MessageId:
        column, row = self.group.delivered.column, self._row_of[code]
        return self.message(int(column("sid")[row]), int(column("seq")[row]))


def _order(name: str) -> Property:
    return Property(name, {OF_RUN: OrdersKernel}, ("deliver",), reliability=(FEDERATION,))


MULTIPLE_SOURCE_ORDER: Final = _order("Multiple Source Order")
MULTIPLE_GROUP_ORDER: Final = _order("Multiple Group Order")
ACYCLIC_ORDER: Final = _order("Acyclic Order")
