"""The questions by name, and how their stages are put together.

Journals and the names of questions in; one DataFrame for each out, none of them computed yet. What
several of the asked questions need is computed once and kept until `close`.

    with Analysis(read_journals(spark, "journals"), ["latency", "semantic"]) as analysis:
        analysis.table("semantic").show()
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType
from typing import Final, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from semcast.errors import ConfigError
from semcast.pipeline.analysis.blocked import blocked
from semcast.pipeline.analysis.counts import GONE, counts, lives
from semcast.pipeline.analysis.gossip import gossip, losses
from semcast.pipeline.analysis.latency import latency
from semcast.pipeline.analysis.members import buffer_names_of, names_of
from semcast.pipeline.analysis.occupancy import moves, occupancy, series
from semcast.pipeline.analysis.outdated import ROUND_MS, rounds, rounds_sums
from semcast.pipeline.analysis.purging import purging
from semcast.pipeline.analysis.receivers import atomicity, receivers
from semcast.pipeline.analysis.repair import repair
from semcast.pipeline.analysis.replacements import covers_without_key, replacements
from semcast.pipeline.analysis.retained import retained
from semcast.pipeline.analysis.runs import Facts, Span, facts_of, members_of, with_facts, with_views
from semcast.pipeline.analysis.semantic import semantic, semantic_sums
from semcast.pipeline.analysis.stability import stability
from semcast.pipeline.analysis.throughput import throughput
from semcast.pipeline.journals import Journals

# Of one member's buffer.
WINDOWS_MAX: Final = 100_000
_SPAN: Final = ("since_ns", "until_ns")


@dataclass(frozen=True)
class Options:
    """How a run is looked at."""

    span: Span = field(default_factory=Span)
    # Of the series of occupancy.
    window_s: float = 1.0
    # Of rounds outdated.
    round_ms: float = ROUND_MS

    def __post_init__(self) -> None:
        for name, value in (("window_s", self.window_s), ("round_ms", self.round_ms)):
            if not 1e-6 <= value <= 1e9:
                raise ConfigError(f"{name} is {value:g}; it must be from 1e-6 to 1e9")
        since_s, until_s = self.span.since_s, self.span.until_s
        if since_s is not None and until_s is not None and since_s >= until_s:
            raise ConfigError(
                f"measured from {since_s:g} s until {until_s:g} s is nothing; "
                "give a beginning before the end"
            )


class Analysis:
    """Tables that answer questions about journals."""

    def __init__(
        self, journals: Journals, questions: Collection[str], options: Options | None = None
    ) -> None:
        self._journals: Final = journals
        self._asked: Final = frozenset(questions)
        self._options: Final = options or Options()
        self._spark: Final[SparkSession] = journals.events.sparkSession
        self._kept: Final[list[DataFrame]] = []
        check_questions(questions)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of what was kept."""
        while self._kept:
            self._kept.pop().unpersist()

    def table(self, question: str) -> DataFrame:
        """The answer to a question that was asked for."""
        return QUESTIONS[question].answer(self)

    # -- what several questions share --------------------------------------------------------------

    @cached_property
    def journal(self) -> DataFrame:
        """The events as read; of live runs they are put together once."""
        events = self._journals.events
        if all(header.one_order for header in self._journals.headers.values()):
            return events
        return self._keep(events)

    @cached_property
    def facts(self) -> dict[str, Facts]:
        """What the headers say."""
        span = self._options.span
        live = [run for run, one in self._journals.headers.items() if not one.one_order]
        origins: dict[str, int] = {}
        if live and span != Span():
            first = (
                self.journal.where(F.col("run").isin(live) & ~F.col("event").isin(*GONE))
                .groupBy("run")
                .agg(F.min("time_ns").alias("first_ns"))
            )
            origins = {row["run"]: row["first_ns"] for row in first.collect()}
        return facts_of(self._journals.headers, span, origins)

    @cached_property
    def events(self) -> DataFrame:
        """The events with their views and the span that is measured."""
        events = self.journal
        if not events.where("event = 'view' and view is not null").isEmpty():
            events = with_views(events)
        else:
            # There was but one view, whatever its number: nothing is split by view.
            events = events.withColumn("view", F.lit(None).cast("long"))
        return with_facts(events, self.facts, *_SPAN)

    @cached_property
    def counted(self) -> DataFrame:
        """COUNTS, a small frame."""
        return self._keep(counts(self.events))

    @cached_property
    def lived(self) -> DataFrame:
        """LIVES, a small frame."""
        members = members_of(self._spark, self._journals.headers)
        return self._keep(lives(self.counted, with_facts(members, self.facts, "one_order", *_SPAN)))

    @cached_property
    def without_key(self) -> DataFrame | None:
        """Messages that have no key and replace others, if there are any."""
        found = covers_without_key(self.journal)
        return None if found.isEmpty() else found

    @cached_property
    def names(self) -> DataFrame:
        """NAMES, a small frame."""
        return names_of(self.lived)

    @cached_property
    def replaced(self) -> DataFrame:
        """What semantic latency and rounds need to know of REPLACEMENTS, by member and view."""
        ranked = not self.journal.where("rank is not null").isEmpty()
        gone = self.counted.where("event = 'skip' or (event = 'purge' and place = 'delivery')")
        kinds = {row["event"] for row in gone.select("event").distinct().collect()}
        found = replacements(
            self.events,
            ranked,
            self.without_key is not None,
            gone.select("run", "node").distinct(),
            skips="skip" in kinds,
        )
        sums = semantic_sums() if "semantic" in self._asked else []
        sums += rounds_sums(self._options.round_ms) if "rounds" in self._asked else []
        found = self.clocked(found).groupBy("run", "node", "view").agg(*sums)
        return self._keep_if_shared(found, "semantic", "rounds")

    @cached_property
    def retained(self) -> DataFrame:
        """RETAINED, of those members whose journals are there."""
        events = with_facts(self.events, self.facts, "group_reliable")
        if not all(one.one_order for one in self.facts.values()):
            there = self.lived.where("recorded").select("run", "node").distinct()
            events = events.join(F.broadcast(there), ["run", "node"], "left_semi")
        buffers = "occupancy" if "occupancy" in self._asked else "series"
        return self._keep_if_shared(retained(events), buffers, "stability")

    @cached_property
    def series(self) -> DataFrame:
        """SERIES."""
        self._check_windows()
        window_s = self._options.window_s
        moved = moves(self.events, self.retained, self.lived, window_s)
        names = buffer_names_of(self.names)
        moved = self._with_member_facts(moved, names, "buffer_id", *_SPAN)
        found = series(moved, names, window_s)
        return self._keep_if_shared(found, "occupancy", "series")

    def _check_windows(self) -> None:
        """Refuse to cut a long run into countless windows."""
        longest = F.max(F.col("end_ns") - F.col("begin_ns")) / 1e9
        (length_s,) = self.lived.agg(longest).collect()[0]
        windows = (length_s or 0.0) / self._options.window_s
        if windows > WINDOWS_MAX:
            raise ConfigError(
                f"{length_s:g} s in windows of {self._options.window_s:g} s are {windows:.0f} "
                f"windows, and {WINDOWS_MAX} are the most; take longer windows"
            )

    @cached_property
    def receivers(self) -> DataFrame:
        """RECEIVERS."""
        events = with_facts(self.events, self.facts, "k", "deliver_own")
        found = receivers(events, self.lived, self.without_key)
        if "gossip" in self._asked and not self._asked.isdisjoint(("receivers", "atomicity")):
            return self._keep(found)
        return self._keep_if_shared(found, "receivers", "atomicity")

    @cached_property
    def gossiped(self) -> DataFrame:
        """The events with the span, and whether their run gossips and has one clock."""
        return with_facts(self.events, self.facts, "gossip", "one_order")

    @cached_property
    def spanned_retained(self) -> DataFrame:
        """RETAINED, with the span and whether its run has one clock."""
        return self._with_member_facts(self.retained, self.names, "member", "one_order", *_SPAN)

    def clocked(self, frame: DataFrame) -> DataFrame:
        """A frame with whether its run has one clock."""
        return with_facts(frame, self.facts, "one_order")

    def _with_member_facts(
        self, frame: DataFrame, names: DataFrame, number: str, *facts: str
    ) -> DataFrame:
        """A frame that has numbers for names (`members`), with facts of their runs."""
        known = {tuple(getattr(one, name) for name in facts) for one in self.facts.values()}
        if len(known) == 1:
            return with_facts(frame, self.facts, *facts)
        by_number = with_facts(names, self.facts, *facts).select(number, *facts)
        return frame.join(F.broadcast(by_number), number)

    def _keep(self, frame: DataFrame) -> DataFrame:
        self._kept.append(frame.persist())
        return frame

    def _keep_if_shared(self, frame: DataFrame, *users: str) -> DataFrame:
        return self._keep(frame) if self._asked.issuperset(users) else frame


def check_questions(names: Collection[str]) -> None:
    """Raise ConfigError for a name that stands for no table."""
    for name in names:
        if name not in QUESTIONS:
            raise ConfigError(f"{name!r} is no table; choose from {', '.join(QUESTIONS)}")


@dataclass(frozen=True)
class Question:
    """What can be asked of a journal."""

    about: str
    answer: Callable[[Analysis], DataFrame]


QUESTIONS: Final[Mapping[str, Question]] = {
    "throughput": Question(
        "messages and bytes multicast, received, delivered",
        lambda one: throughput(one.counted, one.lived),
    ),
    "purging": Question("what left unread, where and why", lambda one: purging(one.counted)),
    "latency": Question("from multicast until taken", lambda one: latency(one.clocked(one.events))),
    "semantic": Question(
        "from multicast until it or what replaces it was taken",
        lambda one: semantic(one.replaced),
    ),
    "rounds": Question(
        "for how many rounds values were outdated",
        lambda one: rounds(one.replaced),
    ),
    "occupancy": Question("what buffers held", lambda one: occupancy(one.series)),
    "series": Question("what buffers held, window by window", lambda one: one.series),
    "blocked": Question("how long windows were closed", lambda one: blocked(one.events, one.lived)),
    "receivers": Question("how many members got each message", lambda one: one.receivers),
    "atomicity": Question(
        "whether messages got to all or none", lambda one: atomicity(one.receivers)
    ),
    "stability": Question(
        "until messages were known to be stable, and safe",
        lambda one: stability(one.spanned_retained, one.names),
    ),
    "repair": Question("what was asked for and sent again", lambda one: repair(one.counted)),
    "gossip": Question(
        "how far messages got, how soon, and with how many copies",
        lambda one: gossip(one.gossiped, one.receivers),
    ),
    "losses": Question(
        "what gossip purged, dropped, skipped and missed", lambda one: losses(one.gossiped)
    ),
}
