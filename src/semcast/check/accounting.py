"""Accounting: what a node received it delivers once, purges once for a cover, or still holds.

A cover must really replace what is purged, by the whole relation, must have been multicast, and
must be here (SRM §4.3: purge m while m, m' are in the queue and m ⊏ m'). A message that is skipped,
never having been here, needs such a cover too, wherever that is. A crashed node does nothing any
more. Holds on every prefix.
"""

import enum
from typing import Final, final

from semcast.check.history import History, Step
from semcast.check.relation import NEVER
from semcast.check.violation import Violation
from semcast.journal import Journal

PROPERTY: Final = "Accounting"


class _State(enum.Enum):
    """What became of a message at a node; the text ends a sentence."""

    HELD = "is held there"
    DELIVERED = "was delivered there"
    PURGED = "was purged there"
    SKIPPED = "was skipped there"


@final
class _Account:
    """The messages at one node."""

    def __init__(self) -> None:
        self.states: Final[dict[int, _State]] = {}
        # What it multicast or received.
        self.entered: Final[set[int]] = set()
        self.retained_purged: Final[set[int]] = set()
        self.crashed = False


def check(log: Journal | History) -> list[Violation]:
    """Keep the books of every node."""
    history = History.of(log)
    accounts = [_Account() for _ in history.nodes]
    found = []
    for step in history.steps:
        account = accounts[step.node]
        fault = _crash_fault(account, step) or _book(history, account, step)
        if fault:
            event = history.event(step)
            about = [history.messages[at] for at in (step.message, step.by) if at >= 0]
            text = f"{event.node} {fault}"
            found.append(Violation(PROPERTY, text, event.node, tuple(about), event.time_ns))
    return found


def _crash_fault(account: _Account, step: Step) -> str:
    if account.crashed:
        return f"crashed, and yet there is a later event of it: {step.event}"
    account.crashed = step.event == "crash"
    return ""


def _book(history: History, account: _Account, step: Step) -> str:
    """Enter one event into the books; what is wrong with it, or nothing."""
    if step.message < 0:
        return ""
    name = history.messages[step.message]
    states = account.states
    before = states.get(step.message)
    if step.event == "multicast":
        account.entered.add(step.message)
    elif step.event == "receive":
        account.entered.add(step.message)
        states[step.message] = _State.HELD
        if before is not None:
            return f"receives {name} again: it {before.value}"
    elif step.event == "deliver":
        states[step.message] = _State.DELIVERED
        # A second delivery is Integrity's business.
        if before not in (_State.HELD, _State.DELIVERED):
            why = "it was never received there" if before is None else f"it {before.value}"
            return f"delivers {name}, which it does not hold: {why}"
    elif step.event == "skip":
        states[step.message] = _State.SKIPPED
        if before is not None:
            return f"skips {name}, which {before.value}"
        return _skip_fault(history, step)
    elif step.event == "purge":
        return _book_purge(history, account, step)
    return ""


def _book_purge(history: History, account: _Account, step: Step) -> str:
    name = history.messages[step.message]
    where = history.event(step).where
    if where == "delivery":
        before = account.states.get(step.message)
        account.states[step.message] = _State.PURGED
        if before is not _State.HELD:
            why = "it was never received there" if before is None else f"it {before.value}"
            return f"purges {name} from delivery, which does not hold it: {why}"
    elif where == "retransmit":
        # What is stable may be purged just before it is released: neither loses anything.
        twice = step.message in account.retained_purged
        account.retained_purged.add(step.message)
        if twice or step.message not in account.entered:
            why = "it was purged there" if twice else "it was never received there"
            return f"purges {name} from retransmission, which does not hold it: {why}"
    fault = _cover_fault(history, step)
    if not fault and where in ("delivery", "retransmit") and step.by not in account.entered:
        fault = f"for {history.messages[step.by]}, which it has not received"
    return f"purges {name} {fault}" if fault else ""


def _skip_fault(history: History, step: Step) -> str:
    name = history.messages[step.message]
    if step.by != step.message:
        fault = _cover_fault(history, step)
        return f"skips {name} {fault}" if fault else ""
    # Covered by itself: whoever said so had forgotten by what. There must be something.
    replaced_at = history.relation.covered_at(step.message)
    if replaced_at < step.at or (not history.header.one_order and replaced_at != NEVER):
        return ""
    return f"skips {name}, and nothing that was multicast replaces it"


def _cover_fault(history: History, step: Step) -> str:
    """What is wrong with the cover of a purge or a skip, as the end of a sentence."""
    if step.by < 0:
        return "for no other message"
    cover = history.messages[step.by]
    if not history.multicast_before(step.by, step.at):
        return f"for {cover}, which nobody had multicast"
    if not history.relation.covers(step.by, step.message):
        return f"for {cover}, which does not replace it"
    return ""
