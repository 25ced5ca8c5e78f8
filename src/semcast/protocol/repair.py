"""Repair: what is missing goes in, requests for it come out (SRM §5.3, receiver-initiated).

A request waits for a random back-off, so that one receiver's request, which all hear, silences the
others (RFC 5401). How many messages may be asked for and not yet here is bounded by a window that
grows and shrinks as TCP's does. What does not come is asked for again, later each time, and of
another member. Knows nothing of payloads, buffers or votes.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import RandomStream

_RTO_MAX_NS: Final = 1_000_000_000
# Doublings of the time to wait, up to the longest: else answers that take longer than any wait
# fill the links with copies of themselves.
_BACKOFFS_MAX: Final = 24


@final
class RequestWindow:
    """How many requests may be under way, how long to wait for one: as TCP's (RFC 5681, 6298)."""

    def __init__(self, rto_first_ns: i64, size_max: i64) -> None:
        self._size_max: Final[i64] = size_max
        self.size: i64 = 4
        self._threshold: i64 = size_max
        self._acknowledged: i64 = 0
        self._smoothed_ns: i64 = 0
        self._varying_ns: i64 = 0
        self._rto_min_ns: Final[i64] = rto_first_ns // 2
        self.rto_ns: i64 = rto_first_ns
        self._shrunk_ns: i64 = -1

    def on_arrival(self, waited_ns: i64, first_try: bool) -> None:
        """A message that was asked for is here, so long after it was first asked for."""
        if first_try:
            # Karn: only a message asked for once tells how long it takes.
            self._measure(waited_ns)
        if self.size < self._threshold:
            self.size += 1
        else:
            self._acknowledged += 1
            if self._acknowledged >= self.size:
                self._acknowledged = 0
                self.size += 1
        if self.size > self._size_max:
            self.size = self._size_max

    def on_timeout(self, now_ns: i64) -> None:
        """A message that was asked for did not come; once per round trip that means congestion."""
        if self._shrunk_ns >= 0 and now_ns - self._shrunk_ns < self.rto_ns:
            return
        self._shrunk_ns = now_ns
        self._threshold = max(self.size // 2, 2)
        self.size = 1
        self._acknowledged = 0

    def _measure(self, waited_ns: i64) -> None:
        if self._smoothed_ns == 0:
            self._smoothed_ns = waited_ns
            self._varying_ns = waited_ns // 2
        else:
            error = waited_ns - self._smoothed_ns
            self._smoothed_ns += error // 8
            if error < 0:
                error = -error
            self._varying_ns += (error - self._varying_ns) // 4
        rto = self._smoothed_ns + 4 * self._varying_ns
        self.rto_ns = min(max(rto, self._rto_min_ns), _RTO_MAX_NS)


@final
class _Want:
    """One missing message of a source."""

    def __init__(self, due_ns: i64) -> None:
        # When to ask (again).
        self.due_ns = due_ns
        # When it was first asked for.
        self.asked_ns: i64 = 0
        self.tries: i64 = 0


@final
class Repair:
    """What is missing of one source, and when to ask for it."""

    def __init__(self, window: RequestWindow, delay_ns: i64, random: RandomStream) -> None:
        self._window: Final = window
        self._delay_ns: Final[i64] = delay_ns
        self._random: Final = random
        # INV-WANTS: no more than the request window allows, each missing when last looked at.
        self._wants: Final[dict[int, _Want]] = {}
        self._due_ns: i64 = -1

    def __len__(self) -> int:
        return len(self._wants)

    def want(self, missing: list[int], now_ns: i64) -> None:
        """These are missing, nearest first; as many as the window allows are asked for soon."""
        for seq in missing:
            if seq in self._wants:
                continue
            if len(self._wants) >= self._window.size:
                break
            due = now_ns + self._random.randrange(self._delay_ns)
            self._wants[seq] = _Want(due)
            if self._due_ns < 0 or due < self._due_ns:
                self._due_ns = due

    def arrived(self, seq: i64, now_ns: i64) -> None:
        """Message `seq` is no longer missing: it came, or is covered."""
        want = self._wants.pop(int(seq), None)
        if want is not None and want.tries > 0:
            self._window.on_arrival(now_ns - want.asked_ns, want.tries == 1)

    def passed(self, next_seq: i64) -> None:
        """Everything before `next_seq` was dealt with some other way."""
        for seq in [seq for seq in self._wants if seq < next_seq]:
            del self._wants[seq]

    def asked_by_another(self, first: i64, last: i64, now_ns: i64) -> None:
        """Somebody else asked for these: wait for the answer instead of asking too."""
        for seq, want in self._wants.items():
            if first <= seq <= last and want.due_ns >= now_ns - self._delay_ns:
                want.due_ns = now_ns + self._window.rto_ns + self._random.randrange(self._delay_ns)

    def next_deadline_ns(self) -> i64:
        """When to look again, or -1."""
        return self._due_ns if self._wants else -1

    def due(self, now_ns: i64) -> tuple[list[int], int]:
        """What to ask for now, in order, and how often it was asked for before at the most."""
        if not self._wants:
            self._due_ns = -1
            return [], 0
        asked = []
        tries = 0
        soonest: i64 = -1
        for seq, want in self._wants.items():
            if want.due_ns <= now_ns:
                if want.tries > 0:
                    self._window.on_timeout(now_ns)
                tries = max(tries, int(want.tries))
                patience = self._window.rto_ns << min(want.tries, _BACKOFFS_MAX)
                want.due_ns = now_ns + min(patience, _RTO_MAX_NS)
                want.due_ns += self._random.randrange(self._delay_ns)
                if want.tries == 0:
                    want.asked_ns = now_ns
                want.tries += 1
                asked.append(seq)
            if soonest < 0 or want.due_ns < soonest:
                soonest = want.due_ns
        self._due_ns = soonest
        return sorted(asked), tries


def ranges_of(seqs: list[int]) -> list[tuple[int, int]]:
    """Increasing numbers as ranges, both ends included: [1, 2, 5] gives [(1, 2), (5, 5)]."""
    found: list[tuple[int, int]] = []
    for seq in seqs:
        if found and found[-1][1] == seq - 1:
            found[-1] = (found[-1][0], seq)
        else:
            found.append((seq, seq))
    return found
