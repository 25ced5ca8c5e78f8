"""Train: one array goes around the group, and then its result does (STAB §3.3).

2n rounds of messages: an ACK from member to member around the ring, then an INFO the same way. Each
member processes 4 messages, whatever the size of the group, and waits longest.

With f+1 votes the train returns to the root as soon as that many are on it. It carries one array,
the lowest of them. So in each round it goes first to another member; otherwise one slow member
might be among the first every time.
"""

from typing import ClassVar, final

from mypy_extensions import i64

from semcast.protocol.stability.rounds.missing import Missing
from semcast.protocol.stability.rounds.round_message import ACK, RoundMessage
from semcast.protocol.stability.rounds.shape import Shape
from semcast.protocol.stability.rounds.tracker import RoundTracker
from semcast.protocol.stability.rounds.votes import AllVotes, SomeVotes


@final
class Train(RoundTracker):
    """Each member hears the one before it and sends to the one after it."""

    start_is_alarm: ClassVar[bool] = True

    def _feeders(self, shape: Shape) -> list[int]:
        """The member before me on the train's way, which is around the ring for stability.

        For safety it begins at another place each time. Places are counted from the root, 0.
        """
        count = shape.present
        if count == 1:
            return []
        place = shape.place(self.me)
        first = self._first(count)
        if place == first:
            return [shape.root]
        # The root is not passed through: its place is before the first and after the last.
        before = first if place == 0 else place
        before = before - 1 if before > 1 else count - 1
        return [int(shape.ring[before])]

    def _target(self, shape: Shape) -> int:
        if self._sent is not None and 0 < self._needed <= self._sent.count:
            return shape.root
        count = shape.present
        after = shape.place(self.me) + 1
        after = after if after < count else 1
        return shape.root if after == self._first(count) else int(shape.ring[after])

    def _first(self, count: int) -> int:
        """The place that the train goes to first."""
        return 1 + int(self._round) % (count - 1) if self._needed else 1

    def _launch(self) -> None:
        """The root's vote leaves with the train and comes back on it."""
        shape = self.roll.shape(self.me)
        if shape.present == 1:
            return
        assert self._votes is not None
        self._vote()
        self._sent = self._message(ACK, self._votes.sent_count(), self._votes.merged())
        self._send_train(shape)
        self._votes = SomeVotes(self._needed) if self._needed else AllVotes()

    def _send_train(self, shape: Shape) -> None:
        assert self._sent is not None
        self._out.append((int(shape.ring[self._first(shape.present)]), self._sent))

    def _announce(self, info: RoundMessage) -> None:
        shape = self.roll.shape(self.me)
        if shape.present > 1:
            self._out.append((shape.after(self.me), info))

    def _heard_result(self, info: RoundMessage) -> None:
        if info.root != self.me:
            self._out.append((self.roll.shape(info.root).after(self.me), info))

    def _informer(self, shape: Shape) -> int:
        return shape.before(self.me)

    def _pull(self, now_ns: i64) -> bool:
        if self._needed and self._root == self.me:
            # A member on the way does not answer; a train with another first stop may not need it.
            return self._begin(now_ns)
        return super()._pull(now_ns)

    def _on_start(self, sender: int, fresh: bool, now_ns: i64) -> bool:
        """The root's own train is sent again like everybody else's."""
        if self._root == self.me and self.under_way() and self._sent is not None:
            self._send_train(self.roll.shape(self.me))
            return False
        return super()._on_start(sender, fresh, now_ns)

    def _on_votes(self, message: RoundMessage, sender: int, now_ns: i64) -> bool:
        """With enough votes on it, the train comes home from wherever it was."""
        if self._root == self.me and 0 < self._needed <= message.count and self.under_way():
            self._missing = Missing([sender])
        return super()._on_votes(message, sender, now_ns)
