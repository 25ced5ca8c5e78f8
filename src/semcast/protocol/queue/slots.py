"""The slots of a buffer: messages in, in queue order; found again by slot, or source and number.

Slots are a doubly linked list in arrays; a lane for each source finds the slot of a sequence
number, so that whatever enters or leaves costs the same at 40 messages and at 100,000. Knows
nothing of what replaces what, nor of bounds.
"""

from typing import Final, final

from librt.vecs import append, vec
from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.queue.index import SeqIndex
from semcast.wire.message import Message


@final
class Lane:
    """The messages of one source in a buffer."""

    def __init__(self) -> None:
        self.index: Final = SeqIndex()
        self.newest: i64 = 0
        self.held_bytes: i64 = 0
        # No held message is older than this; hits are not looked for beyond it.
        self.oldest: i64 = 0
        # INV-RELEASED: every held message up to here that the guard allows was used as a cover,
        # or had no need to be, being marked.
        self.released: i64 = 0
        # The newest message that names others by a bitmap: what is newer covers nothing.
        self.last_mark: i64 = 0
        # The widest bitmap that was used to cover others, if it is too wide for a word: what is
        # farther ahead of a late message does not reach it.
        self.widest = 0
        # Whether any message ever had to wait until the guard allowed it as a cover.
        self.guarded = False
        # Of messages that replace by key: how many keys there are, the cells in which the newest
        # slot of each is, and messages about several keys by slot, under each. See `key_chains`.
        self.chains: i64 = 0
        self.cells = vec[i64]()
        self.sets: Final[dict[bytes, dict[int, Message]]] = {}
        # In place: what of this source the application will not get, and no message has told yet;
        # in order, each once.
        self.untold: list[int] = []
        # The sources of the same sender in its former lives, in order.
        self.former: list[Source] = []

    def nearest(self, seq: i64) -> i64:
        """The first held number from a late one on, or one that is not held if there is none."""
        return self.index.nearest(seq, self.newest)


@final
class Slots:
    """What a buffer holds, as a queue."""

    def __init__(self) -> None:
        # Slot s is followed by slot links[2s] and preceded by links[2s+1]; slot 0 is the list's
        # end and start, so that links[0] is the oldest message and links[1] the newest.
        self.items: Final[list[Message | None]] = [None]
        self.links = vec[i64]([0, 0])
        self._free: i64 = 0
        self.lanes: Final[dict[Source, Lane]] = {}
        self.last_source: Source | None = None
        self.last_lane = Lane()
        # Whether a sender has had messages here in two of its lives.
        self.reborn = False
        self.held: i64 = 0
        self.held_bytes: i64 = 0

    def lane(self, source: Source) -> Lane:
        """The lane of a source, which is made if there is none."""
        lane = self.lanes.get(source)
        if lane is None:
            lane = Lane()
            self._note_lives(source, lane)
            self.lanes[source] = lane
        self.last_source = source
        self.last_lane = lane
        return lane

    def _note_lives(self, source: Source, lane: Lane) -> None:
        """A source is new: note which others are lives of the same sender."""
        for other, its_lane in self.lanes.items():
            if other.sender == source.sender:
                self.reborn = True
                if other.incarnation < source.incarnation:
                    lane.former.append(other)
                else:
                    its_lane.former.append(source)
                    its_lane.former.sort()
        lane.former.sort()

    def find(self, source: Source) -> Lane | None:
        """The lane of a source, if anything of it was ever held."""
        return self.last_lane if source is self.last_source else self.lanes.get(source)

    def forget(self, source: Source) -> None:
        """Nothing of a source is held, and nothing will come any more: nothing is kept of it."""
        lane = self.lanes.pop(source, None)
        if lane is None:
            return
        assert lane.index.count == 0, "nothing of it is held"
        if self.last_source is source:
            self.last_source = None
        for other in self.lanes.values():
            if source in other.former:
                other.former.remove(source)

    def at(self, slot: i64) -> Message:
        """The message in a slot that is not empty."""
        message = self.items[slot]
        assert message is not None
        return message

    def messages(self) -> list[Message]:
        """What is held, in queue order."""
        found = []
        slot = self.links[0]
        while slot != 0:
            found.append(self.at(slot))
            slot = self.links[2 * slot]
        return found

    def successor(self, lane: Lane, message: Message) -> i64:
        """The slot before which a late message belongs; 0 is the end of the queue.

        That of the next one of its source: those are in the order of their numbers.
        """
        if lane.index.count == 0:
            return 0
        return max(lane.index.get(lane.nearest(message.seq + 1)), 0)

    def store(self, lane: Lane, message: Message, size: i64, before: i64) -> i64:
        """Put a message before another slot; says which slot it got."""
        slot = self.store_apart(lane, message, size)
        links = self.links
        previous = links[2 * before + 1]
        links[2 * slot] = before
        links[2 * slot + 1] = previous
        links[2 * previous] = slot
        links[2 * before + 1] = slot
        return slot

    def store_apart(self, lane: Lane, message: Message, size: i64) -> i64:
        """Put a message into a slot that is not in the queue; whoever does so has its links."""
        slot = self._free
        if slot != 0:
            self._free = self.links[2 * slot]
            self.items[slot] = message
        else:
            slot = len(self.items)
            self.items.append(message)
            self.links = append(append(self.links, 0), 0)
        self._enter(lane, message, size, slot)
        return slot

    def move_in(self, lane: Lane, message: Message, size: i64, slot: i64) -> None:
        """Put a message into an empty slot that is still in the queue."""
        self.items[slot] = message
        self._enter(lane, message, size, slot)

    def _enter(self, lane: Lane, message: Message, size: i64, slot: i64) -> None:
        """A message is in this slot: count it, and make it found by its number."""
        if lane.index.count == 0 or message.seq < lane.oldest:
            lane.oldest = message.seq
        if message.seq > lane.newest:
            lane.newest = message.seq
            lane.index.put(message.seq, slot)
        else:
            lane.index.put_late(message.seq, slot)
        self.held += 1
        self.held_bytes += size
        lane.held_bytes += size

    def leave(self, slot: i64) -> Message:
        """A message leaves its slot, which stays in the queue, empty."""
        message = self.at(slot)
        self.items[slot] = None
        source = message.source
        lane = self.last_lane if source is self.last_source else self.lane(source)
        lane.index.remove(message.seq)
        if message.seq == lane.oldest:
            lane.oldest += 1
        self.held -= 1
        self.held_bytes -= len(message.body)
        lane.held_bytes -= len(message.body)
        return message

    def unlink(self, slot: i64) -> None:
        """An empty slot leaves the queue."""
        links = self.links
        following = links[2 * slot]
        previous = links[2 * slot + 1]
        links[2 * previous] = following
        links[2 * following + 1] = previous
        self.free(slot)

    def free(self, slot: i64) -> None:
        """An empty slot that is not in the queue may be used again."""
        self.links[2 * slot] = self._free
        self._free = slot
