"""Timing: every number that waiting at a host depends on, in one table, with its reason.

`waiting` decides who waits for whom, and `estimates` measure how applications behave; both, and the
threads that carry out what they say, take their numbers from here.
"""

from typing import Final

_MS: Final = 1_000_000

# -- an application that calls without waiting -----------------------------------------------------
# It reads the sockets itself if nobody has for so long, so that no other thread has to.
ATTEND_NS: Final = 500_000
# If it sends, but not as much as it can, it does so more rarely: the engine's thread has the time
# of its pauses, and is sooner out of the receivers' way.
ATTEND_ALONE_NS: Final = 4 * _MS
# If many messages wait for it already, more of them are better off in the sockets for so long:
# from there they are moved only once.
ATTEND_MANY_NS: Final = 5 * _MS
# Two calls have a pause between them if they are at least so far apart.
PAUSE_NS: Final = 300_000

# -- sends that are gathered into full datagrams ---------------------------------------------------
# Sends that are no further apart than this may be a burst.
BURST_NS: Final = 20_000
# They are one once so many have followed each other.
BURST_BEGINS_SENDS: Final = 8
# A burst of so many sends survives a pause of up to so long: the processor is not ours alone.
BURST_LASTS_SENDS: Final = 32
BURST_PAUSE_NS_MAX: Final = 200_000
# While a burst goes on, what is unsent is at most so old, and at most so large.
BURST_AGE_NS_MAX: Final = 1 * _MS
BURST_BYTES_MAX: Final = 60_000
# When a burst has ended, its tail is sent this soon.
TAIL_NS: Final = 1 * _MS

# -- when the engine's thread looks whether an application still reads -----------------------------
# So long an application may stay away: while it sends as much as it can, as a rule, and if it never
# stayed away.
AWAY_BUSY_NS: Final = 1 * _MS
AWAY_USUAL_NS: Final = 5 * _MS
AWAY_LONG_NS: Final = 40 * _MS
# A sender that pauses leaves to the engine's thread, which looks more often than this, whatever is
# not due for longer.
LATE_NS: Final = 4 * AWAY_USUAL_NS
# An application that has waited for so long has nothing else to do, so it is attentive.
IDLE_NS: Final = 200 * _MS
# The sockets may fill to one part in so many before somebody looks.
ROOM_PARTS: Final = 4
# Looks that are further apart say no more about how fast the sockets fill; and no socket has more
# room than this. Both keep the product of the two within 64 bits.
LOOK_NS_MAX: Final = 1000 * _MS
ROOM_BYTES_MAX: Final = 1 << 30

# -- readers that wait, and whose place at the sockets is kept -------------------------------------
# A reader that was away for less than this is soon back: what is due can wait for it.
SOON_NS: Final = 500_000
# The place of such a reader is kept for so long. Nobody reads the sockets meanwhile, so others wait
# this much longer for a message if the reader does not come back after all.
KEPT_NS: Final = 2 * _MS
# The engine's thread looks every KEPT_NS until no place was kept for so long.
KEPT_LAST_NS: Final = 200 * _MS
# A leader that had to wait so long for a datagram is not behind: nothing had come before.
CALM_NS: Final = 20_000

# -- readers that stay awake -----------------------------------------------------------------------
# If `sched_yield` takes longer than this, another thread ran: somebody else wants the processor.
YIELD_NS: Final = 5_000
# A guess that was right counts one, and a wrong one takes this much away, so two in three have to
# be right.
GUESS_WRONG_COSTS: Final = 2
# So much is the most that guesses can be worth; at half of it, the next one is relied upon.
GUESS_WORTH_MAX: Final = 8
# Sleeping is exact to a thousandth of itself; for longer periods that is not exact enough.
PERIOD_NS_MAX: Final = 50 * _MS
# A message is on time within one part in so many of the period: of messages that come at random
# only a quarter are.
PERIOD_CHANCE_PARTS: Final = 8
# Single messages are early or late, so the expected time and the period follow them by these parts.
PHASE_PARTS: Final = 4
PERIOD_PARTS: Final = 16

# -- how much is handed over at once ---------------------------------------------------------------
# An application that takes messages singly, and needs less than this for each, is given several at
# a time, up to so many: together an eighth of a millisecond.
QUICK_NS: Final = 4_000
PORTION_MESSAGES_MAX: Final = 32
