"""Broken variants of a closed group: safety, purging, streams, repair, votes, and leaving."""

from typing import Final

from tests.sim.variant import Mutant, Patch

GROUP_MUTANTS: Final = (
    Mutant(
        "no safety guard: what an unsafe message covers is purged (SRM §4.3: m1, m2, m3)",
        "exhaust",
        (
            Patch(
                "protocol/queue/guard.py",
                "        return cover.seq <= self._last_safe",
                "        return cover.seq > 0",
            ),
        ),
    ),
    Mutant(
        "safety with one vote too few",
        "exhaust",
        (
            Patch(
                "protocol/stability/gossip/detection.py",
                "self._followed, me, True, config.f + 1, quiet",
                "self._followed, me, True, config.f, quiet",
            ),
        ),
    ),
    Mutant(
        "what waits is purged by an unsafe cover",
        "explore",
        (
            Patch(
                "protocol/streams/intake.py",
                "Inbound(source, config, members, self._guard, config.keeps)",
                "Inbound(source, config, members, None, config.keeps)",
            ),
        ),
        first=70,
    ),
    Mutant(
        "an unmarked message is purged",
        "exhaust",
        (
            Patch(
                "protocol/queue/purger.py",
                "        bits = cover.bitmap\n        nearest = cover.seq - 1\n",
                "        bits = cover.bitmap | 1\n        nearest = cover.seq - 1\n",
            ),
        ),
    ),
    Mutant(
        "off by one in the bitmap",
        "exhaust",
        (
            Patch(
                "protocol/queue/purger.py",
                "        bits = cover.bitmap\n        nearest = cover.seq - 1\n",
                "        bits = cover.bitmap\n        nearest = cover.seq - 2\n",
            ),
        ),
        first=3,
    ),
    Mutant(
        "a cover is forgotten: who asks for a purged message is never answered",
        "explore",
        (
            Patch(
                "protocol/streams/requests.py",
                "        covers.append((int(seq), by_source, by_seq))\n",
                "        covers.extend([])\n",
            ),
        ),
        first=28,
    ),
    Mutant(
        "a message is delivered twice",
        "explore",
        (
            Patch(
                "protocol/streams/intake.py",
                "        seq = inbound.next\n        size_bytes: i64 = 0\n",
                "        seq = inbound.next - int(messages[at].seq == inbound.next - 1)\n"
                "        size_bytes: i64 = 0\n",
            ),
        ),
        first=11,
    ),
    Mutant(
        "FIFO order broken: a message is handed on although an earlier one may come",
        "explore",
        (
            Patch(
                "protocol/streams/intake.py",
                "        seq = inbound.next\n        size_bytes: i64 = 0\n",
                "        seq = inbound.next = max(inbound.next, messages[at].seq)\n"
                "        size_bytes: i64 = 0\n",
            ),
        ),
        first=11,
    ),
    Mutant(
        "stability with one vote too few: messages are released too early",
        "exhaust",
        (
            Patch(
                "protocol/stability/gossip/tracker.py",
                "            if voters != self._alive:\n",
                "            if (self._alive & ~voters).bit_count() > 1:\n",
            ),
        ),
    ),
    Mutant(
        "votes for what was only heard of",
        "explore",
        (
            Patch(
                "protocol/streams/intake.py",
                "            self._detection.has(inbound.source, seq, now_ns)\n",
                "            self._detection.has(inbound.source, inbound.newest, now_ns)\n",
            ),
        ),
        first=16,
    ),
    Mutant(
        "stale incarnation mixed in: lives of a sender are one source",
        "explore",
        (
            Patch(
                "ids.py",
                "return self.sender == other.sender and self.incarnation == other.incarnation",
                "return self.sender == other.sender",
            ),
            Patch("ids.py", "hash((sender, incarnation))", "hash(sender)"),
        ),
        first=30,
    ),
    Mutant(
        "a full buffer drops instead of refusing",
        "exhaust",
        (
            Patch(
                "protocol/streams/intake.py",
                "        count = self._order.admit(messages, at, end)\n",
                "        self._order.admit(messages, at, end)\n        count = end - at\n",
            ),
        ),
        first=8,
    ),
    Mutant(
        "a request is never repeated",
        "explore",
        (
            Patch(
                "protocol/streams/repair.py",
                "want.due_ns = now_ns + patience + ",
                "want.due_ns = now_ns + (patience << 30) + ",
            ),
        ),
        first=11,
    ),
    Mutant(
        "a member leaves although others lack what it took",
        "leave",
        (
            Patch(
                "protocol/membership/departure.py",
                "        if not self._intake.others:\n            return True\n        detection",
                "        if True:\n            return True\n        detection",
            ),
        ),
        first=83,
        breaks="Agreement",
    ),
    Mutant(
        "a member that leaves does not ask those who are there, because somebody is silent",
        "leave",
        (
            Patch(
                "protocol/stability/gossip/tracker.py",
                "        return self._alive & ~excused & ~page.voters == 0\n",
                "        return excused != 0\n",
            ),
        ),
        first=240,
        breaks="Agreement",
    ),
    Mutant(
        "what waits here for an earlier message is not sent to others who lack it",
        "leave",
        (
            Patch(
                "protocol/streams/requests.py",
                "            message = inbound.early(seq)\n",
                "            pass\n",
            ),
        ),
        first=6,
        breaks="Pace",
    ),
    Mutant(
        "what is missing is asked for half a second later, a few messages at a time",
        "leave",
        (
            Patch(
                "protocol/streams/repair.py",
                "        due: i64 = now_ns + self._random.randrange(self._delay_ns)\n",
                "        due: i64 = now_ns + 500_000_000\n",
            ),
            Patch(
                "protocol/streams/asking.py",
                "        if self.size > self._size_max:\n            self.size = self._size_max\n",
                "        self.size = 4\n",
            ),
        ),
        first=83,
        breaks="Pace",
    ),
)
