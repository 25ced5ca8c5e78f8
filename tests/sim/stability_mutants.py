"""Broken variants of stability: rounds, and how lives of members come, vote and end."""

from typing import Final

from tests.sim.variant import Mutant, Patch

STABILITY_MUTANTS: Final = (
    Mutant(
        "rounds: votes of another epoch count, and so do those of a former life",
        "trackers",
        (
            Patch(
                "protocol/stability/rounds/tracker.py",
                "        if message.epoch != self.roll.epoch:\n            self.strange = True\n",
                "        if message.epoch < 0:\n            self.strange = True\n",
            ),
        ),
        first=616,
    ),
    Mutant(
        "rounds: nobody minds that somebody has begun another life",
        "trackers",
        (
            Patch(
                "protocol/stability/rounds/roll.py",
                "        self._who = int(view.digest)\n",
                "        self._who = view.gone\n",
            ),
        ),
        first=616,
    ),
    Mutant(
        "rounds: a newcomer votes at once instead of abstaining",
        "trackers",
        (
            Patch(
                "protocol/stability/rounds/round_part.py",
                "        if self._away is not None and not self._needed:\n",
                "        if self._away is not None and self._needed:\n",
            ),
        ),
    ),
    Mutant(
        "rounds: one ends although a vote is missing",
        "rounds",
        (
            Patch(
                "protocol/stability/rounds/round_part.py",
                "(self._missing.count == 0 or ",
                "(self._missing.count <= 1 or ",
            ),
            Patch(
                "protocol/stability/rounds/round_part.py",
                "self._votes.count != self.roll.alive_count",
                "self._votes.count < self.roll.alive_count - 1",
            ),
        ),
        first=11,
    ),
    Mutant(
        "rounds: a vote that comes twice counts twice",
        "trackers",
        (
            Patch(
                "protocol/stability/rounds/tracker.py",
                "        if self._phase != GATHERING or not self._missing.remove(sender):\n"
                "            return False\n",
                "        if self._phase != GATHERING:\n"
                "            return False\n"
                "        self._missing.remove(sender)\n",
            ),
        ),
    ),
    Mutant(
        "rounds: who waits in vain does not ask again",
        "rounds",
        (
            Patch(
                "protocol/stability/rounds/tracker.py",
                "        return self._pull(now_ns) if self._phase == GATHERING else False\n",
                "        return False\n",
            ),
        ),
        first=11,
    ),
    Mutant(
        "frames of another view are counted",
        "members",
        (
            Patch(
                "protocol/member.py",
                "            if spoken_of != self._view.digest:\n",
                "            if spoken_of < 0:\n",
            ),
        ),
        first=36,
    ),
    Mutant(
        "a member says that it has sent nothing, although it has",
        "visits",
        (
            Patch(
                "protocol/stability/gossip/detection.py",
                "self._quiet.install(view, self._me, self._stability.has_none(self._me))",
                "self._quiet.install(view, self._me, True)",
            ),
        ),
        first=5,
    ),
    Mutant(
        "gossip: a member that came back votes at once",
        "members",
        (
            Patch(
                "protocol/stability/gossip/tracker.py",
                "Row(joined or self._followed.is_young(source))",
                "Row(True)",
            ),
        ),
    ),
    Mutant(
        "rounds: a member that came back votes at once on every source",
        "members",
        (
            Patch(
                "protocol/stability/rounds/page_rows.py",
                "            joined = self._joining is None or source == self._joining\n",
                "            joined = True\n",
            ),
        ),
    ),
    Mutant(
        "a life ends before those before it",
        "members",
        (
            Patch(
                "protocol/stability/followed.py",
                "return self.view.is_over(source) and not _lives_before(source, known)",
                "return self.view.is_over(source)",
            ),
        ),
    ),
    Mutant(
        "lives that are over are still listened to",
        "crowds",
        (
            Patch(
                "protocol/member.py",
                "            self._receive_stranger(frames, source, now_ns)\n            return\n",
                "            self._receive_stranger(frames, source, now_ns)\n",
            ),
        ),
        first=80,
    ),
    Mutant(
        "rounds: a column is given away before what was said of it has left",
        "members",
        (
            Patch(
                "protocol/stability/rounds/pages.py",
                "        # Before columns",
                "        page.place()\n        # Before columns",
            ),
        ),
        first=69,
    ),
    Mutant(
        "rounds: a result says nothing of what its teller has just joined",
        "members",
        (
            Patch(
                "protocol/stability/rounds/page_rows.py",
                "self.tracker.begin_at(row.column, row.own)",
                "self.tracker.put(row.column, row.own, row.agreed, row.newest)",
            ),
        ),
        first=141,
    ),
    Mutant(
        "lives that have ended are never forgotten",
        "members",
        (
            Patch(
                "protocol/streams/endings.py",
                "            if inbound.next <= inbound.newest or ",
                "            if inbound is not None or ",
            ),
        ),
    ),
)
