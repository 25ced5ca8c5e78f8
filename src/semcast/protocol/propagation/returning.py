"""Coming back: whom the others have gone on without, and what such a site has to undo and redo.

Sites remember openings after failures, and so whom they left behind and with which history (PROP
§5.2.1). A site that was left behind comes back in another life, tells what it had installed, and is
told what to roll back: the last deliveries of its former life, the last one first, and what to
deliver instead. Until its application has undone these it gets nothing else; they are written down,
so that a crash meanwhile does not make it forget them.
"""

from typing import Final, final

from semcast.ids import Source
from semcast.protocol.observer import Observer
from semcast.protocol.propagation.entries import ENTRY_BYTES, Entry, Streams
from semcast.protocol.propagation.memory import Memory
from semcast.protocol.propagation.records import ROLLBACK, Opening, read_entry_ids
from semcast.protocol.propagation.recovering import Rollback, rollback
from semcast.protocol.propagation.site_delivery import SiteDelivery
from semcast.wire.record_fields import RecordReader, RecordWriter

# Of how many lives it is remembered that they were left behind.
REMEMBERED: Final = 64


@final
class Returning:
    """Who was left behind, and whether this site was."""

    def __init__(
        self,
        me: Source,
        streams: Streams,
        delivery: SiteDelivery,
        memory: Memory,
        observer: Observer | None,
    ) -> None:
        self._me: Final = me
        self._memory: Final = memory
        self._delivery: Final = delivery
        self._streams: Final = streams
        self._observer: Final = observer
        self._left: Final[dict[tuple[int, int], Opening]] = {}
        self.out = False
        # Of a life that comes back: the former one, and what that had installed.
        self.former: int = 0
        self.installed: list[Entry] = []
        # The graph in which the others went on without the former life. What is of earlier ones,
        # this life has from that, or is told to install again.
        self.since: int = 0
        # INV-OWED: what the application is to undo and has not undone, in this order. [PROP §5.2.1]
        self.owed: list[Entry] = []
        # What was to be rolled back when this site was last told, until somebody asks.
        self.rollback: Rollback | None = None

    # -- the others --------------------------------------------------------------------------------

    def opened(self, opening: Opening) -> None:
        """An opening counts: remember whom it leaves behind."""
        for site, life in opening.gone:
            self._left[site, life] = opening
        while len(self._left) > REMEMBERED:
            del self._left[next(iter(self._left))]

    def left_behind(self, source: Source) -> int:
        """The graph in which the others went on without this life of a site; 0: they did not."""
        opening = self._left.get((int(source.sender), int(source.incarnation)))
        return 0 if opening is None else opening.number

    def answer(self, site: int, former: int, installed: list[Entry]) -> bytes:
        """What a site that comes back has to roll back; nothing if it was not left behind."""
        opening = self._left.get((site, former))
        if opening is None:
            return b""
        providers = {entry.at: provider for entry, provider in opening.history}
        floors = {(graph, group): place for graph, group, place in opening.floors}
        agreed = [entry for entry, _ in opening.history]
        survivors = {seat.sender for seat in opening.seats}
        again = _sent_again(installed, opening)
        found = rollback(site, installed, agreed, floors, opening.past, survivors, again)
        out = RecordWriter(ROLLBACK)
        out.number(former)
        out.number(opening.number)
        out.count(len(found.undo))
        for entry in found.undo:
            self._streams.write_id(out, entry)
        out.count(len(found.redo))
        for entry in found.redo:
            self._streams.write_id(out, entry)
            out.number(providers.get(entry.at, site))
        return out.take()

    # -- this site ---------------------------------------------------------------------------------

    def was_left(self, number: int) -> None:
        """Others say that they have gone on without this site."""
        if not self.out:
            self.out = True
            if self._observer is not None:
                self._observer.progress("out", self._me, number, None, 0)

    def come_back(self, former: int, installed: list[Entry], owed: list[Entry]) -> None:
        """Be another life of a site that was left behind. `owed`: what that was told to undo, and
        had not undone.
        """
        self.former = former
        self.installed = installed
        self.owed = owed
        if owed:
            self.rollback = Rollback(tuple(owed), ())
        if self._observer is not None:
            source = Source(self._me.sender, former)
            self._observer.progress("recall", source, len(owed), None, 0)

    def begin_anew(self) -> None:
        """What comes now comes after all that a former life has delivered, as it is."""
        self.former = 0
        self.installed = []

    def undid(self, stream: Source, seq: int) -> None:
        """The application has undone a message."""
        for at, entry in enumerate(self.owed):
            if entry.id == (stream, seq):
                del self.owed[at]
                self._memory.undone(stream, seq)
                if self._observer is not None and entry.message is not None:
                    self._observer.message("undo", entry.message, "", None)
                return

    def told(self, body: RecordReader) -> tuple[list[tuple[Entry, int]], list[Entry]]:
        """What to roll back came; says what to install again and who has it, and what of that this
        site has itself.
        """
        former, since = body.site(), body.seq()
        undo = read_entry_ids(body, self._streams)
        redo = [(self._streams.read_id(body), body.site()) for _ in range(body.count(ENTRY_BYTES))]
        body.end()
        if not former or former != self.former:
            return [], []
        known = {entry.at: entry for entry in self.installed}
        wrong = [known[entry.at] for entry in undo if entry.at in known]
        self._memory.told(wrong)
        undone = [entry for entry in wrong if self._delivery.forget(*entry.id)]
        if self._observer is not None:
            source = Source(self._me.sender, former)
            self._observer.progress("resume", source, len(undone), None, 0)
        # What an earlier life was told about was delivered before all that.
        self.owed = undone + self.owed
        self.rollback = Rollback(tuple(self.owed), tuple(entry for entry, _ in redo))
        self.former = 0
        self.installed = []
        self.since = since
        return redo, [known[entry.at] for entry, _ in redo if entry.at in known]


def _sent_again(entries: list[Entry], opening: Opening) -> frozenset[tuple[int, str, int]]:
    """Where those of some entries stand whose sources went on with an opening in which no survivor
    knew a place of them: they are sent to the group again.
    """
    ordered = dict(opening.ordered)
    lives = {(seat.sender, seat.life) for seat in opening.seats}
    return frozenset(
        entry.at
        for entry in entries
        if (int(entry.stream.site), int(entry.stream.incarnation)) in lives
        and entry.group in opening.graph.groups
        and entry.seq > ordered.get(entry.stream, 0)
    )
