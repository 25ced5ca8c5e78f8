"""Whether a run of `churn` kept what is promised: its journals and accounts in, broken ones out.

The journals are judged by the checkers, each life by itself. The accounts say what the applications
saw, over all lives of a process: nothing that was sent for good and is not replaced is lost, the
newest value of every key is there in the end, and nothing comes twice.
"""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.live.churn import Outcome
from tests.live.churn_schedule import STOPPED_S
from tests.live.comer import Account

from semcast.check import History, check_run
from semcast.journal import read_journal, runs_in

# A process that came back by itself had been away for so long at the most: it was stopped, found
# out, and let in again. What others sent meanwhile it owes only so far as it stands.
AWAY_S = STOPPED_S[1] + 8.0
# A sender of a feed and a reader find each other in this time; and so soon, at the earliest, is a
# reader forgotten that was stopped. Then it owes only what stands.
MEET_S = 3.0
SHOWN_MAX = 10


@dataclass
class Verdict:
    """What was found."""

    broken: list[str] = field(default_factory=list)
    # How much was judged.
    journal: str = ""
    owed: int = 0
    values: int = 0
    # Sent in a life that was put out, and received by nobody.
    lost_with_life: int = 0

    @property
    def ok(self) -> bool:
        return not self.broken


def judge_journals(folder: Path, rested: int, verdict: Verdict) -> None:
    """Every property that was promised, of the run's journals."""
    runs = runs_in(folder)
    if len(runs) != 1:
        verdict.broken.append(f"{len(runs)} journals in {folder}, and not one")
        return
    history = History(read_journal(folder, runs[0]))
    report = check_run(history)
    verdict.journal = str(report)
    counts = history.counts
    if not report.ok:
        verdict.broken += [f"{name}: {n} times" for name, n in report.counts.items() if n]
        verdict.broken += [str(one) for one in report.violations[:SHOWN_MAX]]
    if report.not_at_rest:
        verdict.broken.append(f"not judged in the end: {report.not_at_rest}")
    if history.header.left_out:
        verdict.broken.append(f"{history.header.left_out} events are missing in the journals")
    at_rest = history.run.correct.bit_count()
    if at_rest < rested:
        verdict.broken.append(f"{at_rest} members ended at rest by their journals, not {rested}")
    if not counts["deliver"] or not counts["purge"]:
        verdict.broken.append("nothing was delivered, or nothing purged")


class Ledger:
    """What each application saw, against what each one sent."""

    def __init__(self, outcome: Outcome, feeds: bool, verdict: Verdict) -> None:
        self._outcome = outcome
        self._feeds = feeds
        self._verdict = verdict
        # Of what was sent in a life that was put out: how many lack it, and have it.
        self._lacking: Counter[str] = Counter()
        self._having: Counter[str] = Counter()

    def judge(self) -> None:
        # Of those that were killed nothing is asked, and of those that left without knowing that
        # all was safe only that nothing comes twice.
        safe = [one for one in self._outcome.left if one.safe]
        senders = self._outcome.rested + ([] if self._feeds else safe)
        for reader in self._outcome.rested:
            taken = Counter(text for text, _ in reader.taken)
            values = {key: text for text, key in reader.taken if key}
            self._twice(reader, taken)
            for sender in senders:
                self._stream(sender, reader, taken)
                self._newest(sender, reader, values)
        for text, count in sorted(self._lacking.items()):
            if self._having[text]:
                self._fault(f"{text} is missing at {count}, and {self._having[text]} have it")
            else:
                self._verdict.lost_with_life += 1

    def _stream(self, sender: Account, reader: Account, taken: Counter[str]) -> None:
        for text, key, at_s in sender.sent:
            if key or not self._owes(sender, reader, at_s):
                continue
            self._verdict.owed += 1
            if self._away(sender, at_s):
                # Known: what a process had sent and nobody had received when it was put out is
                # lost with its former life. To be struck out when that is mended. That it took
                # its own message itself does not say that anybody else ever had it.
                # Neither does that a reader took it, whom nobody asks for anything.
                if not taken[text]:
                    self._lacking[text] += 1
                elif reader is not sender and not reader.reads:
                    self._having[text] += 1
            elif not taken[text]:
                self._fault(f"{reader.process} never got {text}, sent {self._when(at_s)}")

    def _newest(self, sender: Account, reader: Account, values: dict[str, str]) -> None:
        newest = {key: (text, at_s) for text, key, at_s in sender.sent if key}
        for key, (text, at_s) in newest.items():
            self._verdict.values += 1
            if values.get(key) == text:
                continue
            if not self._away(sender, at_s):
                self._fault(f"{reader.process} has {values.get(key)} of {key}, and not {text}")

    def _twice(self, reader: Account, taken: Counter[str]) -> None:
        for text, count in taken.items():
            if count > 1:
                self._fault(f"{reader.process} got {text} {count} times")

    def _owes(self, sender: Account, reader: Account, at_s: float) -> bool:
        """Whether a reader has to have what was sent then."""
        if reader is sender:
            return True
        if self._feeds or reader.reads:
            windows = self._outcome.stopped.get(reader.process, [])
            windows = windows + self._outcome.stopped.get(sender.process, [])
            late = at_s < max(reader.in_s, sender.in_s) + MEET_S
            if late or any(a - MEET_S < at_s < b + MEET_S for a, b in windows):
                return False
        return at_s > reader.in_s and not self._away(reader, at_s)

    @staticmethod
    def _away(one: Account, at_s: float) -> bool:
        """Whether a process may have been out then, on its way back into the group."""
        return any(back_s - AWAY_S < at_s < back_s for back_s in one.back_s)

    def _when(self, at_s: float) -> str:
        first_s = min(one.in_s for one in self._outcome.rested + self._outcome.left)
        return f"{at_s - first_s:.1f} s after the first was in"

    def _fault(self, text: str) -> None:
        self._verdict.broken.append(text)


def judge(folder: Path, outcome: Outcome, feeds: bool) -> Verdict:
    """Everything."""
    verdict = Verdict()
    judge_journals(folder, len(outcome.rested), verdict)
    Ledger(outcome, feeds, verdict).judge()
    return verdict
