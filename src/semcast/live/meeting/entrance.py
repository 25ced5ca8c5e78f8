"""Entrance: what keeps a process out of an open group. Hellos of another kind of group go in, and
datagrams that do not open; why the process cannot get in, for people, comes out.
"""

from collections.abc import Mapping
from typing import Any, Final

from semcast.live.meeting.places import Places
from semcast.live.meeting.why_not import stay_out, why_nobody, why_not_alone
from semcast.live.sockets.address import Address

# Whoever is there answers within this time.
SEEK_NS: Final = 150_000_000
# Those who send what does not open are answered at most so often, all of them together.
_OTHERWISE_NS: Final = 25_000_000
# So many of a group answer; one alone might be stopped.
_ANSWERERS: Final = 2


class Entrance(Places):
    """The part of an open session that knows what is in the way."""

    def _prepare(self) -> None:
        super()._prepare()
        self._feed = self.config.reliability == "sender"
        self._reads = self.config.role == "reader"
        # When a datagram that did not open was last answered.
        self._otherwise_ns = -_OTHERWISE_NS
        # Since when this process looks for the others.
        self._seek_ns = 0

    def _is_of_this_kind(self, said: Mapping[str, Any]) -> bool:
        """Whether a hello is of a group of this kind. Whoever has another is told of this one."""
        roster = self._open
        if roster.is_of_kind(self.config.reliability, said):
            return True
        if roster.inside and self._is_first() and not self._reads:
            # Or a newcomer would take this name for free, and begin a group beside this one.
            roster.news = True
        return False

    def _is_first(self) -> bool:
        members = self._open.members
        return bool(members) and members[0] == self.me.sender

    def _on_otherwise(self, datagram: bytes, address: Address, now_ns: int) -> None:
        """A datagram does not open: its sender has another secret or version, which it sees for
        itself when it gets one of ours. A group at rest says too little otherwise, and the sender
        would begin a group of this name for itself.
        """
        due = now_ns - self._otherwise_ns >= _OTHERWISE_NS and self.door.may_send(now_ns)
        if not due or not self._open.inside or not self._answers():
            return
        self._otherwise_ns = now_ns
        answer = self._sealer.seal(b"")
        # So an answer is never answered, and two groups that share a name leave each other alone.
        if len(answer) < len(datagram):
            self.transport.send(address, [answer])

    def _answers(self) -> bool:
        """Whether it is for this process to answer what all have heard."""
        peers = self._open.peers
        reads = {one for one in self._open.members if one in peers and peers[one].reads}
        if self._reads:
            reads.add(int(self.me.sender))
        others = [one for one in self._open.members if one not in reads]
        first = not others or self.me.sender in others[:_ANSWERERS]
        return first or not self.transport.multicast

    def _stay_out_soon(self, now_ns: int) -> None:
        """If there is something in the way, and nobody of this group has answered so far, it makes
        no sense to wait for longer.
        """
        why = self._why_not_alone()
        known = self._open.peers.values()
        if why and now_ns >= self._seek_ns + SEEK_NS and not any(peer.name for peer in known):
            stay_out(self, self._open, why)

    def _why_not_alone(self) -> str:
        """Why this process should not begin the group by itself, though nobody has let it in."""
        return why_not_alone(self, self._open.other_kind)

    def why_not_in(self) -> str:
        """Why this process is not in after all that time."""
        return self._why_not_alone() or why_nobody(self)
