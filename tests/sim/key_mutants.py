"""Broken variants of what replaces by key: the chains of keys, and the queue in place."""

from typing import Final

from tests.sim.variant import Mutant, Patch

KEY_MUTANTS: Final = (
    Mutant(
        "by key: keys of one length are the same",
        "explore",
        (
            Patch(
                "protocol/queue/key_chains.py",
                "            if self._hashes[slot] == hashed:\n",
                "            if True:\n",
            ),
            Patch(
                "protocol/queue/key_chains.py",
                "    at: i64 = 0\n    while at + 8 <= size:\n",
                "    at = size\n    while at + 8 <= size:\n",
            ),
        ),
        first=18,
    ),
    Mutant(
        "by key: several keys replace whatever shares one with them",
        "explore",
        (
            Patch(
                "protocol/queue/key_chains.py",
                " and wide.issuperset(its_names):\n",
                " and wide:\n",
            ),
        ),
        first=39,
    ),
    Mutant(
        "by key: a message that has left is still found by its key",
        "explore",
        (
            Patch(
                "protocol/queue/key_chains.py",
                "            lane.cells[cell] = older\n        else:\n",
                "            lane.cells[cell] = older\n        elif older:\n",
            ),
        ),
        first=5,
    ),
    Mutant(
        "in place: a message that is never replaced goes before the last one",
        "key",
        (
            Patch(
                "protocol/queue/in_place.py",
                "        before = self._successor_in_sequence(message) if late else 0\n",
                "        before = self._slots.links[1] if message.bitmap == 0 else 0\n",
            ),
        ),
        first=6,
    ),
    Mutant(
        "in place: a value has its turn before an older one of its key",
        "key",
        (
            Patch(
                "protocol/queue/values.py",
                "            return self._first[self._older[_CHANGED]]\n",
                "            return self._last[self._older[_CHANGED]]\n",
            ),
        ),
        first=125,
    ),
    Mutant(
        "in place: a value does not wait for an older message about several keys",
        "key",
        (
            Patch(
                "protocol/queue/ties.py",
                "            if slot != 0 and self._slots.at(slot).seq < message.seq:\n",
                "            if slot != 0 and message.several and "
                "self._slots.at(slot).seq < message.seq:\n",
            ),
        ),
        first=798,
    ),
    Mutant(
        "in place: a message about several keys does not wait for older ones",
        "key",
        (
            Patch(
                "protocol/queue/ties.py",
                "            if slot != 0 and self._slots.at(slot).seq < message.seq:\n",
                "            if slot != 0 and not message.several and "
                "self._slots.at(slot).seq < message.seq:\n",
            ),
        ),
        first=321,
    ),
    Mutant(
        "in place: a value of a former life comes last",
        "reborn",
        (
            Patch(
                "protocol/queue/ties.py",
                "        for former in lane.former:\n",
                "        for former in lane.former[:0]:\n",
            ),
        ),
        first=1180,
    ),
)
