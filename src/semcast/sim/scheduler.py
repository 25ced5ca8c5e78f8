"""The scheduler: events in, each fired at its time, in an order that depends on nothing else.

An event is a time, a handler and one integer for it to make sense of; the order is (time, priority,
order of scheduling), so the same calls give the same run. Time is integer nanoseconds and moves
only from event to event. Knows nothing of networks, nodes, wall clocks or randomness.

Theory of operation. There is no object per event: an event is a *slot*, four integers of one
array, and the queue is a binary heap of (time, slot) pairs in another. Times mostly differ, so the
rest of the order is looked up in the slot only when they do not. Cancelling marks the slot; its
pair is removed when it comes to the top, or in a sweep when over half of the queue is cancelled.
"""

from typing import Final, final

from librt.vecs import append, vec
from mypy_extensions import i64, mypyc_attr

from semcast.errors import LocalProtocolError
from semcast.ids import NEVER

PRIORITY_MAX: Final = 63
NO_EVENT: Final = -1  # an event id that no event has; cancelling it does nothing

# Fields of a slot.
_RANK: Final = 0  # priority and order of scheduling; in a free slot, the next free one
_HANDLER: Final = 1
_ARGUMENT: Final = 2
_LIFE: Final = 3  # how often the slot was used
_FIELDS: Final = 4

_SEQ_BITS: Final = 56
_SLOT_BITS: Final = 32
_SLOT_MASK: Final = (1 << _SLOT_BITS) - 1
_LIFE_MASK: Final = (1 << 30) - 1
_CANCELLED: Final = -1
_END: Final = -1  # of the list of free slots
_SWEEP_MIN: Final = 64


@mypyc_attr(allow_interpreted_subclasses=True)
class Handler:
    """What events are for. Register it with `Scheduler.add`."""

    def fire(self, argument: i64) -> None:
        """The event's time has come; `argument` is what it was scheduled with."""
        raise NotImplementedError(f"{type(self).__name__} must define fire")


@final
class Scheduler:
    """Fires events in the order (time, priority, order of scheduling)."""

    def __init__(self) -> None:
        self.now_ns: i64 = 0
        self.fired: i64 = 0
        self._handlers: Final[list[Handler]] = []
        # INV-HEAP: pair i is at [2i] (time) and [2i + 1] (slot), and is not after its children,
        # pairs 2i + 1 and 2i + 2.
        self._heap = vec[i64]()
        self._count: i64 = 0
        self._slots = vec[i64]()
        self._free: i64 = _END
        self._seq: i64 = 0
        self._cancelled: i64 = 0
        self._stopped = False

    def add(self, handler: Handler) -> i64:
        """Register a handler; the number it gets is what `at` takes."""
        self._handlers.append(handler)
        return len(self._handlers) - 1

    def handler(self, number: i64) -> Handler:
        """The handler that got this number."""
        return self._handlers[number]

    @property
    def pending(self) -> i64:
        """Events still to come."""
        return self._count - self._cancelled

    @property
    def slots(self) -> i64:
        """How many events there is memory for: the most that were ever pending or cancelled."""
        return len(self._slots) // _FIELDS

    # -- in ------------------------------------------------------------------------------------

    def at(self, time_ns: i64, handler: i64, argument: i64 = 0, priority: i64 = 0) -> i64:
        """Schedule an event. Returns its id, for `cancel`. At equal times lower priorities fire
        first.
        """
        if time_ns < self.now_ns or priority < 0 or priority > PRIORITY_MAX:
            raise self._refusal(time_ns, priority)
        if handler < 0 or handler >= len(self._handlers):
            raise LocalProtocolError(
                f"no handler {handler}: {len(self._handlers)} are registered; add it first"
            )
        slot = self._free
        if slot == _END:
            slot = self._new_slot()
        slots = self._slots
        base = slot * _FIELDS
        self._free = slots[base + _RANK]
        self._seq += 1
        slots[base + _RANK] = (priority << _SEQ_BITS) + self._seq
        slots[base + _HANDLER] = handler
        slots[base + _ARGUMENT] = argument
        at = self._count
        if 2 * at == len(self._heap):
            self._heap = append(append(self._heap, time_ns), slot)
        self._count = at + 1
        self._rise(at, 0, time_ns, slot)
        return (slots[base + _LIFE] << _SLOT_BITS) + slot

    def cancel(self, event_id: i64) -> bool:
        """Take an event back. Returns whether it was still to come. The id of an event that was
        fired or cancelled is not used again before its slot was used a thousand million times.
        """
        slot = event_id & _SLOT_MASK
        base = slot * _FIELDS
        slots = self._slots
        if base >= len(slots) or slots[base + _LIFE] != event_id >> _SLOT_BITS:
            return False
        if slots[base + _HANDLER] == _CANCELLED:
            return False
        slots[base + _HANDLER] = _CANCELLED
        slots[base + _LIFE] = (slots[base + _LIFE] + 1) & _LIFE_MASK
        self._cancelled += 1
        if self._cancelled > _SWEEP_MIN and self._cancelled * 2 > self._count:
            self._sweep()
        return True

    # -- out -----------------------------------------------------------------------------------

    def run(self, until_ns: i64) -> i64:
        """Fire everything due up to and including `until_ns`, which is then the time, unless
        `stop` was called. Returns how many events were fired.
        """
        before = self.fired
        self._stopped = False
        while self._count > 0 and self._heap[0] <= until_ns and not self._stopped:
            self._fire_first()
        if not self._stopped:
            self.now_ns = max(self.now_ns, until_ns)
        return self.fired - before

    def drain(self, events_max: i64) -> i64:
        """Fire whatever is pending, and what that schedules, `events_max` at most. The time is
        then that of the last event. Returns how many events were fired.
        """
        before = self.fired
        self._stopped = False
        while self._count > 0 and self.fired - before < events_max and not self._stopped:
            self._fire_first()
        return self.fired - before

    def step(self) -> bool:
        """Fire the next event; False if there is none."""
        return self.drain(1) == 1

    def stop(self) -> None:
        """Called by a handler, so that this `run` or `drain` fires nothing more."""
        self._stopped = True

    def next_ns(self) -> i64:
        """When the next event is due; NEVER if none is pending."""
        while self._count > 0:
            base = self._heap[1] * _FIELDS
            if self._slots[base + _HANDLER] != _CANCELLED:
                return self._heap[0]
            self._drop_first()
        return NEVER

    def _fire_first(self) -> None:
        """Take the first pair off the heap and, unless cancelled, fire it."""
        heap = self._heap
        slots = self._slots
        time_ns = heap[0]
        slot = heap[1]
        base = slot * _FIELDS
        number = slots[base + _HANDLER]
        if number == _CANCELLED:
            self._drop_first()
            return
        argument = slots[base + _ARGUMENT]
        slots[base + _LIFE] = (slots[base + _LIFE] + 1) & _LIFE_MASK
        slots[base + _RANK] = self._free
        self._free = slot
        self._pop()
        self.now_ns = time_ns
        self.fired += 1
        # The handler comes last, when all is consistent: it may schedule, cancel, stop or raise.
        self._handlers[number].fire(argument)

    def _drop_first(self) -> None:
        """The first event was cancelled: forget it."""
        slot = self._heap[1]
        self._slots[slot * _FIELDS + _RANK] = self._free
        self._free = slot
        self._cancelled -= 1
        self._pop()

    def _refusal(self, time_ns: i64, priority: i64) -> LocalProtocolError:
        if time_ns < self.now_ns:
            return LocalProtocolError(
                f"cannot schedule for {time_ns} ns: it is {self.now_ns} ns already; "
                "schedule for now or later"
            )
        return LocalProtocolError(f"priority is {priority}; it must be from 0 to {PRIORITY_MAX}")

    # -- slots and heap ------------------------------------------------------------------------

    def _new_slot(self) -> i64:
        """Add a slot, which is then the only free one."""
        slots = self._slots
        slot: i64 = len(slots) // _FIELDS
        for value in (_END, _CANCELLED, 0, 1):
            slots = append(slots, value)
        self._slots = slots
        return slot

    def _pop(self) -> None:
        """Take the first pair away: the last one takes its place and sinks."""
        self._count -= 1
        last = self._count
        if last > 0:
            self._sink(0, self._heap[2 * last], self._heap[2 * last + 1])

    def _rise(self, at: i64, top: i64, time_ns: i64, slot: i64) -> None:
        """Put a pair where `at` is free, or as far above, up to `top`, as its order asks for."""
        heap = self._heap
        slots = self._slots
        rank = slots[slot * _FIELDS + _RANK]
        while at > top:
            parent = (at - 1) >> 1
            parent_ns = heap[2 * parent]
            if parent_ns < time_ns:
                break
            parent_slot = heap[2 * parent + 1]
            if parent_ns == time_ns and slots[parent_slot * _FIELDS + _RANK] < rank:
                break
            heap[2 * at] = parent_ns
            heap[2 * at + 1] = parent_slot
            at = parent
        heap[2 * at] = time_ns
        heap[2 * at + 1] = slot

    def _sink(self, top: i64, time_ns: i64, slot: i64) -> None:
        """Put a pair where `top` is free, or as far below as its order asks for."""
        heap = self._heap
        count = self._count
        at = top
        child = 2 * at + 1
        # The gap goes all the way down, and the pair then rises from there. It was one of the last,
        # so it belongs near the bottom, and a loop that never stops early is easy to predict.
        while child < count:
            if child + 1 < count:
                left_ns = heap[2 * child]
                right_ns = heap[2 * child + 2]
                if left_ns == right_ns:
                    child += i64(self._before(child + 1, child))
                else:
                    child += i64(right_ns < left_ns)
            heap[2 * at] = heap[2 * child]
            heap[2 * at + 1] = heap[2 * child + 1]
            at = child
            child = 2 * at + 1
        self._rise(at, top, time_ns, slot)

    def _before(self, one: i64, other: i64) -> bool:
        """Whether pair `one` comes before pair `other` of the same time."""
        heap = self._heap
        slots = self._slots
        one_rank = slots[heap[2 * one + 1] * _FIELDS + _RANK]
        return one_rank < slots[heap[2 * other + 1] * _FIELDS + _RANK]

    def _sweep(self) -> None:
        """Forget every cancelled event and make a heap of the rest."""
        heap = self._heap
        slots = self._slots
        kept: i64 = 0
        for at in range(self._count):
            slot = heap[2 * at + 1]
            if slots[slot * _FIELDS + _HANDLER] == _CANCELLED:
                slots[slot * _FIELDS + _RANK] = self._free
                self._free = slot
            else:
                heap[2 * kept] = heap[2 * at]
                heap[2 * kept + 1] = slot
                kept += 1
        self._count = kept
        self._cancelled = 0
        at = (kept >> 1) - 1
        while at >= 0:
            self._sink(at, heap[2 * at], heap[2 * at + 1])
            at -= 1
