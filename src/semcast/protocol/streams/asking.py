"""Whom to ask for what is missing: what is heard of other members in, a member to ask out.

Each member that may be asked has a window of requests of its own, so that one that does not answer
holds up nobody else's answers. One that was asked, did not answer, and was not heard since is
*silent*: it may have crashed, and is asked again only when nobody else can be. Votes tell who
certainly has a message. Knows nothing of ranges, frames or when to ask.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Randomness, Source

_RTO_MAX_NS: Final = 1_000_000_000
# RFC 6928: so many datagrams may be under way before anything is known of the way.
_SIZE_FIRST: Final = 10
# Losses one by one leave at least so many: requests are small, and so is a datagram each.
_SIZE_MIN: Final = 4
# The most that anybody is asked for at once, in datagrams.
SIZE_MAX: Final = 256
# Nobody can be asked.
NOBODY: Final = -1


@final
class RequestWindow:
    """How many requests one member may have under way, and how long to wait for an answer.

    A request is for about what fits a datagram, and is to this window what a segment is to TCP's
    (SRM §5.3; RFC 5681, 6298). As with selective acknowledgements, one request that is not answered
    while others are halves the window; only if none is, it starts again at one.
    """

    def __init__(self, rto_first_ns: i64, size_max: i64) -> None:
        self._size_max: Final[i64] = size_max
        self.size: i64 = min(_SIZE_FIRST, size_max)
        self._threshold: i64 = size_max
        self._acknowledged: i64 = 0
        self._smoothed_ns: i64 = 0
        self._varying_ns: i64 = 0
        self._rto_min_ns: Final[i64] = rto_first_ns // 2
        self.rto_ns: i64 = rto_first_ns
        self._shrunk_ns: i64 = -1
        # When the last answer came.
        self._arrived_ns: i64 = -1

    def on_arrival(self, waited_ns: i64, first_try: bool, now_ns: i64) -> None:
        """What was asked for is here, so long after it was first asked for."""
        self._arrived_ns = now_ns
        if first_try:
            # Karn: only what was asked for once tells how long an answer takes.
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
        """What was asked for did not come; once per round trip that means congestion."""
        if self._shrunk_ns >= 0 and now_ns - self._shrunk_ns < self.rto_ns:
            return
        answers = self._arrived_ns > self._shrunk_ns
        self._shrunk_ns = now_ns
        least = min(_SIZE_MIN, self._size_max)
        self._threshold = max(self.size // 2, least)
        self.size = self._threshold if answers else 1
        self._acknowledged = 0
        # Until an answer to a first request tells better, the way is taken to be longer: else all
        # that is asked for over a slow link is asked for several times (RFC 6298, 5.5).
        self.rto_ns = min(2 * self.rto_ns, _RTO_MAX_NS)

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
class _Peer:
    """Another member, as somebody to ask."""

    def __init__(self, window: RequestWindow) -> None:
        self.window: Final = window
        # When anything came from it.
        self.heard_ns: i64 = -1
        # INV-SILENT: it was asked, the time for an answer is over, and nothing came since it was
        # asked.
        self.silent = False
        # By source, up to where its votes say that it has everything.
        self.has: Final[dict[Source, int]] = {}


@final
class Asking:
    """What one member knows of the others when it has something to ask for."""

    def __init__(self, members: list[int], rto_first_ns: i64, group: bool, random: Randomness):
        """`members`: all others, by sender id. `group`: anybody may have a message (S-RM)."""
        self._group: Final = group
        self._random: Final = random
        self._rto_first_ns: Final[i64] = rto_first_ns
        self._peers: Final[dict[int, _Peer]] = {
            member: _Peer(RequestWindow(rto_first_ns, SIZE_MAX)) for member in members
        }

    # -- what is heard -----------------------------------------------------------------------------

    def heard(self, member: int, now_ns: i64) -> None:
        """A datagram came from there."""
        peer = self._peers.get(member)
        if peer is not None:
            peer.heard_ns = now_ns
            peer.silent = False

    def has(self, member: int, source: Source, seq: i64) -> None:
        """Its vote says that it has everything of a source up to here."""
        peer = self._peers.get(member)
        if peer is not None and seq > peer.has.get(source, 0):
            peer.has[source] = int(seq)

    def restarted(self, member: int) -> None:
        """It is in another life: what it had is gone, and how quickly it answers is not known."""
        self._peers[member] = _Peer(RequestWindow(self._rto_first_ns, SIZE_MAX))

    def dropped(self, member: int) -> None:
        """It is no member any more."""
        self._peers.pop(member, None)

    def forget(self, source: Source) -> None:
        """Nobody is asked for anything of a source any more."""
        for peer in self._peers.values():
            peer.has.pop(source, None)

    # -- whom to ask -------------------------------------------------------------------------------

    def size(self, source: Source, alive: bool, others: list[int]) -> i64:
        """How many requests for messages of a source may be under way."""
        first = self._first(source, alive, others)
        if first != NOBODY:
            return self._peers[first].window.size
        total: i64 = 0
        for member in others:
            if not self._peers[member].silent:
                total += self._peers[member].window.size
        return max(total, 1)

    def target(self, source: Source, last: i64, tries: i64, alive: bool, others: list[int]) -> int:
        """Whom to ask for messages up to `last`: the sender itself first, then, in S-RM, somebody
        whose votes say that it has them, then anybody who is heard, and then anybody.

        `alive`: the sender is in that life still, as far as is known. `others`: all that are not
        known to be gone.
        """
        first = self._first(source, alive, others)
        if first != NOBODY and (tries == 0 or not self._group):
            return first
        if not self._group:
            return NOBODY
        heard = [member for member in others if not self._peers[member].silent]
        have = [member for member in heard if self._peers[member].has.get(source, 0) >= last]
        among = have or heard or others
        return among[self._random.randrange(len(among))] if among else NOBODY

    def _first(self, source: Source, alive: bool, others: list[int]) -> int:
        """The sender, unless it cannot be asked, or others can and it does not answer."""
        sender = int(source.sender)
        if not alive or sender not in self._peers:
            return NOBODY
        if self._group and self._peers[sender].silent and len(others) > 1:
            return NOBODY
        return sender

    # -- what becomes of it ------------------------------------------------------------------------

    def rto_ns(self, member: int) -> i64:
        """How long to wait for an answer of this member."""
        peer = self._peers.get(member)
        return self._rto_first_ns if peer is None else peer.window.rto_ns

    def answered(self, member: int, waited_ns: i64, first_try: bool, now_ns: i64) -> None:
        """What it was asked for is here."""
        peer = self._peers.get(member)
        if peer is not None:
            peer.window.on_arrival(waited_ns, first_try, now_ns)

    def timed_out(self, member: int, asked_ns: i64, now_ns: i64) -> None:
        """What it was asked for at that time did not come."""
        peer = self._peers.get(member)
        if peer is not None:
            if peer.heard_ns < asked_ns:
                peer.silent = True
            peer.window.on_timeout(now_ns)

    def window_max(self) -> int:
        """The largest window; for people."""
        return max((int(peer.window.size) for peer in self._peers.values()), default=0)
