"""The verdict on a journal: every property that was promised, how much was judged, what is broken.

Properties are a table here; each has a file of its own that says what it means. Which of them are
promised depends on the reliability in the journal's header: S-SM (SRM Figure 2) or S-RM (Figure 3),
and on its order: by sender or, weaker, by key.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from semcast.check import (
    accounting,
    agreement,
    fifo_completeness,
    fifo_order,
    flow_bounds,
    integrity,
    key_completeness,
    key_order,
    safe_purging,
    sender_reliability,
    stability,
    validity,
)
from semcast.check.history import History
from semcast.check.missing import Missing, missing_in
from semcast.check.rest import restless
from semcast.check.violation import Violation
from semcast.journal import Header, Journal

_BOTH: Final = ("sender", "group")
_ANY: Final = ("fifo", "key")
_SHOWN_MAX: Final = 20


@dataclass(frozen=True)
class Property:
    """One property: what it is called, who promises it, and how it is judged."""

    name: str
    check: Callable[[Journal | History], list[Violation]]
    # The events that are judged by it.
    about: tuple[str, ...]
    reliability: tuple[str, ...]
    # A safety property holds on every prefix; others are judged when everything has come to rest.
    safety: bool
    order: tuple[str, ...] = _ANY
    # Whether only a log in one order can show it. Logs of live members are not in one: each has a
    # clock of its own.
    one_order: bool = False

    def applies(self, header: Header) -> bool:
        """Whether a run with this header promised it, and its log can show it."""
        return (
            header.reliability in self.reliability
            and header.order in self.order
            and (header.one_order or not self.one_order)
        )


PROPERTIES: Final = (
    Property(integrity.PROPERTY, integrity.check, ("multicast", "deliver"), _BOTH, True),
    Property(fifo_order.PROPERTY, fifo_order.check, ("deliver",), _BOTH, True, ("fifo",)),
    Property(key_order.PROPERTY, key_order.check, ("deliver",), _BOTH, True, ("key",)),
    Property(
        key_completeness.PROPERTY, key_completeness.check, ("deliver",), _BOTH, True, ("key",)
    ),
    Property(
        accounting.PROPERTY,
        accounting.check,
        ("receive", "deliver", "purge", "skip"),
        _BOTH,
        True,
    ),
    Property(flow_bounds.PROPERTY, flow_bounds.check, ("multicast", "receive"), _BOTH, True),
    Property(
        safe_purging.PROPERTY, safe_purging.check, ("purge",), ("group",), True, one_order=True
    ),
    Property(stability.PROPERTY, stability.check, ("stable",), _BOTH, True, one_order=True),
    Property(
        sender_reliability.PROPERTY, sender_reliability.check, ("multicast",), ("sender",), False
    ),
    Property(validity.PROPERTY, validity.check, ("multicast",), ("group",), False),
    Property(agreement.PROPERTY, agreement.check, ("multicast",), ("group",), False),
    Property(
        fifo_completeness.PROPERTY, fifo_completeness.check, ("multicast",), ("group",), False
    ),
)

# What is judged of runs that ended by themselves or came to rest.
LIVENESS: Final = frozenset(one.name for one in PROPERTIES if not one.safety)


@dataclass(frozen=True)
class Report:
    """What the checkers found."""

    run: str
    # By property, in the order of the table above: how many events it judged.
    judged: dict[str, int]
    violations: list[Violation]
    # Why what must hold in the end was not judged; nothing if it was, or was not asked for.
    not_at_rest: str = ""

    COLUMNS = ("property", "judged", "violations")

    @property
    def ok(self) -> bool:
        """Whether nothing is broken."""
        return not self.violations

    @property
    def counts(self) -> dict[str, int]:
        """By property: how often it is broken."""
        counts = dict.fromkeys(self.judged, 0)
        for violation in self.violations:
            counts[violation.property] += 1
        return counts

    @property
    def missing(self) -> list[Missing]:
        """Which messages are missing where, by what must hold in the end."""
        return missing_in(one for one in self.violations if one.property in LIVENESS)

    def rows(self) -> list[list[str]]:
        """A table, a row for each property."""
        counts = self.counts
        return [[name, str(judged), str(counts[name])] for name, judged in self.judged.items()]

    def __str__(self) -> str:
        """The table, and the first violations, as plain text."""
        rows: list[Sequence[str]] = [self.COLUMNS, *self.rows()]
        wide = [max(len(row[at]) for row in rows) for at in range(3)]
        lines = [
            f"{row[0]:<{wide[0]}}  {row[1]:>{wide[1]}}  {row[2]:>{wide[2]}}".rstrip()
            for row in rows
        ]
        if self.not_at_rest:
            lines.append(f"what must hold in the end was not judged: {self.not_at_rest}")
        lines += [str(one) for one in self.missing[:_SHOWN_MAX]]
        lines += [str(violation) for violation in self.violations[:_SHOWN_MAX]]
        if len(self.violations) > _SHOWN_MAX:
            lines.append(f"and {len(self.violations) - _SHOWN_MAX} more")
        return "\n".join(lines)


def check_safety(log: Journal | History) -> Report:
    """What must hold at every moment: of a finished run, and of one that goes on."""
    return _judge(log, [one for one in PROPERTIES if one.safety])


def check_liveness(log: Journal | History) -> Report:
    """What must hold in the end: of a run in which everything has come to rest."""
    return _judge(log, [one for one in PROPERTIES if not one.safety])


def check_all(log: Journal | History) -> Report:
    """Everything that was promised, of a run in which everything has come to rest."""
    return _judge(log, list(PROPERTIES))


def check_run(log: Journal | History) -> Report:
    """Everything that can be judged, by what the log says of how the run ended.

    What must hold in the end is left out of a run that was cut short, and the report says why. So
    judges `semcast verify`.
    """
    history = History.of(log)
    why = restless(history)
    return replace(check_safety(history) if why else check_all(history), not_at_rest=why)


def _judge(log: Journal | History, properties: list[Property]) -> Report:
    history = History.of(log)
    judged: dict[str, int] = {}
    violations: list[Violation] = []
    for one in properties:
        if one.applies(history.header):
            judged[one.name] = sum(history.counts[event] for event in one.about)
            violations += one.check(history)
    return Report(history.header.run, judged, violations)
