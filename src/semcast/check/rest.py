"""Whether what must hold in the end can be judged of a run: did it end by itself, or come to rest?

It can if every correct node ended by itself (its log says `end`): nobody was going to do more, so
what is missing then is missing for good. Live members say so in their logs; of a run put together
from such logs (`journal.lives`) only those are correct.

A simulated world does not say `end`: it stops at a time. Its run is judged if it had come to rest
by then: if every correct node had delivered or purged all that it received of correct senders, and
had taken for stable all that it kept of theirs. A run that had not was cut short, and nothing tells
what is lost from what was still on its way.
"""

from collections import Counter
from typing import Final

from semcast.check.history import History
from semcast.journal import Journal

# If there is nobody of whom anything could be asked.
NOBODY: Final = (
    "nobody is left to judge: every member was killed or cut off, or left while others went on"
)
HOLDS: Final = "has not delivered all it holds"
KEEPS: Final = "keeps what is not stable yet"


def restless(log: Journal | History) -> str:
    """Why what must hold in the end cannot be judged; nothing if it can."""
    history = History.of(log)
    if not history.correct:
        return NOBODY
    if not history.header.one_order or not history.correct & ~history.ended:
        return ""
    held, kept = _waiting(history)
    if held:
        return f"{min(held)} {HOLDS}"
    return f"{min(kept)} {KEEPS}" if kept else ""


def _waiting(history: History) -> tuple[set[str], set[str]]:
    """The correct nodes that hold what is not delivered, and those that keep what is not stable."""
    held = Counter[tuple[str, str]]()
    newest: dict[tuple[str, str], int] = {}
    stable: dict[tuple[str, str], int] = {}
    forwards = history.header.reliability == "group"
    for event in history.journal:
        node, sender, seq = event.node, event.sender, event.seq
        if sender is None or seq is None or not history.correct & history.only(node):
            continue
        if not history.correct & history.only(sender):
            continue
        where = (node, sender)
        if event.event == "receive":
            held[where] += 1
            if forwards and node != sender:
                newest[where] = max(seq, newest.get(where, 0))
        elif event.event == "deliver" or (event.event == "purge" and event.where == "delivery"):
            held[where] -= 1
        elif event.event == "multicast":
            newest[where] = max(seq, newest.get(where, 0))
        elif event.event == "stable":
            stable[where] = max(seq, stable.get(where, 0))
    return (
        {node for (node, _), count in held.items() if count > 0},
        {where[0] for where, seq in newest.items() if seq > stable.get(where, 0)},
    )
