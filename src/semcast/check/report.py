"""The verdict on a journal: every property that was promised, how much was judged, what is broken.

Which of the properties (`properties`) are promised depends on the reliability in the journal's
header: S-SM (SRM Figure 2), S-RM (Figure 3), gossip (PSRM) or a federation (PROP); and on its
order: by sender or, weaker, by key.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from semcast.check.history import History
from semcast.check.kernel import Finding, GroupJudge, Maker, standing
from semcast.check.properties import PROPERTIES
from semcast.check.property import Property
from semcast.check.rest import restless
from semcast.check.rows import Rows
from semcast.check.tally import summed
from semcast.check.violation import Missing, Violation, missing_in
from semcast.errors import ConfigError
from semcast.journal import Header, Journal

_SHOWN_MAX: Final = 20

# What is judged of runs that ended by themselves or came to rest, and says who lacks what.
LIVENESS: Final = frozenset(one.name for one in PROPERTIES if not (one.safety or one.chance))
_SAFETY: Final = tuple(one for one in PROPERTIES if one.safety)


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


def chosen(names: Sequence[str] | None) -> list[Property]:
    """The properties of these names, in any case, with - or _ for a space; or all."""
    if not names:
        return list(PROPERTIES)
    by_name = {_plain(one.name): one for one in PROPERTIES}
    for name in names:
        if _plain(name) not in by_name:
            there = ", ".join(one.name for one in PROPERTIES)
            raise ConfigError(f"there is no property {name!r}; there are: {there}")
    wanted = {_plain(name) for name in names}
    return [one for name, one in by_name.items() if name in wanted]


def _plain(name: str) -> str:
    return name.lower().replace("-", " ").replace("_", " ")


def check_safety(log: Journal | History) -> Report:
    """What must hold at every moment: of a finished run, and of one that goes on."""
    return judge(log, _SAFETY)


def check_all(log: Journal | History) -> Report:
    """Everything that was promised, of a run in which everything has come to rest."""
    return judge(log, PROPERTIES)


def check_run(
    log: Journal | History, properties: Sequence[Property] = PROPERTIES, rest: bool | None = None
) -> Report:
    """Everything that can be judged, by what the log says of how the run ended.

    What must hold in the end is left out of a run that was cut short, and the report says why. So
    judges `semcast verify`. `rest` says whether the run came to rest, whatever the log says.
    """
    history = History.of(log)
    why = ""
    if rest is None and any(not one.safety for one in properties):
        why = restless(history.run, history.waiting())
    elif rest is False:
        why = "it was said not to have come to rest"
    judged = [one for one in properties if one.safety or not why]
    return replace(judge(history, judged), not_at_rest=why)


def makers_of(properties: Collection[Property], header: Header, sorting: str) -> list[Maker]:
    """The kernels that judge groups of one sorting, of a run with this header; each once."""
    makers = (one.kernels.get(sorting) for one in properties if one.applies(header))
    return list(dict.fromkeys(make for make in makers if make is not None))


def judge(log: Journal | History, properties: Collection[Property]) -> Report:
    """Feed every group of a journal to the kernels of these properties."""
    history = History.of(log)
    promised = [one for one in properties if one.applies(history.header)]
    found: list[Finding] = []
    for sorting in dict.fromkeys(sorting for one in promised for sorting in one.kernels):
        makers = [makers_of(promised, history.header, sorting)]
        for number, parts in history.groups(sorting):
            group = GroupJudge(history.facts, sorting, number, makers)
            for rows in parts:
                group.feed(Rows(rows))
            found += group.end()
    found = summed(found)
    by_name: dict[str, list[Violation]] = {one.name: [] for one in promised}
    for one, stands in zip(found, standing(found), strict=True):
        if stands and one.property in by_name:
            by_name[one.property].append(one.violation(history.facts))
    return Report(
        history.header.run,
        {one.name: sum(history.counts[event] for event in one.about) for one in promised},
        [one for some in by_name.values() for one in sorted(some, key=_in_time)],
    )


def _in_time(one: Violation) -> tuple[int, str]:
    return one.time_ns, one.text
