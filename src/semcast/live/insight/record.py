"""Recording: what a member does goes in; its journal on disk comes out, off the hot path.

The observer only puts a tuple into a bounded queue. A thread of the recorder makes rows of the
tuples and writes them, so that neither the disk nor Arrow ever holds up the member. If disk or
queue cannot follow, the log says so once, and what is left out is counted and marked as a gap.

All members' files of one run lie in one folder and are one journal (`journal.lives`). Unless the
configuration names the run, it is named by the group and by the moment when the last of its first
members began. They all know that moment, and their hellos say it to members that come later.
"""

import logging
import os
import threading
import time
from collections import deque
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from semcast.errors import InputError, SemcastError
from semcast.ids import Source
from semcast.journal.event import Event
from semcast.journal.growing_log import LogWriter, require_ipc
from semcast.journal.header import Header
from semcast.journal.lives import END, EVICT, GAP
from semcast.journal.names import node_name
from semcast.journal.observer import OPEN, VIEW, Observation, Scribe, TupleObserver
from semcast.journal.schema import require_pyarrow
from semcast.live.config import GroupConfig
from semcast.live.host.engine import Engine
from semcast.live.meeting.health import run_began_us
from semcast.live.meeting.session import Session
from semcast.protocol.membership.view import NO_ORIGIN
from semcast.protocol.observer import Observer

log: Final = logging.getLogger("semcast")

QUEUE_EVENTS_MAX: Final = 1 << 18
# A batch has at most so many rows, because the interpreter is not free for the member while Arrow
# makes a column. Events wait for a batch for PERIOD_S, which is what a killed process loses.
BATCH_EVENTS_MAX: Final = 1 << 11
_YIELD_EVENTS: Final = 64
PERIOD_S: Final = 0.1
_CLOSE_S: Final = 30.0
# Receivers write down what a message replaces too, for senders that are killed before they can.
_WITH_OBSOLETES: Final = frozenset(("multicast", "receive", "state"))


class QueueObserver(TupleObserver):
    """Hears what a member does, with the engine's lock held, and queues it."""

    def __init__(self, events_max: int) -> None:
        super().__init__(time.monotonic_ns, self._queue)
        self.queue: Final[deque[Observation]] = deque()
        self.left_out = 0
        self._events_max: Final = events_max

    def _queue(self, told: Observation) -> None:
        if len(self.queue) < self._events_max or told[1] in (VIEW, OPEN):
            self.queue.append(told)
        else:
            self.left_out += 1


class Recorder:
    """Writes what one process does in a group: a volume for each life that it has there."""

    def __init__(self, config: GroupConfig, events_max: int = QUEUE_EVENTS_MAX) -> None:
        require_pyarrow()
        require_ipc()
        self._config: Final = config
        self._events_max: Final = events_max
        self._pid: Final = os.getpid()
        self._engine: Engine | None = None
        self._volumes: Final[deque[Volume]] = deque()
        # What was written, and left out, in volumes that are finished.
        self._events = 0
        self._left_out = 0
        # When the member left. Writing goes on after that.
        self._left_ns = 0
        self._closing: Final = threading.Event()
        self._thread: Final = threading.Thread(
            target=self._run, name=f"semcast record {config.group}", daemon=True
        )

    def observe(self, me: Source) -> Observer:
        """The observer of this life; called when it begins, with the engine's lock held."""
        if self._volumes:
            self._volumes[-1].over_ns = time.monotonic_ns()
        volume = Volume(self._config, me, self._events_max)
        self._volumes.append(volume)
        return volume.observer

    def start(self, engine: Engine) -> None:
        """Begin to write what is heard; the engine may run already."""
        self._engine = engine
        self._thread.start()

    @property
    def events(self) -> int:
        """How many events were written so far."""
        return self._events + sum(volume.events for volume in list(self._volumes))

    @property
    def left_out(self) -> int:
        """How many could not be."""
        return self._left_out + sum(volume.left_out for volume in list(self._volumes))

    def leaving(self) -> None:
        """The member leaves now, so it owes nothing of what others multicast from now on."""
        self._left_ns = self._left_ns or time.monotonic_ns()

    def close(self) -> None:
        """The member has left: write what is still there, and the end. Harmless when repeated."""
        if os.getpid() != self._pid or self._closing.is_set():
            return
        self.leaving()
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        while not self._closing.wait(PERIOD_S):
            self._write_all()
        self._write_all()
        for volume in self._volumes:
            volume.finish(self._left_ns)

    def _write_all(self) -> None:
        """Write what waits; a life that is over gets its end."""
        if self._engine is None:
            return
        while True:
            volume = self._volumes[0] if self._volumes else None
            if volume is None:
                return
            over = len(self._volumes) > 1
            volume.write_all(self._engine)
            if not over:
                return
            volume.finish(volume.over_ns)
            self._events += volume.events
            self._left_out += volume.left_out
            volume.events = volume.left_out = 0
            self._volumes.popleft()


class Volume:
    """The journal of one life."""

    def __init__(self, config: GroupConfig, me: Source, events_max: int) -> None:
        self._config: Final = config
        self._me: Final = me
        self.observer: Final = QueueObserver(events_max)
        self._epoch_ns: Final = time.time_ns() - time.monotonic_ns()
        self._engine: Engine | None = None
        self._writer: LogWriter | None = None
        self._scribe: Final = Scribe(node_name(me), _WITH_OBSOLETES)
        self._lsn = 0
        self._lost = 0
        # How many events were written, and left out, so far.
        self.events = 0
        self.left_out = 0
        # When another life followed this one, if one did.
        self.over_ns = 0
        self._complained = False
        self._broken = False

    def write_all(self, engine: Engine) -> None:
        """Write what waits."""
        self._engine = engine
        queue = self.observer.queue
        while queue:
            told = [queue.popleft() for _ in range(min(len(queue), BATCH_EVENTS_MAX))]
            # Events are left out while the queue is full, so after all that was just taken.
            lost = self.observer.left_out - self._lost
            self._write(self._rows(told))
            if lost:
                self._lost += lost
                self._note_gap(lost, "events come faster than they can be written")

    def _write(self, rows: list[Event]) -> None:
        if self._broken:
            self.left_out += len(rows)
            return
        try:
            if self._writer is None:
                self._writer = LogWriter(self._config.record, self._header())
            self._writer.write(rows)
            self.events += len(rows)
        except (OSError, ValueError, SemcastError) as error:
            # A batch may be on disk in part; a reader stops there, so nothing can come after it.
            self._broken = True
            self.left_out += len(rows)
            self._complain(f"{self._config.record} cannot be written: {error}")

    def _note_gap(self, lost: int, why: str) -> None:
        self.left_out += lost
        self._lsn += lost
        self._complain(why)
        self._write([self._event(time.monotonic_ns(), GAP, seq=lost)])

    def _complain(self, why: str) -> None:
        if not self._complained:
            self._complained = True
            log.error(
                "%s: the journal of %s has a gap from here on, and says so: %s",
                self._config.group, self._config.name, " ".join(why.split()),
                extra={"semcast": {"kind": "journal_gap", "left_out": self.left_out}},
            )  # fmt: skip

    def finish(self, left_ns: int) -> None:
        """Write the end of this life, which left then."""
        if self._engine is None:
            return  # the group never came together: there is nothing to tell
        session = self._engine.session
        last = self.over_ns == 0
        member = session.member if last else None
        waiting = 0 if member is None else member.deliverable()
        out = [self._event(left_ns, EVICT, sender=name) for name in self._put_out()]
        if session.settled and last:
            out.append(self._event(left_ns, "settled"))
        self._write([*out, self._event(left_ns, END, seq=waiting)])
        if self._writer is not None and not self._broken:
            try:
                self._writer.finish(self.left_out)
            except (OSError, ValueError) as error:
                self._complain(f"it stays a stream: {error}")

    def _put_out(self) -> list[str]:
        """The lives that others put out of the group, perhaps this one among them."""
        assert self._engine is not None
        session = self._engine.session
        roster = session.roster
        found = {Source(member, life) for member, life in roster.evicted.items() if life > 0}
        if self.over_ns or roster.former_incarnation > self._me.incarnation:
            found.add(self._me)  # it came back in another life, or another process took its name
        return sorted(node_name(one) for one in found)

    # -- rows --------------------------------------------------------------------------------------

    def _rows(self, told: list[Observation]) -> list[Event]:
        """Events with their numbers."""
        rows: list[Event] = []
        for one in told:
            event = self._scribe.event(one, self._lsn + 1, self._epoch_ns)
            if event is None:
                continue
            self._lsn += 1
            if self._lsn % _YIELD_EVENTS == 0:
                time.sleep(0)  # the member's threads need the interpreter more urgently
            rows.append(event)
        return rows

    def _event(self, time_ns: int, event: str, **columns: Any) -> Event:
        self._lsn += 1
        now_ns, scribe = time_ns + self._epoch_ns, self._scribe
        return Event(now_ns, self._lsn, scribe.node, event, view=scribe.view, **columns)

    def _header(self) -> Header:
        assert self._engine is not None
        with self._engine.lock:
            session = self._engine.session
            assert session.member is not None, "only members say anything"
            me = self._me
            roster = session.roster
            joined = roster.was_here
            others = [
                node_name(Source(peer.id, peer.incarnation))
                for peer in roster.peers.values()
                if peer.id in roster.members
            ]
            members = others if joined else sorted([*others, node_name(me)])
            run, group = run_name(session), session.config.group
            members = members or [node_name(me)]
            config = session.member.config
            found = Header.of(
                config,
                members,
                run,
                group,
                one_order=False,
                membership=membership_of(session),
                readers=[node_name(me)] if config.role == "reader" else [],
            )
            if session.config.reliability == "federation":
                found = replace(found, recovery=session.config.recovery)
        return replace(found, node=self._scribe.node, name=self._config.name, joined=joined)


def membership_of(session: Session) -> str:
    """Whether processes come and go: in open groups, and in federations."""
    assert session.member is not None
    federated = session.config.reliability == "federation"
    return "open" if federated or session.member.view.origin != NO_ORIGIN else "closed"


def run_name(session: Session) -> str:
    """What the run is called: as configured, or by the group and when it began."""
    if session.config.record_run:
        return session.config.record_run
    began_us = int(session.status.get("run", 0)) or run_began_us(session)
    try:
        second = datetime.fromtimestamp(began_us // 10**6, UTC).strftime("%Y%m%dT%H%M%S")
    except (OverflowError, ValueError, OSError):
        raise InputError(f"a member's clock says {began_us} µs; set record_run") from None
    return f"{session.config.group}-{second}.{began_us % 10**6:06d}"
