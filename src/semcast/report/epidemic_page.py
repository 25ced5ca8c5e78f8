"""Gossip groups of several sizes in; one page out on atomicity, latency and load per member."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Final, TypeAlias

from semcast.model.epidemic.outcome import Outcome
from semcast.model.epidemic.settings import Epidemic
from semcast.model.epidemic.sizes import COLUMNS, SizeRun, row_of
from semcast.report.figures import Line, Plot
from semcast.report.page import page

_MEMBERS: Final = "members"
Measures: TypeAlias = dict[str, Callable[[Outcome], float | None]]


def epidemic_page(runs: Sequence[SizeRun]) -> str:
    """The page. All runs differ in nothing but the size of the group and the policy."""
    table = ("Gossip in rounds", COLUMNS, [row_of(one) for one in runs])
    sizes = sorted({one.settings.members for one in runs})
    title = f"Gossip with semantic purging, {sizes[0]:,} to {sizes[-1]:,} members"
    return page(title, [table], plots(runs), words(runs[0].settings))


def words(settings: Epidemic) -> list[str]:
    """What was run, in sentences."""
    relays = "as often as the size takes" if settings.relays is None else f"{settings.relays} times"
    return [
        f"Every member has {settings.links} links ({settings.view} views), and each link carries "
        f"one copy in a round. A message takes {settings.fanout} of them and is relayed {relays}. "
        f"{settings.loss:.0%} of the copies are lost, {settings.crashed:.0%} of the members are "
        f"dead. The group multicasts {settings.rate_msg_round:g} messages in a round, from members "
        f"drawn at random; {settings.related_ratio:.0%} of them belong to one of "
        f"{settings.diversity} chains of {settings.chain_length}, in which each replaces those "
        f"before it. Seed {settings.seed}, {settings.measured_rounds} rounds measured.",
        "Without purging, members could relay about "
        f"{settings.links / settings.fanout:g} messages in a round. A message is atomic if "
        "more than 95% of the members get it; counted are those that never become obsolete.",
    ]


def plots(runs: Sequence[SizeRun]) -> list[Plot]:
    """Each measure over the size of the group, one line for each policy."""
    atomic: Measures = {
        "atomic": attrgetter("atomic_share"),
        "mean share of members": attrgetter("receivers_share_mean"),
    }
    latency: Measures = {
        "mean": attrgetter("latency_mean_rounds"),
        "99 of 100": attrgetter("latency_p99_rounds"),
    }
    load: Measures = {
        "mean": attrgetter("load_mean_copies_round"),
        "busiest": attrgetter("load_max_copies_round"),
    }
    waiting: Measures = {"mean": attrgetter("waiting_mean_copies")}
    return [
        _plot("atomic", "Which messages reach almost everybody?", "share", runs, atomic),
        _plot("latency", "How long does a message take?", "rounds", runs, latency),
        _plot("load", "What does a member send?", "copies in a round", runs, load),
        _plot("waiting", "What waits at a member?", "copies in its buffer", runs, waiting),
    ]


def _plot(name: str, title: str, y_label: str, runs: Sequence[SizeRun], measures: Measures) -> Plot:
    lines = []
    for policy in dict.fromkeys(one.settings.policy for one in runs):
        for label, measure in measures.items():
            points = [
                (one.settings.members, y)
                for one in runs
                if one.settings.policy == policy and (y := measure(one.outcome)) is not None
            ]
            points.sort()
            lines.append(Line(f"{policy}, {label}", *_columns(points)))
    return Plot(name, title, _MEMBERS, y_label, lines, log_x=True)


def _columns(points: Sequence[tuple[int, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]
