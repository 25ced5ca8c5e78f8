"""Doubts: what a former life had got of others goes in; what of it comes again is left out.

Two members that were cut off together may have received messages of each other that nobody else
has. Both come back, and each sends its own again (`resending`). So a member that came back hands
on nothing of another that is in a later life than the one it knew, before that one has said how
many of its first messages are those of the former life that this member's application has. What
was sent again comes first and in order, so one number says it.

If the other goes before it has answered, nobody else can tell: what came of it is handed on.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import NEVER, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.membership.transfer import Transfer
from semcast.protocol.membership.view import View
from semcast.protocol.outbox import Outbox
from semcast.protocol.stability.followed import ENDED as HAS_ENDED
from semcast.protocol.streams.intake import Intake
from semcast.wire.families.pasts import AGAIN, ASKS, Past

# A question is repeated after so many of `nak_delay_ns`, then ever later, up to so many.
_PATIENCE: Final = 10
_PATIENCE_MAX: Final = 250


@final
class Doubts:
    """The streams of which a member that came back may have had something in its former life."""

    def __init__(
        self, config: MemberConfig, me: Source, intake: Intake, transfer: Transfer
    ) -> None:
        self._config: Final = config
        self._me: Final = me
        self._intake: Final = intake
        self._transfer: Final = transfer
        # By sender: its last life that the former life followed, and how far that got with it.
        self._since: Final[dict[int, tuple[Source, int]]] = {}
        self._ask_ns: i64 = NEVER
        self._patience: i64 = _PATIENCE

    def begin(self, since: dict[Source, int], view: View, now_ns: i64) -> None:
        """The application has everything of these lives up to these numbers."""
        for source in sorted(since):
            if source.sender != self._me.sender and 0 < since[source] < HAS_ENDED:
                self._since[int(source.sender)] = (source, since[source])
        self.install(view, now_ns)

    def install(self, view: View, now_ns: i64) -> None:
        """See who is in another life, and who has gone."""
        doubtful = self._intake.doubtful
        for source in [one for one in doubtful if not view.holds(one)]:
            self._trust(source, now_ns)
        for sender, (former, _) in self._since.items():
            source = Source(sender, view.life(sender))
            present = view.is_present(sender) and source.incarnation > former.incarnation
            if present and source not in doubtful:
                doubtful.add(source)
                self._ask_ns = now_ns
                self._patience = _PATIENCE
        if not doubtful:
            self._ask_ns = NEVER

    def on_answer(self, past: Past, source: Source, now_ns: i64) -> None:
        """A member in a later life says how many of its messages this member had before."""
        since = self._since.get(int(source.sender))
        if source not in self._intake.doubtful or since is None or past.source != since[0]:
            return
        del self._since[int(source.sender)]
        if past.seq > 0:
            self._transfer.knows_up_to(source, past.seq)
        self._trust(source, now_ns)
        if not self._intake.doubtful:
            self._ask_ns = NEVER

    def _trust(self, source: Source, now_ns: i64) -> None:
        """Hand on what has come of this source, and what will."""
        self._intake.doubtful.discard(source)
        self._intake.has_room(now_ns)

    def next_deadline_ns(self) -> i64:
        """When to call `pack`."""
        return self._ask_ns

    def pack(self, outbox: Outbox, now_ns: i64) -> None:
        """Ask those who are in doubt."""
        if now_ns < self._ask_ns:
            return
        for source in sorted(self._intake.doubtful):
            former, seq = self._since[int(source.sender)]
            outbox.frame(int(source.sender), Past(ASKS | AGAIN, former, seq))
        self._ask_ns = now_ns + self._patience * self._config.nak_delay_ns
        self._patience = min(2 * self._patience, _PATIENCE_MAX)
