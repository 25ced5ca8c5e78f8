"""Waiting: what happens goes in; what the thread that saw it does comes out, from one table.

Sockets have to be read, whatever applications do, but by one thread at a time: two that wake for
one datagram are in each other's way. So there is one place at the sockets, and this is its state
machine. Threads of applications, and the engine's thread, say what happened (`Input`) and carry out
what the table answers (`Action`). No clock, thread or lock is known here: times are arguments, and
readers are only told apart. Numbers come from `timing`, and an application's habits (is it near, is
it soon back, when is its next message expected) from `estimates`. docs/design/live.md explains it.
"""

import enum
from typing import Final, final

from mypy_extensions import i64

from semcast.live.host.clock import FOREVER
from semcast.live.host.timing import KEPT_LAST_NS, KEPT_NS


class State(enum.IntEnum):
    """Who has the place at the sockets. In the last three a reader does: it *leads*."""

    FREE = 0  # No reader. The engine's thread waits there, or looks in if an application is near.
    KEPT = 1  # Its reader left with a message, and is soon back: no other takes its place.
    SLEEPING = 2  # A reader sleeps until a socket is ready or something is due.
    DOZING = 3  # A reader sleeps until shortly before its next message is expected.
    WATCHING = 4  # A reader stays awake, since its next message is expected now.


class Input(enum.IntEnum):
    """What happened, or what a thread found."""

    # A reader, which is a thread that an application waits with, has nothing to take.
    READER_WAITS = 0  # It wants the place.
    READER_OWES = 1  # The same, but the rest of its last turn, or of its sends, is to be done.
    OTHER_WAITS = 2  # It wants the place, which is kept for another.
    # The leader, without the lock: while it leads, nobody else changes the state.
    EXPECTED_NOW = 3  # The next message is expected from now on.
    EXPECTED_LATER = 4  # It is expected at a later time.
    NOT_EXPECTED = 5  # Nobody knows when it will come.
    SAW_NOTHING = 6  # The time for that is over, or somebody else wants the processor.
    LEADER_BACK = 7  # A socket is ready, something is due, or it was woken; it has the lock again.
    # A reader ends its wait while others wait, too.
    LEAVES_SOON_BACK = 8  # It was never long away.
    LEAVES = 9  # It may be away for long.
    OTHER_LEAVES = 10  # It leaves, and the place is kept for another.
    # An application calls without waiting, and the sockets were not read for a while.
    CALLS = 11
    # The engine's thread, before it waits.
    NEAR = 12  # An application was here a moment ago, and none depends on the engine's thread.
    FAR = 13  # None was, or one that has no thread to wait with depends on the engine's.
    # The engine's thread, when its wait at the sockets is over.
    READY = 14  # A socket is ready, or it was woken.
    DUE = 15  # A turn is due.
    # The engine's thread, when it looks in.
    ATTENDED = 16  # Somebody reads the sockets and does what is due.
    NEGLECTED = 17  # Nobody does, or gathered sends were not sent.
    KEPT_IN_VAIN = 18  # The reader has not come back in time, or its group was left.


class Action(enum.IntEnum):
    """What the thread that gave the input does."""

    NOTHING = 0
    LEAD = 1  # Wait at the sockets for all, in the way that the next input decides.
    FOLLOW = 2  # Sleep until another reader hands over a message, or the place.
    SETTLE = 3  # Do what its own group owes, and ask again.
    SLEEP = 4  # Wait until a socket is ready.
    DOZE = 5  # Wait so, but only until shortly before the message is expected.
    WATCH = 6  # Look at the sockets again and again.
    TAKE_TURN = 7  # Read the sockets, do what is due, send, and wake whom it concerns.
    SERVE = 8  # Do the same without reading: the leader does that.
    KEEP = 9  # Keep the place for the reader, and have the engine's thread look in time.
    PASS_ON = 10  # Wake a follower to take the place, or else the engine's thread.
    LOOK_IN = 11  # Sleep away from the sockets; then see whether they are read.
    STAND_IN = 12  # Wait at the sockets, since no application does.


# What each state answers to each input: the action, "-" for none, and after ">" the next state if
# it is another one. A leader's inputs cannot come while nobody leads, and would change nothing.
_TEXT: Final = """
                  FREE           KEPT           SLEEPING        DOZING          WATCHING
READER_WAITS      LEAD>SLEEPING  LEAD>SLEEPING  FOLLOW          FOLLOW          FOLLOW
READER_OWES       SETTLE         SETTLE         FOLLOW          FOLLOW          FOLLOW
OTHER_WAITS       LEAD>SLEEPING  FOLLOW         FOLLOW          FOLLOW          FOLLOW
EXPECTED_NOW      -              -              WATCH>WATCHING  WATCH>WATCHING  WATCH
EXPECTED_LATER    -              -              DOZE>DOZING     DOZE            DOZE>DOZING
NOT_EXPECTED      -              -              SLEEP           SLEEP>SLEEPING  SLEEP>SLEEPING
SAW_NOTHING       -              -              SLEEP           WATCH>WATCHING  SLEEP>SLEEPING
LEADER_BACK       TAKE_TURN      TAKE_TURN      TAKE_TURN>FREE  TAKE_TURN>FREE  TAKE_TURN>FREE
LEAVES_SOON_BACK  KEEP>KEPT      KEEP           -               -               -
LEAVES            PASS_ON        PASS_ON>FREE   -               -               -
OTHER_LEAVES      PASS_ON        -              -               -               -
CALLS             TAKE_TURN      TAKE_TURN      -               -               -
NEAR              LOOK_IN        LOOK_IN        LOOK_IN         LOOK_IN         LOOK_IN
FAR               STAND_IN       STAND_IN       LOOK_IN         LOOK_IN         LOOK_IN
READY             TAKE_TURN      TAKE_TURN      -               -               -
DUE               TAKE_TURN      TAKE_TURN      TAKE_TURN       TAKE_TURN       TAKE_TURN
ATTENDED          -              -              -               -               -
NEGLECTED         TAKE_TURN      TAKE_TURN      SERVE           SERVE           SERVE
KEPT_IN_VAIN      -              PASS_ON>FREE   -               -               -
"""


def _cell(state: State, text: str) -> tuple[State, Action]:
    action, _, following = text.partition(">")
    state = State[following] if following else state
    return state, Action.NOTHING if action == "-" else Action[action]


_LINES: Final = [line.split() for line in _TEXT.splitlines() if line]
# By the position of a state and of an input: threads look something up for every wait.
TABLE: Final = [[_cell(state, row[state + 1]) for row in _LINES[1:]] for state in State]

# Every wait needs these, and a name of the module is found faster than one of an enum.
_KEPT: Final = State.KEPT
_READER_WAITS: Final = Input.READER_WAITS
_NOT_EXPECTED: Final = Input.NOT_EXPECTED
_EXPECTED_NOW: Final = Input.EXPECTED_NOW
_LEADER_BACK: Final = Input.LEADER_BACK
LEAD: Final = Action.LEAD
SLEEP: Final = Action.SLEEP


@final
class SocketPlace:
    """The place at the sockets of one host. Callers hold the host's lock, but for the leader and
    for `answer`, which changes nothing.
    """

    def __init__(self) -> None:
        self.state = State.FREE
        # The reader that leads, if any.
        self.leader: object | None = None
        # The reader for which the place is or was kept, and until when.
        self._kept_for: object | None = None
        self.kept_until_ns: i64 = -FOREVER

    def answer(self, found: Input) -> Action:
        """What the table says to this, without a step: it needs no lock."""
        return TABLE[self.state][found][1]

    def step(self, found: Input) -> Action:
        """Go on to the next state; returns what to do."""
        state, action = TABLE[self.state][found]
        self.state = state
        return action

    def ask(self, reader: object, owes: bool, now_ns: i64) -> Action:
        """A reader wants to wait."""
        if self.state is _KEPT and self._is_kept_from(reader, now_ns):
            action = self.step(Input.OTHER_WAITS)
        else:
            action = self.step(Input.READER_OWES if owes else _READER_WAITS)
        if action is LEAD:
            self.leader = reader
        return action

    def expect(self, begins_ns: i64, now_ns: i64, until_ns: i64, can_doze: bool) -> Action:
        """The leader waits until then at the most, and it pays to be awake from `begins_ns` on."""
        if begins_ns >= until_ns or (begins_ns > now_ns and not can_doze):
            return self.step(_NOT_EXPECTED)
        return self.step(Input.EXPECTED_LATER if begins_ns > now_ns else _EXPECTED_NOW)

    def leader_is_back(self) -> None:
        """The leader holds the lock again, and takes a turn."""
        self.leader = None
        self.step(_LEADER_BACK)

    def leave(self, reader: object, soon_back: bool, now_ns: i64) -> Action:
        """A reader ends its wait, and others wait, too."""
        if self._is_kept_from(reader, now_ns):
            return self.step(Input.OTHER_LEAVES)
        action = self.step(Input.LEAVES_SOON_BACK if soon_back else Input.LEAVES)
        if action is Action.KEEP:
            self._kept_for = reader
            self.kept_until_ns = now_ns + KEPT_NS
        elif action is Action.PASS_ON:
            self._kept_for, self.kept_until_ns = None, -FOREVER
        return action

    def give_up(self) -> Action:
        """The reader for which the place was kept does not come back, or its group is left."""
        self._kept_for, self.kept_until_ns = None, -FOREVER
        return self.step(Input.KEPT_IN_VAIN)

    def was_kept_for(self, reader: object) -> bool:
        """Whether the place is kept for this reader, or was the last time that it was kept."""
        return self._kept_for is reader

    def is_kept(self, now_ns: i64) -> bool:
        """Whether a reader is expected to take the place."""
        return self.state is _KEPT and now_ns < self.kept_until_ns

    def is_kept_in_vain(self, now_ns: i64) -> bool:
        """Whether the reader for which it was kept should have come by now."""
        return self.state is _KEPT and now_ns >= self.kept_until_ns

    def _is_kept_from(self, reader: object, now_ns: i64) -> bool:
        return self._kept_for is not reader and self.is_kept(now_ns)

    def look_ns(self, until_ns: i64, now_ns: i64) -> i64:
        """When the engine's thread has to look in, if it would do so then: every KEPT_NS for as
        long as places are kept now and then.
        """
        if now_ns - self.kept_until_ns > KEPT_LAST_NS:
            return until_ns
        return min(until_ns, now_ns + KEPT_NS)
