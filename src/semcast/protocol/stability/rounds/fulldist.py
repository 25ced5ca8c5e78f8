"""FullDist: everybody sends its vote to everybody (STAB §3.2).

Two rounds of messages, all INFO: one member multicasts its array, and whoever hears of the round
multicasts its own. Each member processes n + 1 messages and finds by itself what is agreed. The
paper keeps an n×n matrix; only its column minima are used, so those are kept, and who has voted.
"""

from typing import final

from mypy_extensions import i64

from semcast.ids import EVERYBODY
from semcast.protocol.stability.rounds.round_message import INFO, RoundMessage
from semcast.protocol.stability.rounds.shape import Shape
from semcast.protocol.stability.rounds.tracker import RoundTracker


@final
class FullDist(RoundTracker):
    """Each member hears all others. An INFO of no votes is a result, for those that miss votes."""

    def _feeders(self, shape: Shape) -> list[int]:
        others: list[int] = shape.ring.tolist()
        others.remove(self.me)
        return others

    def _target(self, shape: Shape) -> int:  # noqa: ARG002
        return EVERYBODY

    def _launch(self) -> None:
        """Does nothing: `_enter` has sent this member's vote, which begins the round."""

    def _announce(self, info: RoundMessage) -> None:
        """Does nothing: others find the result by themselves."""

    def _is_result(self, message: RoundMessage) -> bool:
        return message.kind == INFO and message.count == 0

    def _result_count(self) -> int:
        return 0

    def _enter(self, round_number: i64, root: int, now_ns: i64) -> None:
        """Enter a round and vote at once."""
        super()._enter(round_number, root, now_ns)
        self._vote()
        assert self._votes is not None
        self._sent = self._message(INFO, 1, self._votes.merged())
        self._out.append((EVERYBODY, self._sent))

    def _go_on(self, now_ns: i64) -> bool:
        return self._end(now_ns)

    def _on_start(self, sender: int, fresh: bool, now_ns: i64) -> bool:
        """The sender has missed my vote; nobody else need hear it again."""
        if self.under_way() and not fresh and self._sent is not None:
            self._out.append((sender, self._sent))
            return False
        return super()._on_start(sender, fresh, now_ns)
