"""Standing still: a site that is asked to says what it has, and changes none of it until it goes on
with what comes of the recovery (PROP §5.2.1).
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from semcast.protocol.propagation.catching import Catching
from semcast.protocol.propagation.entries import Streams
from semcast.protocol.propagation.records import NO_TERM, Term, write_report
from semcast.protocol.propagation.recovering import Past, Report
from semcast.protocol.propagation.returning import Returning
from semcast.protocol.propagation.turns import Turns


@final
class Standing:
    """What a site does while others are brought together."""

    def __init__(
        self,
        patience_ns: i64,
        turns: Turns,
        catching: Catching,
        returning: Returning,
        streams: Streams,
        tell: Callable[[int, bytes], None],
    ) -> None:
        """`patience_ns`: after this time it is said again that this site stands still."""
        self._patience_ns: Final[i64] = patience_ns
        self._turns: Final = turns
        self._catching: Final = catching
        self._returning: Final = returning
        self._streams: Final = streams
        self._tell: Final = tell
        # The newest graph of which the manager knew when this site reported what it has; for which
        # attempt of which manager it did, and when.
        self.reported: int = 0
        self._attempt: tuple[Term, int] = (NO_TERM, 0)
        self._reported_ns: i64 = 0

    def begin(
        self, term: Term, attempt: int, number: int, past: Past, site: int, now_ns: i64
    ) -> None:
        """Stand still, and say what there is. What follows comes after the graph `number`: if this
        site was about to go on with one up to that, it is not to do so after its report.
        """
        self._turns.frozen = True
        self.reported = max(self.reported, number)
        self._attempt = term, attempt
        self._catching.give_up()
        self._report(site, past, now_ns)

    def _report(self, site: int, past: Past, now_ns: i64) -> None:
        self._reported_ns = now_ns
        term, attempt = self._attempt
        self._tell(site, write_report(term, attempt, self.report(), past, self._streams))

    def report(self) -> Report:
        """What this site has. One that comes back, and has opened no graph yet, does not report
        what it does again: its former life had what comes before that, and it will have the rest.
        """
        report, since = self._turns.report(), self._returning.since
        if report.graph or not since:
            return report
        later = [entry for entry in report.entries if entry.graph > since]
        return Report(since, {}, later, report.last)

    def has_waited(self, now_ns: i64) -> bool:
        """Whether its last report was so long ago that nothing will come of it."""
        return now_ns - self._reported_ns > self._patience_ns

    def remind(self, manager: int, past: Past, now_ns: i64) -> None:
        """Whoever had this site stand still may be manager no more, and its recovery given up: then
        the next manager does not know that this site waits for one. Say so now and then.
        """
        waits = self._turns.frozen and self.reported > 0 and not self._catching.busy
        inside = self._turns.number > 0 and not self._returning.out
        if waits and inside and self.has_waited(now_ns):
            self._report(manager, past, now_ns)
