"""A live group whose processes come, go, die and are stopped all the time, on a network that loses.

    python -m tests.soak_churn --seconds 300 --seed 1
    python -m tests.soak_churn --seconds 300 --seed 1 --feeds

Eight processes, a join, leave, kill or stop every second, 5% of all packets lost, in a network
namespace of its own. The seed says who does what and when (`tests/live/churn_schedule.py`); of
every view a majority runs. In the end the journals and what each application saw are judged.
Prints a line every few seconds; the exit code is 1 if anything that was promised is broken.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from bench.network import cannot_lose, lose, own_loopback
from tests.live.churn import Churn, ChurnError, Outcome
from tests.live.churn_schedule import schedule
from tests.live.churn_verdict import Verdict, judge

from semcast.settings.table import STABILITY_PROTOCOLS

CANNOT = 2
# So many processes send in a feed, unless another number is given.
FEEDS = 3


def soak(given: argparse.Namespace, folder: Path) -> tuple[Outcome, Verdict]:
    """Run and judge."""
    reliability = "sender" if given.feeds else "group"
    deeds = schedule(given.seed, given.seconds, given.processes, given.period)
    senders = given.senders or (FEEDS if given.feeds else given.processes)
    settings = {"order": given.order, "window_messages": given.window, "stability": given.stability}
    churn = Churn(folder, given.rate, reliability, senders, _say, **settings)
    outcome = churn.run(deeds)
    _say("all have left; the journals are judged")
    return outcome, judge(folder, outcome, given.feeds)


def _say(text: str) -> None:
    print(text, flush=True)


def _show(outcome: Outcome, verdict: Verdict) -> None:
    pauses, joins = sorted(outcome.pauses_s), sorted(outcome.joins_s)
    worst = 1000 * (pauses[-1] if pauses else 0.0)
    over = sum(one > 0.05 for one in pauses)
    _say(verdict.journal)
    _say(
        f"{verdict.owed} messages and {verdict.values} newest values were owed; "
        f"{verdict.lost_with_life} lost with a life that was put out"
    )
    _say(
        f"{outcome.sent} sends of those that left: {over} took more than 50 ms, the worst "
        f"{worst:.0f} ms; joins: median {1000 * joins[len(joins) // 2]:.0f} ms, "
        f"worst {1000 * joins[-1]:.0f} ms; deeds waited {outcome.waited_s:.0f} s in all"
    )


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--seconds", type=float, default=300.0)
    add("--seed", type=int, default=1, help="says who does what and when")
    add("--processes", type=int, default=8, help="how many there are at most: 8")
    add("--period", type=float, default=1.0, help="seconds from one deed to the next: 1")
    add("--rate", type=float, default=12.0, help="messages a second of each process: 12")
    add("--loss", type=float, default=5.0, help="per cent of all packets: 5")
    add("--window", type=int, default=128, help="messages that a sender keeps for others: 128")
    add("--order", choices=("fifo", "key"), default="fifo")
    add("--stability", choices=STABILITY_PROTOCOLS, default="gossip")
    add("--senders", type=int, default=0, help="how many send; the others read: all, or 3 in feeds")
    add("--feeds", action="store_true", help='reliability "sender", with readers')
    add("--keep", type=Path, help="keep the journals here")
    given = parser.parse_args(words)
    why = cannot_lose()
    if why:
        print(f"soak-churn: {why}", file=sys.stderr)
        return CANNOT
    own_loopback()
    lose(given.loss)
    folder = given.keep or Path(tempfile.mkdtemp(prefix="semcast-churn-"))
    try:
        outcome, verdict = soak(given, folder)
    except ChurnError as error:
        print(f"soak-churn failed: {error}\nthe journals are in {folder}", file=sys.stderr)
        return 1
    _show(outcome, verdict)
    if not verdict.ok:
        for line in verdict.broken[:40]:
            print(f"broken: {line}", file=sys.stderr)
        print(f"soak-churn failed: seed {given.seed}; journals in {folder}", file=sys.stderr)
        return 1
    if not given.keep:
        shutil.rmtree(folder)
    _say("soak-churn: every promise was kept")
    return 0


if __name__ == "__main__":
    sys.exit(main())
