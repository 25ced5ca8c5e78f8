"""A reader of a group: it finds patrons, begins its streams where they say, and finds others.

SUBSCRIBE goes to everybody at first, and some members answer; later it goes to members by name. A
reader has f + 1 *patrons*, or as many as there are members. Each tells it where the streams begin.
The first to speak of a stream is believed. What another says matters only if it begins the stream
later than what is here, and no patron is left that holds the group back to what is here: then
messages in between may be gone everywhere, the stream begins anew, and the application learns
where. So a reader misses nothing as long as one of its patrons lives.

A patron that was not heard of for too long (`patience`), or that says that this is no reader of its
own, is replaced by another member. If all of them may have forgotten it, it may lack the end of
streams, and sources may have come and ended: once it is served again it asks what stands of them
(`transfer`). `view` is what patrons say of the streams: nobody compares it.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import EVERYBODY, NEVER, Randomness, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.membership.patience import Awaited, Patience
from semcast.protocol.membership.view import View
from semcast.protocol.membership.views import Views
from semcast.protocol.outbox import Outbox
from semcast.protocol.stability.reading import ReaderDetection
from semcast.wire.families.readers import (
    BEGIN,
    HAVE,
    SUBSCRIBE_ROWS_MAX,
    Begin,
    Have,
    Subscribe,
)
from semcast.wire.frames import ControlFrame

# Patrons are asked at least this often whether they are there, so they always owe an answer.
_ASKED_NS: Final = 1_000_000_000
_LOOK_NS: Final = 250_000_000
# Subscriptions that nobody answers are repeated ever less often, down to this.
_REPEAT_MAX_NS: Final = 1_000_000_000


@final
class _Patron:
    """A member that is to serve this reader."""

    def __init__(self, sender: int, attempt: i64, pause_ns: i64, now_ns: i64) -> None:
        self.sender: Final = sender
        self.attempt = attempt
        # When to subscribe again, as long as it has not answered for all streams.
        self.next_ns = now_ns
        self.pause_ns = pause_ns
        # How many streams it has; -1 if it has not answered.
        self.total: i64 = -1
        # By stream, the message after which it holds the group back for this reader; and those that
        # it says have ended.
        self.after: Final[dict[Source, int]] = {}
        self.over: Final[dict[Source, None]] = {}
        self.awaited: Final = Awaited(_ASKED_NS, _ASKED_NS, now_ns)
        self.awaited.owes(now_ns)

    @property
    def complete(self) -> bool:
        """Whether it has told where all its streams begin."""
        return 0 <= self.total <= len(self.after)

    def holds(self, of: Source) -> bool:
        """Whether it holds the group back for this reader, as far as it has said."""
        return of in self.after and of not in self.over

    def again(self, attempt: i64, pause_ns: i64, now_ns: i64) -> None:
        """Subscribe with it once more."""
        self.attempt = attempt
        self.next_ns = now_ns
        self.pause_ns = pause_ns
        self.total = -1
        self.after.clear()
        self.over.clear()


@final
class Subscription(Views):
    """How one reader is served."""

    def __init__(
        self,
        config: MemberConfig,
        me: Source,
        view: View,
        detection: ReaderDetection,
        random: Randomness,
    ) -> None:
        super().__init__(view)
        self._me: Final = me
        self._name: Final = view.names[0] if view.names else ""
        self._f: Final = config.f
        self._period_ns: Final[i64] = config.gossip_period_ns
        self._detection: Final = detection
        self._random: Final = random
        self._patrons: Final[dict[int, _Patron]] = {}
        # Former patrons, who are told that they are none when there are enough others.
        self._former: Final[dict[int, None]] = {}
        self._names: Final[dict[int, str]] = {}
        self._attempt: i64 = 0
        self._search_attempt: i64 = 0
        # When to subscribe with everybody, as long as there is no patron.
        self._search_ns: i64 = 0
        self._search_pause_ns: i64 = self._period_ns
        self._patience: Final = Patience()
        self._doubted: list[int] = []
        self._look_ns: i64 = NEVER
        self._inside = False
        # Whether it may have been forgotten since it was last served by all its patrons.
        self._forgotten = False
        self._searching = False
        self._to_ask: Final[dict[int, None]] = {}
        self._to_leave: Final[dict[int, None]] = {}
        self._leaving = False
        self._said_leaving = False

    def kinds(self) -> tuple[int, ...]:
        return (BEGIN, HAVE)

    def met(self, source: Source, now_ns: i64) -> None:  # noqa: ARG002
        """A member is there now that may not have heard what was said to everybody before."""
        if self._search_ns < NEVER and not self._patrons:
            self._search_ns = min(self._search_ns, now_ns)
            self._search_pause_ns = self._period_ns

    def strangers_kinds(self) -> tuple[int, ...]:
        return (BEGIN, HAVE)

    def inside(self) -> bool:
        return self._inside and not self._forgotten

    # -- what is heard -----------------------------------------------------------------------------

    def heard(self, source: Source, now_ns: i64) -> None:
        patron = self._patrons.get(int(source.sender))
        if patron is not None:
            patron.awaited.heard(now_ns)

    def refused(self, sender: int, now_ns: i64) -> None:
        patron = self._patrons.get(sender)
        if patron is not None:
            patron.awaited.refused(now_ns)
            self._look_ns = min(self._look_ns, now_ns + self._patience.ask_after_ns())

    def suspects(self) -> list[int]:
        return self._doubted

    def reborn(self, source: Source, now_ns: i64) -> None:
        """A patron will say that it is there in another life."""

    def stranger(self, source: Source, now_ns: i64) -> None:
        """Nobody's view is compared with this one."""

    def gone(self, sender: int, now_ns: i64) -> None:
        if sender in self._patrons:
            self._drop(sender, now_ns)

    def on_frame(self, frame: ControlFrame, source: Source, now_ns: i64) -> None:
        if self._leaving:
            return
        self.heard(source, now_ns)
        if isinstance(frame, Have):
            if frame.ended:
                self._on_ended([of for of, _ in frame.rows], int(source.sender))
            else:
                self._detection.on_have(frame, source)
            return
        assert isinstance(frame, Begin)
        if frame.gone:
            self._on_gone(int(source.sender), now_ns)
        else:
            self._on_begin(frame, source, now_ns)

    def _on_ended(self, ended: list[Source], sender: int) -> None:
        """A member says that streams have ended. It may only not know yet of one that has just come
        (its view may be an earlier one), so a patron that holds the group back for it knows better.
        """
        patron = self._patrons.get(sender)
        for of in ended:
            if patron is not None and of in patron.after:
                patron.over[of] = None
            if not any(one.holds(of) for one in self._patrons.values()):
                self._detection.end(of)
        self._make_view()

    def _on_gone(self, sender: int, now_ns: i64) -> None:
        """A member says that this is no reader of its own. If it was one, nobody knows since when
        it is not, nor whether the others have forgotten it too.
        """
        patron = self._patrons.get(sender)
        if patron is not None and patron.complete:
            self._note_forgotten()
        self.gone(sender, now_ns)

    def _note_forgotten(self) -> None:
        if self._detection.streams and not self._forgotten:
            self._forgotten = True
            self._detection.forgotten()

    def _on_begin(self, frame: Begin, source: Source, now_ns: i64) -> None:
        sender = int(source.sender)
        patron = self._patrons.get(sender)
        if patron is None:
            if len(self._patrons) >= self._wanted() or frame.attempt < self._search_attempt:
                self._to_leave[sender] = None
                return
            patron = self._patrons[sender] = _Patron(sender, frame.attempt, self._period_ns, now_ns)
            patron.next_ns = now_ns + patron.pause_ns
            self._name_patrons()
        elif frame.attempt > patron.attempt:
            patron.again(frame.attempt, self._period_ns, now_ns + self._period_ns)
        elif frame.attempt < patron.attempt:
            return
        patron.total = frame.total
        for of, after, newest in frame.rows:
            self._begin(patron, of, after, newest)
            self._names[int(of.sender)] = frame.name
        self._make_view()
        self._look_ns = min(self._look_ns, now_ns + _LOOK_NS)
        self._find_patrons(now_ns)
        self._check_inside()

    def _begin(self, patron: _Patron, of: Source, after: int, newest: int) -> None:
        """A patron says where a stream begins."""
        detection = self._detection
        patron.after[of] = after
        if detection.has_ended(of):
            detection.answer(patron.sender, of, after)
            return
        has = detection.streams.get(of, -1)
        if has < 0 or (after > has and not self._is_covered(of)):
            if has >= 0:
                self._note_forgotten()
            detection.begin(of, after, newest)
        detection.answer(patron.sender, of, detection.streams[of])

    def _is_covered(self, of: Source) -> bool:
        """Whether some patron holds the group back to what is here of a stream."""
        has = self._detection.streams[of]
        return any(patron.after.get(of, has + 1) <= has for patron in self._patrons.values())

    # -- who serves --------------------------------------------------------------------------------

    def _wanted(self) -> int:
        """How many patrons this reader is to have."""
        return max(1, min(self._f + 1, len(self._members())))

    def _members(self) -> list[int]:
        return [sender for sender in self.view.members if sender != self._me.sender]

    def _find_patrons(self, now_ns: i64) -> None:
        """Subscribe with members by name, if there are too few patrons."""
        others = [sender for sender in self._members() if sender not in self._patrons]
        fresh = [sender for sender in others if sender not in self._former] or others
        while len(self._patrons) < self._wanted() and fresh:
            sender = fresh.pop(self._random.randrange(len(fresh)))
            self._attempt += 1
            self._patrons[sender] = _Patron(sender, self._attempt, self._period_ns, now_ns)
            self._former.pop(sender, None)
        self._name_patrons()

    def _drop(self, sender: int, now_ns: i64) -> None:
        """It serves this reader no longer. If nobody holds the group back to what is here of some
        stream now, another patron is asked what can be done.
        """
        del self._patrons[sender]
        self._former[sender] = None
        self._search_ns = min(self._search_ns, now_ns)
        if not any(patron.complete for patron in self._patrons.values()):
            self._note_forgotten()
        self._find_patrons(now_ns)
        self._ask_uncovered(now_ns)

    def _ask_uncovered(self, now_ns: i64) -> None:
        patrons = list(self._patrons.values())
        if not patrons or not all(patron.complete for patron in patrons):
            return
        if all(self._is_covered(of) for of in self._detection.streams):
            return
        self._attempt += 1
        patrons[0].again(self._attempt, self._period_ns, now_ns)

    def _name_patrons(self) -> None:
        self._detection.patrons = list(self._patrons)

    def _check_inside(self) -> None:
        """It is in when all its patrons hold the group back to what it has."""
        patrons = list(self._patrons.values())
        if len(patrons) < self._wanted() or not all(patron.complete for patron in patrons):
            return
        streams = self._detection.streams
        for patron in patrons:
            for of, after in patron.after.items():
                if streams.get(of, after) < after:
                    return
        self._inside = True
        if self._forgotten:
            self._forgotten = False
            self._detection.served_again()
        if self._former:
            self._to_leave.update(self._former)
            self._former.clear()

    def _make_view(self) -> None:
        """The members whose streams have not ended, each in its last life."""
        rows: dict[int, int] = {}
        for of in self._detection.streams:
            sender = int(of.sender)
            rows[sender] = max(int(of.incarnation), rows.get(sender, -1))
        members = tuple(sorted(rows))
        lives = tuple(rows[sender] for sender in members)
        names = tuple(self._names.get(sender, "") for sender in members)
        for sender in [sender for sender in self._names if sender not in rows]:
            del self._names[sender]
        view = self.view
        if (members, lives, names) != (view.members, view.lives, view.names):
            number = view.number + 1
            since = (number,) * len(members)
            self.view = View(number, members, lives, 0, names, 0, since, view.origin)

    # -- what is due -------------------------------------------------------------------------------

    def leave(self, now_ns: i64) -> None:  # noqa: ARG002
        """Tell everybody that this reader goes."""
        self._leaving = True
        self._patrons.clear()
        self._name_patrons()

    def on_timer(self, now_ns: i64) -> None:
        if self._leaving:
            return
        if not self._patrons and now_ns >= self._search_ns:
            self._searching = True
            self._attempt += 1
            self._search_attempt = self._attempt
            self._search_ns = now_ns + self._search_pause_ns
            self._search_pause_ns = min(2 * self._search_pause_ns, _REPEAT_MAX_NS)
        for patron in self._patrons.values():
            if not patron.complete and now_ns >= patron.next_ns:
                self._to_ask[patron.sender] = None
                patron.next_ns = now_ns + patron.pause_ns
                patron.pause_ns = min(2 * patron.pause_ns, _REPEAT_MAX_NS)
        if now_ns >= self._look_ns:
            self._look(now_ns)

    def _look(self, now_ns: i64) -> None:
        """Replace patrons that were not heard of for too long."""
        patience = self._patience
        late_ns = patience.woke(self._look_ns, now_ns)
        pause_ns: i64 = _LOOK_NS
        self._doubted = []
        for patron in list(self._patrons.values()):
            one = patron.awaited
            if late_ns > 0:
                one.slept(late_ns, now_ns)
            if patience.is_silent(one, now_ns) or patience.owes_too_long(one, now_ns):
                self._drop(patron.sender, now_ns)
                continue
            if patience.is_doubted(one, now_ns):
                self._doubted.append(patron.sender)
            if patience.is_to_ask(one):
                self._detection.ask_now()
                pause_ns = min(pause_ns, patience.ask_after_ns())
        self._find_patrons(now_ns)
        self._ask_uncovered(now_ns)
        self._check_inside()
        self._look_ns = now_ns + pause_ns

    def next_deadline_ns(self) -> i64:
        if self._leaving:
            return NEVER
        soonest = self._look_ns
        if not self._patrons:
            soonest = min(soonest, self._search_ns)
        for patron in self._patrons.values():
            if not patron.complete:
                soonest = min(soonest, patron.next_ns)
        return soonest

    def pack(self, outbox: Outbox, now_ns: i64) -> None:  # noqa: ARG002
        if self._leaving:
            if not self._said_leaving:
                self._said_leaving = True
                outbox.frame(EVERYBODY, Subscribe(0, self._name, False, False, True))
            return
        if self._searching:
            self._searching = False
            self._pack_subscription(outbox, EVERYBODY, self._search_attempt, False)
        for sender in self._to_ask:
            patron = self._patrons.get(sender)
            if patron is not None:
                self._pack_subscription(outbox, sender, patron.attempt, True)
        self._to_ask.clear()
        for sender in self._to_leave:
            if sender not in self._patrons:
                outbox.frame(sender, Subscribe(0, self._name, False, True, True))
        self._to_leave.clear()

    def _pack_subscription(self, outbox: Outbox, to: int, attempt: i64, direct: bool) -> None:
        """In as many frames as what is here needs."""
        rows = list(self._detection.streams.items())
        for at in range(0, max(len(rows), 1), SUBSCRIBE_ROWS_MAX):
            some = rows[at : at + SUBSCRIBE_ROWS_MAX]
            frame = Subscribe(attempt, self._name, False, direct, False, some, len(rows))
            outbox.frame(to, frame)
