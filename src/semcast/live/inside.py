"""What runs behind a group: its engine, and whatever watches, records, measures and answers.

A configuration goes in; all parts are started, and stopped again in the right order. They do not
hold the group itself, so that a group which its owner forgets ends, and all of this with it.
"""

import atexit
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

from semcast.ids import Source
from semcast.live.config import GroupConfig
from semcast.live.hooks import Hooks
from semcast.live.host.engine import Engine
from semcast.live.insight import telemetry
from semcast.live.insight.event_feed import EventFeed
from semcast.live.insight.metrics import Samples
from semcast.live.insight.record import Recorder
from semcast.live.meeting import joining
from semcast.live.meeting.control import Responder
from semcast.live.meeting.health import PERIOD_NS as HEALTH_PERIOD_NS
from semcast.live.meeting.health import Health
from semcast.live.meeting.session import Session
from semcast.protocol.observer import Observer

if TYPE_CHECKING:
    from semcast.live.insight.metrics_server import MetricsServer

# The thread that finds a group forgotten waits for its end for at most so long.
FORGET_S: Final = 1.0


class Inside:
    """The parts of one member."""

    def __init__(
        self,
        config: GroupConfig,
        observer: Callable[[Source], Observer | None],
        feed: EventFeed,
        hooks: Hooks | None = None,
    ) -> None:
        self.group: Final = config.group
        self.member: Final = config.name
        self._pid: Final = os.getpid()
        self._recorder: Final = Recorder(config) if config.record else None
        self._samples: Samples | None = None
        with ExitStack() as undo:
            self._server: Final = self._open_server(config)
            if self._server is not None:
                undo.callback(self._server.close)
            watched = observer if self._recorder is None else self._recorder.observe
            attach = partial(self._attach, feed)
            self.engine: Final[Engine] = joining.start(config, watched, hooks, attach)
            undo.pop_all()
        if self._server is not None or telemetry.collects():
            self._samples = Samples(self.engine)
        # Histograms count turns, so they need every one; health needs one now and then.
        self.engine.seat.on_turn_period_ns = 0 if self._samples is not None else HEALTH_PERIOD_NS
        self.engine.seat.on_turn = self._on_turn
        Responder(self.engine.session, self.stats_now, self.health.views)
        if self._recorder is not None:
            self._recorder.start(self.engine)
        if self._server is not None:
            self._server.start()
        telemetry.watch(self)
        atexit.register(self.stop)

    def _attach(self, feed: EventFeed, session: Session) -> None:
        """Hear what happens from the beginning on: the first views may come at once."""
        self.health = Health(session, lambda: self.engine.delivered, feed.publish, feed.log)
        session.silent = self.health.silent
        session.on_unsettled = self.health.left_unsettled
        session.on_view = self.health.view_changed
        session.on_news = self.health.news
        session.on_neighbour = self.health.about

    def _open_server(self, config: GroupConfig) -> "MetricsServer | None":
        if config.metrics_port == 0:
            return None
        # Most members serve nothing, and need neither HTTP nor `prometheus_client`.
        from semcast.live.insight.metrics_server import MemberCollector, MetricsServer

        return MetricsServer(config.metrics_host, config.metrics_port, MemberCollector(self))

    def _on_turn(self, now_ns: int) -> None:
        if self._samples is not None:
            self._samples.on_turn(now_ns)
        self.health.on_turn(now_ns)

    @property
    def samples(self) -> Samples | None:
        """What is sampled of turns, if anybody wants it."""
        return self._samples

    def stats(self) -> dict[str, float]:
        """Counters and gauges of this member."""
        with self.engine.lock:
            return self.stats_now()

    def stats_now(self) -> dict[str, float]:
        """The same, for whoever holds the engine's lock."""
        session = self.engine.session
        found: dict[str, float] = {}
        if session.member is not None:
            found |= session.member.stats()
            found["blocked_ms"] = session.member.blocked_ns(self.engine.clock.now_ns()) / 1e6
        found |= session.counters()
        found["delivered"] = int(self.engine.delivered)
        found |= session.transport.counters
        found["datagrams_opened"] = session.opener.opened
        found |= {f"refused_{why}": count for why, count in session.opener.refused.items()}
        found["refused_notes"] = session.refused_notes
        found["refused_unproved"] = session.refused_unproved
        found["ports_closed"] = session.ports_closed
        found["receive_buffer_bytes"] = session.transport.receive_buffer_bytes
        found["path_mtu_bytes"] = session.transport.path_mtu_bytes
        found["multicast_transport"] = int(session.transport.multicast)
        found["behind_ms"] = session.status.get("behind_ms", 0.0)
        found["members"] = len(session.roster.members)
        if self._recorder is not None:
            found["recorded_events"] = self._recorder.events
            found["recorded_left_out"] = self._recorder.left_out
        return found

    def stop(self) -> None:
        """Leave the group and end everything. Harmless when repeated, and in a forked child."""
        if self._recorder is not None:
            self._recorder.leaving()
        self.engine.stop()
        if os.getpid() == self._pid:
            if self._recorder is not None:
                self._recorder.close()
            if self._server is not None:
                self._server.close()
        atexit.unregister(self.stop)

    def forget(self) -> None:
        """Stop, when nobody holds the group any more. The thread that notices may hold the host's
        lock, or be the engine's own, so another thread does it. The caller waits for that a moment,
        but not if somebody holds the lock, since all groups might wait for the caller then.
        """
        stopping = threading.Thread(target=self.stop, name=f"semcast {self.group} ends")
        stopping.start()
        if not self.engine.lock.locked():
            stopping.join(FORGET_S)
