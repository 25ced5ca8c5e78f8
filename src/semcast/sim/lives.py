"""Whether what is to happen to processes makes sense: faults in, or one line on which does not."""

from collections.abc import Iterable

from semcast.errors import ConfigError
from semcast.sim.surroundings import Crash, Join, Leave, Pause, ProcessFault, Restart


def require_lives(members: int, numbered: Iterable[tuple[int, ProcessFault]]) -> None:
    """Raise ConfigError unless processes join first, crash, pause and leave while they live, and
    restart when they have crashed. `numbered`: each fault with the place of its table.
    """
    faults = list(numbered)
    later = {fault.member for _, fault in faults if isinstance(fault, Join)}
    alive = {member: member not in later for member in range(members)}
    left: set[int] = set()
    paused_until_s: dict[int, float] = {}
    for at, fault in sorted(faults, key=lambda pair: pair[1].at_s):
        begins = isinstance(fault, Restart | Join)
        again = isinstance(fault, Join) and fault.member not in later
        if fault.member in left or alive[fault.member] == begins or again:
            state = "alive" if alive[fault.member] else "gone"
            state = "leaving, or has left for good" if fault.member in left else state
            raise ConfigError(
                f"processes[{at}]: {fault.kind} of member {fault.member} at {fault.at_s:g} s, "
                f"when it is {state}"
            )
        if begins or isinstance(fault, Crash):
            alive[fault.member] = begins
        later.discard(fault.member)
        if isinstance(fault, Leave):
            left.add(fault.member)
        if isinstance(fault, Pause):
            if fault.at_s < paused_until_s.get(fault.member, 0.0):
                raise ConfigError(
                    f"processes[{at}]: pause of member {fault.member} at {fault.at_s:g} s, "
                    f"when it is paused until {paused_until_s[fault.member]:g} s"
                )
            paused_until_s[fault.member] = fault.at_s + fault.for_s
