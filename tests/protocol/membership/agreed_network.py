"""Processes of an open group on a network in memory, with a clock of its own.

The network loses, repeats and delays datagrams, and cuts processes off from each other, also in one
direction. A process is a newcomer until it has a view, and then a member (only what has to do with
views). One that is out comes back by itself in a later life. Every view that anybody has is
checked: there is one view for each number of a group, and numbers only grow.
"""

import heapq
import random
from collections.abc import Callable
from itertools import count
from typing import Final

from semcast.ids import EVERYBODY, NEVER, Source
from semcast.protocol.membership.agreed import AgreedViews
from semcast.protocol.membership.newcomer import Newcomer
from semcast.protocol.membership.view import View
from semcast.protocol.outbox import Outbox, Outgoing
from semcast.wire.decode import Decoder
from semcast.wire.limits import Limits

MS: Final = 1_000_000
LIMITS: Final = Limits()


class Process:
    """A process: its life, and what it is at the moment."""

    def __init__(self, network: "Network", sender: int, life: int, contact: int) -> None:
        self.network: Final = network
        self.sender: Final = sender
        self.me: Final = Source(sender, life)
        self.random: Final = random.Random(f"{network.seed}/{sender}/{life}")
        self.newcomer: Newcomer | None = Newcomer(
            self.me, f"p{sender}", LIMITS, self.random, contact, network.found_after_ns
        )
        self.views: AgreedViews | None = None
        self.history: Final[list[View]] = []
        self.outbox: Final = Outbox(self.me, LIMITS)
        self.decoder: Final = Decoder()
        self.wake_ns = NEVER
        self.stopped = False
        self.missed: Final[list[tuple[bytes, Source]]] = []

    @property
    def view(self) -> View | None:
        return self.views.view if self.views is not None else None

    def receive(self, frames: bytes, source: Source, now_ns: int) -> None:
        if self.newcomer is not None:
            self.newcomer.receive(frames, source, now_ns)
        views = self.views
        if views is None or source.sender == self.sender:
            return
        if not views.view.holds(source):
            views.reborn(source, now_ns)
        else:
            views.heard(source, now_ns)
        for frame in self.decoder.decode(frames, source).control:
            views.on_frame(frame, source, now_ns)

    def on_timer(self, now_ns: int) -> None:
        if self.newcomer is not None:
            self.newcomer.on_timer(now_ns)
        if self.views is not None:
            self.views.on_timer(now_ns)

    def datagrams(self, now_ns: int) -> list[Outgoing]:
        if self.newcomer is not None:
            found = self.newcomer.datagrams(now_ns)
            if self.newcomer.view is not None:
                self.views = AgreedViews(
                    self.me,
                    self.newcomer.view,
                    self.network.f_max,
                    self.network.quorum,
                    self.random,
                )
                self.newcomer = None
            return found
        assert self.views is not None
        self.views.pack(self.outbox, now_ns)
        return self.outbox.take()

    def next_deadline_ns(self) -> int:
        if self.newcomer is not None:
            return self.newcomer.next_deadline_ns()
        assert self.views is not None
        return int(self.views.next_deadline_ns())


class Network:
    """Processes, what is on its way between them, and a clock."""

    def __init__(
        self,
        seed: int = 0,
        loss: float = 0.0,
        delay_ns: int = MS,
        jitter_ns: int = 0,
        repeat: float = 0.0,
        quorum: str = "majority",
        rejoin: bool = True,
        found_after_ns: int = 150 * MS,
        f_max: int = 1,
    ) -> None:
        self.seed: Final = seed
        self.loss = loss
        self.delay_ns: Final = delay_ns
        self.jitter_ns: Final = jitter_ns
        self.repeat: Final = repeat
        self.quorum: Final = quorum
        self.rejoin: Final = rejoin
        self.found_after_ns: Final = found_after_ns
        self.f_max: Final = f_max
        self.now_ns = 0
        self.processes: Final[dict[int, Process]] = {}
        self.lives: Final[dict[int, int]] = {}
        # Who does not get anything from whom.
        self.cut: Final[set[tuple[int, int]]] = set()
        self.sent = 0
        self.sent_bytes = 0
        self.delivered = 0
        # By origin and number: the digest of the view that everybody has there.
        self.known: Final[dict[tuple[int, int], int]] = {}
        self.outs: Final[list[Source]] = []
        self._random: Final = random.Random(f"network/{seed}")
        self._events: Final[list[tuple[int, int, int, bytes, Source | None]]] = []
        self._order: Final = count()

    # -- what happens to processes -----------------------------------------------------------------

    def start(self, sender: int, contact: int = EVERYBODY) -> Process:
        life = self.lives[sender] = self.lives.get(sender, 0) + 1
        process = self.processes[sender] = Process(self, sender, life, contact)
        self._wake(process, self.now_ns)
        return process

    def crash(self, sender: int) -> None:
        del self.processes[sender]

    def split(self, *sides: set[int]) -> None:
        for side in sides:
            for other in sides:
                if side is not other:
                    self.cut.update((a, b) for a in side for b in other)

    def heal(self) -> None:
        self.cut.clear()

    def accuse(self, by: int, sender: int) -> None:
        views = self.processes[by].views
        assert views is not None
        views.accuse(sender)
        self.after(self.processes[by])

    def leave(self, sender: int) -> None:
        views = self.processes[sender].views
        assert views is not None
        views.leave(self.now_ns)
        self.after(self.processes[sender])

    # -- the clock ---------------------------------------------------------------------------------

    def run(self, duration_ns: int) -> None:
        end_ns = self.now_ns + duration_ns
        while self._events and self._events[0][0] <= end_ns:
            self.now_ns, _, to, frames, source = heapq.heappop(self._events)
            process = self.processes.get(to)
            if process is None:
                continue
            if source is None:
                if process.stopped or process.wake_ns != self.now_ns:
                    continue
                process.wake_ns = NEVER
                process.on_timer(self.now_ns)
            elif process.stopped:
                process.missed.append((frames, source))
                continue
            else:
                self.delivered += 1
                process.receive(frames, source, self.now_ns)
            self.after(process)
        self.now_ns = end_ns

    def until(self, done: Callable[[], bool], within_ns: int, step_ns: int = MS) -> bool:
        end_ns = self.now_ns + within_ns
        while self.now_ns < end_ns:
            if done():
                return True
            self.run(step_ns)
        return done()

    def after(self, process: Process) -> None:
        """Send what it says, note what it has, and wake it when it wants."""
        for outgoing in process.datagrams(self.now_ns):
            self._send(process, outgoing)
        views, newcomer = process.views, process.newcomer
        current = self.processes.get(process.sender) is process
        if newcomer is not None and newcomer.over and current:
            self.crash(process.sender)
            self.start(process.sender)
            return
        if views is not None and current:
            self._check(process, views.view)
            if views.out:
                self.outs.append(process.me)
                self.crash(process.sender)
                if self.rejoin:
                    self.start(process.sender)
                return
        self._wake(process, process.next_deadline_ns())

    def _check(self, process: Process, view: View) -> None:
        history = process.history
        if history and history[-1] is view:
            return
        assert not history or view.number > history[-1].number, "numbers only grow"
        assert view.holds(process.me), "who has a view is in it"
        history.append(view)
        name = (view.origin, view.number)
        known = self.known.setdefault(name, int(view.digest))
        assert known == view.digest or self.quorum == "one", f"two views have the number {name}"

    def _wake(self, process: Process, at_ns: int) -> None:
        at_ns = max(at_ns, self.now_ns)
        if at_ns < NEVER and at_ns != process.wake_ns:
            process.wake_ns = at_ns
            heapq.heappush(self._events, (at_ns, next(self._order), process.sender, b"", None))

    def _send(self, process: Process, outgoing: Outgoing) -> None:
        self.sent += 1
        self.sent_bytes += len(outgoing.frames)
        everybody = outgoing.to == EVERYBODY
        for to in list(self.processes) if everybody else [outgoing.to]:
            if to == process.sender or (process.sender, to) in self.cut:
                continue
            times = 1 + (self._random.random() < self.repeat) if self.repeat else 1
            for _ in range(times):
                if self.loss and self._random.random() < self.loss:
                    continue
                late_ns = self._random.randrange(self.jitter_ns) if self.jitter_ns else 0
                at_ns = self.now_ns + self.delay_ns + late_ns
                event = (at_ns, next(self._order), to, outgoing.frames, process.me)
                heapq.heappush(self._events, event)

    # -- what is so --------------------------------------------------------------------------------

    def members(self) -> list[Process]:
        return [process for process in self.processes.values() if process.views is not None]

    def together(self, senders: set[int] | None = None) -> bool:
        """Whether these processes are all in one view, and nobody else is."""
        wanted = set(self.processes) if senders is None else senders
        views = [self.processes[sender].view for sender in wanted]
        first = views[0]
        if first is None or any(view is None or view.digest != first.digest for view in views):
            return False
        return set(first.present) == wanted

    def latest(self) -> View | None:
        """The view with the highest number that a member of the largest group has."""
        views = [process.views.view for process in self.members() if process.views is not None]
        return max(views, key=lambda view: (len(view.present), view.number), default=None)

    def hears(self, by: int, sender: int) -> bool:
        """Whether a process would hear another one, in the life that its view has."""
        view = self.processes[by].view
        other = self.processes.get(sender)
        if other is None or view is None or other.stopped or (sender, by) in self.cut:
            return False
        return other.me.incarnation == view.life(sender)

    def watch(self) -> None:
        """What failure detection would find by now: who is silent is accused, others are not."""
        for process in self.members():
            views = process.views
            if views is None or process.stopped:
                continue
            for sender in views.view.others(process.me):
                if self.hears(process.sender, sender):
                    views.clear(sender)
                else:
                    views.accuse(sender)
            for sender in views.view.members:
                if not views.view.is_present(sender):
                    views.ended(sender)
            self.after(process)

    def stop(self, sender: int) -> None:
        """As SIGSTOP does: it does nothing, and what comes waits."""
        self.processes[sender].stopped = True

    def resume(self, sender: int) -> None:
        process = self.processes[sender]
        process.stopped = False
        for frames, source in process.missed:
            if self.processes.get(sender) is process:
                process.receive(frames, source, self.now_ns)
                self.after(process)
        process.missed.clear()
        if self.processes.get(sender) is process:
            process.wake_ns = NEVER
            self._wake(process, process.next_deadline_ns())
