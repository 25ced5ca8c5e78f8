"""News: a member goes in; what has happened to it since the last look comes out, as events."""

from typing import final

from semcast.ids import Source
from semcast.protocol.machine import Machine
from semcast.protocol.membership.transfer import Transfer


@final
class News:
    """What was last said of one process's member."""

    def __init__(self) -> None:
        # Whether and how often there was state to come, and whether too few members answer.
        self._state_pending, self._states_begun = False, 0
        self._minority = False
        # How many messages of a former life were sent again, and of how many nothing is known.
        self._resent = (0, 0)

    def of(self, member: Machine) -> list[tuple[str, str]]:
        """What is new: the kinds of events, and their texts."""
        found: list[tuple[str, str]] = []
        transfer = member.transfers()
        if transfer is not None and transfer.begun > self._states_begun:
            self._state_pending, self._states_begun = True, transfer.begun
            found.append(("state-begun", "the state is on its way"))
        if transfer is not None and self._state_pending and not transfer.pending:
            self._state_pending = False
            found.append(("state-done", _state_of(transfer)))
        if member.minority != self._minority:
            self._minority = member.minority
            if self._minority:
                text = "too few members answer to agree on another view; nobody is put out"
                found.append(("minority", text))
        for source, first, last in member.take_gaps():
            found.append(("gap", _gap_of(source, first, last)))
        return found + self._again(member)

    def _again(self, member: Machine) -> list[tuple[str, str]]:
        """What became of messages that a former life had sent."""
        found: list[tuple[str, str]] = []
        again = member.resent()
        if again == self._resent:
            return found
        resent, unsure = again
        if resent > 0:
            text = f"{resent} messages that nobody had received were sent again"
            found.append(("resent", text))
        if unsure > 0:
            text = (
                f"{unsure} messages were sent before this member was put out, and nobody knows "
                "any more whether they were received; they are not sent again"
            )
            found.append(("unsure", text))
        self._resent = again
        return found


def _state_of(transfer: Transfer) -> str:
    if transfer.nobody_saved:
        return (
            "no member has saved a snapshot, so this process goes on without one: applications "
            "save while they receive; do theirs?"
        )
    lacking = "" if transfer.complete else ", and it is not complete"
    return f"the state is here: {transfer.messages} messages{lacking}"


def _gap_of(source: Source, first: int, last: int) -> str:
    which = f"{first}" if first == last else f"{first} to {last}"
    name = source.name or f"{source.site:x}"
    return (
        f"{name} had forgotten this process when it sent {which}: what of that still stands comes "
        "as state, and the rest does not come"
    )
