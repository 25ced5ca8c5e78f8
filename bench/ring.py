"""The benchmark's model on our scheduler: it stands for the handlers that a user would write.

Processes in a ring: each waits a pseudo-random time, sends to the next one and waits again; a
message takes LATENCY_NS. So half of the events are timeouts and half are arrivals. This file has
no help from the simulator but `Scheduler`; `bench.simulator` has the same model in SimPy, runs
this one interpreted and compiled, and checks that every process received the same in all of them.
"""

from typing import Final

from mypy_extensions import i64

from semcast.sim.scheduler import Handler, Scheduler

LATENCY_NS: Final = 250_000
STEP_NS: Final = 15  # times a 16-bit number: up to 1 ms
# A 16-bit congruential sequence: the same few machine instructions, or bytecodes, on every side.
MULTIPLIER: Final = 1229
INCREMENT: Final = 351
MASK: Final = 0xFFFF


class Arrival(Handler):
    """A message reaches the process that the argument names."""

    def __init__(self, processes: int) -> None:
        self.received = [0] * processes

    def fire(self, argument: i64) -> None:
        self.received[argument] += 1


class Timeout(Handler):
    """The process that the argument names sends to the next one and waits again."""

    def __init__(self, scheduler: Scheduler, processes: int, arrival: Arrival) -> None:
        self.scheduler = scheduler
        self.processes: i64 = processes
        self.states = list(range(processes))
        self.timeout = scheduler.add(self)
        self.arrival = scheduler.add(arrival)

    def start(self) -> None:
        for process in range(len(self.states)):
            self.states[process] = (process * MULTIPLIER + INCREMENT) & MASK
            self.scheduler.at(1 + self.states[process] * STEP_NS, self.timeout, process)

    def fire(self, argument: i64) -> None:
        scheduler = self.scheduler
        now_ns = scheduler.now_ns
        scheduler.at(now_ns + LATENCY_NS, self.arrival, (argument + 1) % self.processes)
        state: i64 = (self.states[argument] * MULTIPLIER + INCREMENT) & MASK
        self.states[argument] = state
        scheduler.at(now_ns + 1 + state * STEP_NS, self.timeout, argument)


def run(processes: int, until_ns: int) -> tuple[int, list[int]]:
    """How many events were fired, and how much each process received."""
    scheduler = Scheduler()
    arrival = Arrival(processes)
    Timeout(scheduler, processes, arrival).start()
    return scheduler.run(until_ns), arrival.received
