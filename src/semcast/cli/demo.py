"""`semcast demo`: a live group with one slow reader, recorded, then explained by Spark."""

import shlex
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from semcast.cli._output import JsonOption, print_commands, print_json, print_table, print_words
from semcast.cli._spark import ConfOption, MasterOption, spark_session
from semcast.cli._stages import Stages

if TYPE_CHECKING:
    from semcast.cli._demo_group import Traffic
    from semcast.pipeline.story import Story
    from semcast.sim.world import Run

VIOLATION: Final = 1
# The group, the start of Spark, what it does (`pipeline.story.STAGES`), the simulation.
_STAGES: Final = 6


def demo(
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.5, max=600, help="Of traffic, in real time.")
    ] = 5.0,
    keep: Annotated[
        Path | None,
        typer.Option(
            "--journal", help="Keep the journal in this folder, which must be new.", exists=False
        ),
    ] = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
) -> int:
    """Watch a live group with one slow reader; then what its journal says, by Spark.

    Three processes on this machine: a feed of quotes and trades, a fast reader and one that needs
    2 ms for each message. All three are recorded. Spark profiles, analyses and verifies the
    journal, and the same traffic is simulated once more without purging. The exit code is 1 if a
    promise was broken.

    \b
    Example:
      semcast demo --journal demo && semcast analyse demo --all
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    from semcast.errors import InputError

    if keep is not None and keep.exists():
        raise InputError(f"{keep} is there already; name a folder that is not")
    from semcast.pipeline.spark import require_spark

    require_spark()
    with tempfile.TemporaryDirectory(prefix="semcast-demo-") as temporary:
        journal = keep or Path(temporary) / "journal"
        stages = Stages(_STAGES)
        traffic, said = _record(seconds, journal, as_json, stages)
        stages.begin("Spark starts")
        with spark_session("demo", master, conf) as spark:
            from semcast.pipeline.story import story_of, write_trace

            story = story_of(spark, journal, stages.begin)
            trace = Path(temporary) / "traffic.csv"
            stages.begin("the same traffic is simulated, without purging")
            write_trace(spark, journal, trace)
        without = _without_purging(traffic, trace)
        stages.end()
    if as_json:
        print_json(_as_json(traffic, said, story, without))
    else:
        _print(traffic, said, story, without)
        _print_next(keep)
    return 0 if story.verdict.ok else VIOLATION


def _record(
    seconds: float, journal: Path, quiet: bool, stages: Stages
) -> "tuple[Traffic, dict[str, dict[str, Any]]]":
    from semcast.cli._demo_group import Traffic, run_group

    traffic = Traffic(seconds)
    if not quiet:
        print_words(
            f"A feed of {traffic.rate_msg_s:,} messages a second for {seconds:g} s: quotes of "
            f"{traffic.stocks} stocks, each of which replaces the last one of its stock, and "
            f"trades (one in {traffic.trade_every}), which nothing replaces. One reader is fast; "
            f"the other needs {traffic.slow_ms:g} ms for each message and has room for "
            f"{traffic.buffer_messages}."
        )
    stages.begin(f"three processes form a group and are recorded for {seconds:g} s")
    return traffic, run_group(traffic, journal)


def _without_purging(traffic: "Traffic", trace: Path) -> "Run":
    """The same messages to the same readers, simulated, with a buffer that replaces nothing."""
    from semcast.sim.scenario import Protocol, ProtocolScenario
    from semcast.sim.surroundings import Consumer
    from semcast.sim.traffic import Replay
    from semcast.sim.world import run

    scenario = ProtocolScenario(
        members=3,
        duration_s=traffic.seconds,
        warm_up_s=0.0,
        drain_s=0.0,
        # At the rate that was meant, whatever else this machine had to do while it was recorded.
        traffic=Replay(str(trace), rate_msg_s=traffic.rate_msg_s),
        protocol=Protocol(
            purging=False,
            deliver_own=False,
            delivery_messages=traffic.buffer_messages,
            window_messages=traffic.buffer_messages,
            gossip_period_ms=10.0,
        ),
        consumers=(Consumer((2,), traffic.slow_ms),),
    )
    return run(scenario, traffic.seed, False)


def _as_json(
    traffic: "Traffic", said: dict[str, dict[str, Any]], story: "Story", without: "Run"
) -> dict[str, object]:
    return {
        "traffic": asdict(traffic),
        "feed_rate_msg_s": said["feed"]["rate_msg_s"],
        "journal_events": story.events,
        "never_replaced_share": story.never_replaced_share,
        "distance_p50_messages": story.distance_p50,
        "distance_p99_messages": story.distance_p99,
        "members": [asdict(one) for one in story.members],
        "skips": [asdict(one) for one in story.skips],
        "judged": story.verdict.judged,
        "broken": story.verdict.broken,
        "not_at_rest": story.verdict.not_at_rest,
        "excused": story.verdict.excused,
        "missing": [str(one) for one in story.verdict.missing],
        "without_purging": {
            "sent_rate_msg_s": without.sent_rate_msg_s,
            "blocked_share": without.nodes[0].blocked_share,
            "slow_latency_p99_ms": without.nodes[2].latency_p99_ms,
        },
    }


def _print(
    traffic: "Traffic", said: dict[str, dict[str, Any]], story: "Story", without: "Run"
) -> None:
    rows = [
        (
            one.name,
            f"{one.sent:,}" if one.sent else "",
            f"{one.taken:,}" if not one.sent else "",
            f"{one.replaced:,}" if not one.sent else "",
            _ms(one.latency_p50_ms),
            _ms(one.latency_p99_ms),
        )
        for one in story.members
    ]
    columns = ["member", "sent", "took", "skipped: replaced", "age p50", "age p99"]
    print_table(f"What each member got ({story.events:,} events recorded)", columns, rows)
    for one in story.skips:
        print_words(
            f"For instance: {one.member} never took message {one.seq}, a quote of {one.key}; "
            f"message {one.by_seq} covers it."
        )
    print_words(
        f"Profile: {story.never_replaced_share:.1%} of the messages are never replaced; half of "
        f"the others are replaced within {story.distance_p50:.0f} messages, 99% within "
        f"{story.distance_p99:.0f}.",
        *_promises(story),
        f"The feed kept {said['feed']['rate_msg_s']:,.0f} messages a second. Without purging, the "
        f"same {traffic.rate_msg_s:,} a second would have gone at {without.sent_rate_msg_s:,.0f} "
        f"for everybody: the feed blocked {without.nodes[0].blocked_share:.0%} of the time "
        "(simulated).",
    )


def _print_next(keep: Path | None) -> None:
    """What to type next; if the journal was not kept, first to keep one."""
    folder = shlex.quote(str(keep or "demo"))
    first = [] if keep else [f"semcast demo --journal {folder}"]
    after = [f"semcast analyse {folder} --all", f"semcast verify {folder}", "semcast plan --help"]
    print_commands("Next:", first + after)


def _promises(story: "Story") -> list[str]:
    verdict = story.verdict
    kept = [name for name, count in verdict.broken.items() if not count]
    sentences = [f"Verified, and kept: {', '.join(kept)}."] if kept else []
    if verdict.not_at_rest:
        sentences.append(f"What must hold in the end was not judged: {verdict.not_at_rest}.")
    for node, why in verdict.excused.items():
        sentences.append(
            f"Not asked what it has in the end: {verdict.names.get(node, node)}, {why}."
        )
    broken = {name: count for name, count in verdict.broken.items() if count}
    if broken:
        counts = ", ".join(f"{name} {count} times" for name, count in broken.items())
        sentences.append(f"BROKEN: {counts}.")
        sentences += [f"{one}." for one in verdict.missing[:5]]
        sentences += [str(one) for one in verdict.shown[:5]]
    return sentences


def _ms(value_ms: float | None) -> str:
    return "" if value_ms is None else f"{value_ms:,.1f} ms"
