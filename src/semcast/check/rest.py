"""Whether what must hold in the end can be judged of a run: did it end by itself, or come to rest?

It can if every correct node ended by itself (its log says `end`): nobody was going to do more, so
what is missing then is missing for good. Live members say so in their logs; of a run put together
from such logs (`journal.lives`) only those are correct.

A simulated world does not say `end`: it stops at a time. Its run is judged if it had come to rest
by then: if every correct node had delivered or purged all that it received of correct senders, and
had taken for stable all that it kept of theirs. A run that had not was cut short, and nothing tells
what is lost from what was still on its way. A federation keeps nothing until it is stable, so only
`end` tells that it had come to rest.
"""

from collections.abc import Iterable
from typing import Final

from semcast.check.facts import RunFacts, Waiting, nodes_in

# If there is nobody of whom anything could be asked.
NOBODY: Final = (
    "nobody is left to judge: every member was killed or cut off, or left while others went on"
)


def restless(run: RunFacts, waiting: Iterable[Waiting]) -> str:
    """Why what must hold in the end cannot be judged; nothing if it can."""
    if not run.correct:
        return NOBODY
    if not run.header.one_order or not run.correct & ~run.ended:
        return ""
    if run.header.reliability == "gossip":
        # It never comes to rest that anybody knew of. Atomicity leaves out what was under way.
        return ""
    if run.header.federated:
        name = run.nodes[nodes_in(run.correct & ~run.ended)[0]]
        return f"{name} does not say that it ended by itself"
    holds, keeps = set(), set()
    for one in waiting:
        if not (run.correct & run.only(one.node) and run.correct & run.only(one.sender)):
            continue
        if one.received > one.gone:
            holds.add(one.node)
        forwards = run.header.reliability == "group" and one.node != one.sender
        if max(one.sent_newest, one.received_newest * forwards) > one.stable_newest:
            keeps.add(one.node)
    if holds:
        return f"{min(holds)} has not delivered all it holds"
    return f"{min(keeps)} keeps what is not stable yet" if keeps else ""
