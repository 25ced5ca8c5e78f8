"""A newcomer: a process that is not in yet. Datagrams and a time in; datagrams out, then a view.

It asks everybody, or a contact, to be let in, and again ever less often. The view that lets it in
comes in parts. If no member answers, nobody is there, and it begins the group by itself; but if it
hears of another newcomer that began earlier, it leaves that to the other, for a while. Two that do
not hear each other both begin a group; when these meet, the smaller one gives up (`agreed`).

INV-ONE: a life asks one group only, the first that it hears of. If that group falls silent, this
life is `over`, and only another can ask another group: a group that counts a life which is in
another one would wait for it for ever, and if it counts many such lives it has no majority.

It is driven as a member is: `receive`, `datagrams`, `on_timer`, `next_deadline_ns`. As soon as
there is a `view`, a member takes its place.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import EVERYBODY, ID_MAX, NEVER, Randomness, Source
from semcast.protocol.backoff import backoff_ns
from semcast.protocol.membership.collecting import Collecting
from semcast.protocol.membership.parcels import read_view
from semcast.protocol.membership.post import Post
from semcast.protocol.membership.view import View
from semcast.protocol.outbox import Outbox, Outgoing
from semcast.wire.decode import Decoder
from semcast.wire.families.agreement import (
    ATTEMPT_MAX,
    VIEW_PARCEL,
    Join,
    PartOf,
    Wishes,
)
from semcast.wire.limits import Limits

_MS: Final = 1_000_000
FOUND_AFTER_NS: Final = 150 * _MS
# It asks again after so long, and each time waits twice as long; longer if it was heard.
_ASK_NS: Final = 20 * _MS
_ASK_MAX_NS: Final = 500 * _MS
_HEARD_NS: Final = 60 * _MS
_HEARD_MAX_NS: Final = 1_000 * _MS
# A group that it asked and of which it hears nothing for so long has given up; sooner if there is
# another that is larger, since of two groups the smaller one gives up.
_SILENT_NS: Final = 3_000 * _MS
_SMALLER_NS: Final = 400 * _MS
# Of a crowd only the one that begins the group need ask everybody: who hears of it asks again no
# sooner than this after it did, and no later than this after its own last question.
_ELDER_NS: Final = 100 * _MS
_ELDER_MAX_NS: Final = 500 * _MS
# It waits for another newcomer no longer than this many times as long as for members.
_RIVAL_TIMES: Final = 40
# If it was woken so late, it could hear nobody meanwhile, and waits for as much longer.
_LATE_NS: Final = 20 * _MS
# It also asks less often then, this many times as long after it was that late.
_LATE_TIMES: Final = 4
_LATE_MAX_NS: Final = 2_000 * _MS
# Of a crowd each speaks the less often the more there are, so that others are waited for longer.
_CROWD_SHARE: Final = 8
_CROWD_TIMES_MAX: Final = 8
# Every so many times it asks everybody, if its contact does not answer.
_EVERYBODY_EACH: Final = 3


@final
class Newcomer:
    """One process that asks to be let in."""

    def __init__(
        self,
        me: Source,
        name: str,
        limits: Limits,
        random: Randomness,
        contact: int = EVERYBODY,
        found_after_ns: int = FOUND_AFTER_NS,
    ) -> None:
        """`contact`: a process that may be a member. `found_after_ns`: begin the group by itself if
        no member answers for so long; NEVER if it is to wait until there is one.
        """
        self.me: Final = me
        self._name: Final = name
        self._random: Final = random
        self._found_after_ns: Final[i64] = found_after_ns
        # The view that it is in: its own, or the one that let it in.
        self.view: View | None = None
        # Whether this life was in already and is not any more: only another one can come in.
        self.over = False
        # Whether any member was heard.
        self.answered = False
        self._decoder: Final = Decoder()
        self._outbox: Final = Outbox(me, limits)
        self._post: Final = Post()
        self._collecting: Final = Collecting()
        self._contact: i64 = contact
        # INV-ONE: the origin of the group that it asks; 0 until it hears of one.
        self._group: i64 = 0
        # How many are in it, and whether another group is larger.
        self._present: i64 = 0
        self._outgrown = False
        self._answered_ns: i64 = -NEVER
        # Whether it has asked that group by its origin.
        self._named = False
        # Whether a member has heard it since it last asked.
        self._heard = False
        # How often it asked and nobody heard.
        self._unheard: i64 = 0
        self._attempt: i64 = 0
        # How often it asked, since it knows of a group.
        self._waits: i64 = 0
        self._ask_ns: i64 = 0
        self._asked_ns: i64 = 0
        self._found_ns: i64 = NEVER
        self._found_max_ns: i64 = NEVER

    # -- what is heard -----------------------------------------------------------------------------

    def receive(self, frames: bytes, source: Source, now_ns: i64) -> None:
        """The opened frames of one datagram from `source`."""
        if self.view is not None or source.sender == self.me.sender:
            return
        for frame in self._decoder.decode(frames, source).control:
            if isinstance(frame, Join):
                self._on_join(frame, source, now_ns)
            elif isinstance(frame, Wishes):
                self._on_wishes(frame, source, now_ns)
            elif isinstance(frame, PartOf):
                self._on_part(frame, source, now_ns)

    def _on_join(self, frame: Join, source: Source, now_ns: i64) -> None:
        """Of two newcomers the one in the smaller life begins the group."""
        theirs = frame.source
        mine = (self.me.incarnation, self.me.sender)
        if (theirs.incarnation, theirs.sender) < mine:
            self.wait(now_ns)
            self._leave_asking(now_ns)
        elif frame.contact and theirs == source:
            # It may not hear what is said to everybody, and should wait.
            self._post.send(int(source.sender), self._join(False))

    def wait(self, now_ns: i64, crowd: i64 = 0) -> None:
        """Somebody else is there and may begin the group, or has begun it: wait a while longer, and
        longer still in a crowd of so many.
        """
        times = 1 + min(crowd // _CROWD_SHARE, _CROWD_TIMES_MAX)
        self._put_off(now_ns + times * self._found_after_ns)

    def _leave_asking(self, now_ns: i64) -> None:
        """An earlier newcomer asks everybody, and what is answered to it is heard by all."""
        if self._group == 0 and self._attempt > 0 and self._contact == EVERYBODY:
            until_ns = min(now_ns + _ELDER_NS, self._asked_ns + _ELDER_MAX_NS)
            self._ask_ns = max(self._ask_ns, until_ns)

    def _put_off(self, until_ns: i64) -> None:
        if self._found_ns < NEVER:
            self._found_ns = min(max(self._found_ns, until_ns), self._found_max_ns)

    def _on_wishes(self, frame: Wishes, source: Source, now_ns: i64) -> None:
        """A member spoke: there is a group."""
        if self._group == 0:
            self._group = frame.group
            self._ask_ns = now_ns
        elif frame.group != self._group:
            self._outgrown = (frame.present, frame.group) > (self._present, self._group)
            return
        self._present = frame.present
        self._contact = source.sender
        if not self.answered:
            self._waits = 0
        self._answered_ns = now_ns
        self.answered = True
        if frame.answer and self._named:
            if not self._heard:
                wait_ns = backoff_ns(_HEARD_NS, self._waits, _HEARD_MAX_NS)
                self._ask_ns = now_ns + wait_ns
            self._heard = True
        elif not self._heard:
            # It does not know of this newcomer.
            self._ask_ns = min(self._ask_ns, now_ns)

    def _on_part(self, frame: PartOf, source: Source, now_ns: i64) -> None:
        if frame.what != VIEW_PARCEL:
            return
        self._answered_ns = now_ns
        self.answered = True
        parcel = self._collecting.take(frame, source.sender, now_ns)
        if parcel is None:
            return
        view = read_view(parcel.data, int(parcel.name))
        if view.holds(self.me) and view.origin == self._group:
            self.view = view
        elif view.is_over(self.me) and view.life(self.me.sender) >= 0:
            self.over = True

    # -- what is said ------------------------------------------------------------------------------

    def on_timer(self, now_ns: i64) -> None:
        """Ask, or begin the group."""
        if self.view is not None or self.over:
            return
        if now_ns >= self._silent_ns():
            self.over = True
            return
        late_ns = now_ns - self.next_deadline_ns()
        if late_ns > _LATE_NS:
            self._put_off(max(self._found_ns, now_ns) + min(late_ns, self._found_after_ns))
        if self._found_ns == NEVER and self._found_after_ns < NEVER:
            self._found_ns = now_ns + self._found_after_ns
            self._found_max_ns = now_ns + _RIVAL_TIMES * self._found_after_ns
        if now_ns >= self._found_ns and self._group == 0:
            origin = 1 + self._random.randrange(ID_MAX)
            self.view = View.alone(self.me, self._name, origin)
            return
        if now_ns >= self._ask_ns:
            self._ask(now_ns)
            if late_ns > _LATE_NS and self._attempt > 1:
                busy_ns = min(_LATE_TIMES * late_ns, _LATE_MAX_NS)
                self._ask_ns = max(self._ask_ns, now_ns + busy_ns)
        for to, lack in self._collecting.questions(now_ns):
            self._post.send(to, lack)

    def _silent_ns(self) -> i64:
        """When the group that it asks has been silent for too long."""
        if self._group == 0:
            return NEVER
        return self._answered_ns + (_SMALLER_NS if self._outgrown else _SILENT_NS)

    def _ask(self, now_ns: i64) -> None:
        contact = self._contact != EVERYBODY
        self._unheard = 0 if self._heard else self._unheard + 1
        if self._unheard % _EVERYBODY_EACH == 0 and not self._heard:
            contact = False
        self._post.send(int(self._contact) if contact else EVERYBODY, self._join(contact))
        self._heard = False
        self._asked_ns = now_ns
        wait_ns = backoff_ns(_ASK_NS, self._waits, _ASK_MAX_NS)
        self._waits += 1
        self._attempt = min(self._attempt + 1, ATTEMPT_MAX)
        self._ask_ns = now_ns + wait_ns + int(self._random.random() * float(wait_ns // 4))

    def _join(self, contact: bool) -> Join:
        self._named = self._group != 0
        return Join(self.me, self._name, self._attempt, contact, self._group)

    def datagrams(self, now_ns: i64) -> list[Outgoing]:  # noqa: ARG002
        """What to send now. Call this after every other call."""
        self._post.pack(self._outbox)
        return self._outbox.take()

    def next_deadline_ns(self) -> int:
        """When to call `on_timer`."""
        if self.view is not None or self.over:
            return NEVER
        end_ns = self._found_ns if self._group == 0 else self._silent_ns()
        return min(self._ask_ns, end_ns, self._collecting.next_deadline_ns())
