"""Who is due first: what a search through all of them finds, whatever is put and removed."""

import random

import pytest

from semcast.live.host.clock import FOREVER
from semcast.live.host.deadlines import Deadlines, Due


@pytest.mark.parametrize("seed", range(20))
def test_the_first_is_always_the_one_that_is_due_first(seed: int) -> None:
    stream = random.Random(f"{seed}/deadlines")
    deadlines = Deadlines()
    every = [Due() for _ in range(stream.randrange(1, 30))]
    due_ns: dict[Due, int] = {}
    now_ns = 0
    for _ in range(500):
        match stream.randrange(4):
            case 0 | 1:
                one = stream.choice(every)
                due_ns[one] = stream.randrange(1000)
                deadlines.put(one, due_ns[one])
            case 2:
                one = stream.choice(every)
                deadlines.remove(one)
                due_ns.pop(one, None)
            case _:
                now_ns = stream.randrange(1000)
                first = deadlines.take(now_ns)
                if first is None:
                    assert min(due_ns.values(), default=FOREVER) > now_ns
                else:
                    assert due_ns.pop(first) == min([first.due_ns, *due_ns.values()])
        assert deadlines.first_ns() == min(due_ns.values(), default=FOREVER)


def test_nobody_is_due_for_ever() -> None:
    deadlines = Deadlines()
    assert deadlines.first_ns() == FOREVER
    assert deadlines.take(FOREVER) is None
    deadlines.remove(Due())
