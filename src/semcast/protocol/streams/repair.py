"""Repair: what is missing of a source goes in, ranges to ask for come out (SRM §5.3).

A request waits for a random back-off, so that one receiver's request, which all hear, silences the
others (RFC 5401). What does not come is asked for again, later each time. How many requests may be
under way, and whom to ask, is for `asking` to say. Knows nothing of payloads, buffers or votes.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Randomness
from semcast.protocol.streams.asking import NOBODY, Asking
from semcast.protocol.streams.holes import Holes

_PATIENCE_MAX_NS: Final = 1_000_000_000
# Doublings of the time to wait, up to the longest: else answers that take longer than any wait
# fill the links with copies of themselves.
_BACKOFFS_MAX: Final = 24


@final
class Want:
    """A range of missing messages that is asked for as one: about what a datagram carries."""

    def __init__(self, first: i64, last: i64, due_ns: i64) -> None:
        self.first = first
        self.last = last
        # When to ask (again).
        self.due_ns = due_ns
        # When it was first asked for, when last, how often, and whom.
        self.first_asked_ns: i64 = 0
        self.asked_ns: i64 = 0
        self.tries: i64 = 0
        self.target = NOBODY

    def rest(self, first: i64) -> "Want":
        """The part from `first` on, as a want of its own."""
        rest = Want(first, self.last, self.due_ns)
        rest.first_asked_ns = self.first_asked_ns
        rest.asked_ns = self.asked_ns
        rest.tries = self.tries
        rest.target = self.target
        return rest


@final
class Repair:
    """What is missing of one source, and when to ask for it."""

    def __init__(self, delay_ns: i64, random: Randomness) -> None:
        self._delay_ns: Final[i64] = delay_ns
        self._random: Final = random
        # INV-WANTS: in order, apart from each other; each was missing when last looked at.
        self._wants: list[Want] = []
        self._due_ns: i64 = -1

    def __len__(self) -> int:
        return len(self._wants)

    def want(self, holes: Holes, end: i64, run: i64, most: i64, now_ns: i64) -> None:
        """Ask soon for the nearest of what is missing, up to `end`: in ranges of at most `run`
        messages, and no more of them than `most` altogether.
        """
        wants = self._wants
        at: i64 = 0
        hole: i64 = 0
        while len(wants) < most and hole < len(holes):
            first, last = holes.range_at(hole)
            hole += 1
            last = min(last, end)
            seq: i64 = first
            while seq <= last and len(wants) < most:
                while at < len(wants) and wants[at].last < seq:
                    at += 1
                if at < len(wants) and wants[at].first <= seq:
                    seq = wants[at].last + 1
                    continue
                until: i64 = min(last, seq + run - 1)
                if at < len(wants):
                    until = min(until, wants[at].first - 1)
                wants.insert(at, Want(seq, until, self._soon(now_ns)))
                seq = until + 1

    def _soon(self, now_ns: i64) -> i64:
        due: i64 = now_ns + self._random.randrange(self._delay_ns)
        if self._due_ns < 0 or due < self._due_ns:
            self._due_ns = due
        return due

    def arrived(self, first: i64, last: i64) -> list[Want]:
        """None of these is missing any more: they came, or are covered. Says which requests that
        had been made are thereby answered as a whole.
        """
        wants = self._wants
        answered: list[Want] = []
        if not wants or first > wants[-1].last or last < wants[0].first:
            return answered
        kept: list[Want] = []
        for want in wants:
            if want.last < first or want.first > last:
                kept.append(want)
            elif want.first < first:
                if want.last > last:
                    kept.append(want)
                    kept.append(want.rest(last + 1))
                else:
                    kept.append(want)
                want.last = first - 1
            elif want.last > last:
                want.first = last + 1
                kept.append(want)
            elif want.tries > 0:
                answered.append(want)
        self._wants = kept
        return answered

    def passed(self, next_seq: i64) -> list[Want]:
        """Everything before `next_seq` was dealt with; says what was answered, as `arrived`."""
        if not self._wants or self._wants[0].first >= next_seq:
            return []
        return self.arrived(self._wants[0].first, next_seq - 1)

    def asked_by_another(self, first: i64, last: i64, rto_ns: i64, now_ns: i64) -> None:
        """Somebody else asked for these: wait for the answer instead of asking too."""
        for want in self._wants:
            if first <= want.first and want.last <= last and want.due_ns >= now_ns - self._delay_ns:
                want.due_ns = now_ns + rto_ns + self._random.randrange(self._delay_ns)

    def next_deadline_ns(self) -> i64:
        """When to look again, or -1."""
        return self._due_ns if self._wants else -1

    def due(self, now_ns: i64) -> list[Want]:
        """What to ask for now; whoever asks says so with `asked`, and then `look_again`."""
        return [want for want in self._wants if want.due_ns <= now_ns]

    def asked(self, want: Want, target: int, rto_ns: i64, now_ns: i64) -> None:
        """A want was asked for, of that member; or of nobody, if nobody can be asked now."""
        patience = min(rto_ns << min(want.tries, _BACKOFFS_MAX), _PATIENCE_MAX_NS)
        want.due_ns = now_ns + patience + self._random.randrange(self._delay_ns)
        if want.tries == 0:
            want.first_asked_ns = now_ns
        want.asked_ns = now_ns
        want.tries += 1
        want.target = target

    def look_again(self) -> None:
        """Find out when something is due next."""
        soonest: i64 = -1
        for want in self._wants:
            if soonest < 0 or want.due_ns < soonest:
                soonest = want.due_ns
        self._due_ns = soonest


def report_answers(asking: Asking, wants: list[Want], now_ns: i64) -> None:
    """What was asked for has come: those who were asked have answered."""
    for want in wants:
        waited_ns = now_ns - want.first_asked_ns
        asking.answered(want.target, waited_ns, want.tries == 1, now_ns)
