"""What the application of a member has: how far it got with each source, whatever it has it from.

It may have messages of a former life of its process, or from a snapshot that it restored. Streams
then go on after these (`Order.skip_to`), and of the state it needs only what it lacks. What it has
goes to the life that follows this one, if this one is put out.

Knows nothing of who is asked for what is lacking.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.membership.gathering import Collection
from semcast.protocol.membership.standing import Standing
from semcast.protocol.membership.view import View
from semcast.protocol.order import Order
from semcast.protocol.stability.followed import ENDED
from semcast.protocol.streams.inbound import Inbound


@final
class Had:
    """How far the application got with each source before its stream."""

    def __init__(self, order: Order) -> None:
        self._order: Final = order
        # Of a process that was here before: how far its application had got with each source.
        self.since: dict[Source, int] = {}
        # A snapshot that has come, for the application; and once there was one, what it had of each
        # source.
        self.snapshot: bytes | None = None
        self._restored: dict[Source, int] | None = None

    def of(self, source: Source) -> int:
        """Up to which number it has everything of a source."""
        return self.since.get(source, 0)

    def reach(self, source: Source, seq: i64) -> None:
        """It has everything of a source up to a number."""
        if seq > self.of(source):
            self.since[source] = int(seq)

    def skip(self, source: Source, seq: i64) -> None:
        """The application has these messages already; they do not come to it again."""
        self.since[source] = int(seq)
        self._order.skip_to(source, seq)

    def for_next_life(
        self,
        taken: dict[Source, int],
        standing: Standing | None,
        collection: Collection | None,
        late: bool,
    ) -> dict[Source, int]:
        """How far it has got with each source, ENDED with those of which it has everything; so much
        has it `taken` in this life.

        What is still to come of the state, it has not; and while it waits for all of the state, it
        has nothing but what a former life gave it.
        """
        if self.snapshot is not None or (collection is not None and late):
            return self.since
        found = dict(taken)
        if standing is not None:
            for source, ended in standing.sources():
                if ended and source not in found:
                    found[source] = ENDED
        had: dict[Source, int] = {}
        for source, seq in found.items():
            since = self.of(source)
            awaited = collection is not None and collection.awaits(source)
            had[source] = since if awaited else max(since, seq)
        return had

    # -- snapshots ---------------------------------------------------------------------------------

    @property
    def restored(self) -> bool:
        """Whether a snapshot came. A second one would undo what the application did since then."""
        return self._restored is not None

    def has(self, source: Source, cut: i64) -> bool:
        """Whether it has everything of a source up to a cut, from the snapshot or from before."""
        restored = 0 if self._restored is None else self._restored.get(source, 0)
        return max(self.of(source), restored) >= cut

    def restore(
        self,
        snapshot: bytes,
        taken: dict[Source, int],
        followed: dict[Source, Inbound],
        me: Source,
        view: View,
    ) -> None:
        """A snapshot has come: streams begin after what it has, once the application has it."""
        self.snapshot = snapshot
        self._restored = taken
        for source in list(followed):
            seq = taken.get(source, ENDED if view.is_over(source) else 0)
            if source != me and seq > 0:
                self._order.skip_to(source, seq)
        for source, seq in taken.items():
            if source not in followed and seq > 0 and view.holds(source):
                self._order.skip_to(source, seq)

    def take_snapshot(self) -> bytes | None:
        """The application takes the snapshot that has come, if there is one; until then it gets no
        message.
        """
        snapshot, self.snapshot = self.snapshot, None
        if snapshot is not None:
            self._order.let_go([])
        return snapshot
