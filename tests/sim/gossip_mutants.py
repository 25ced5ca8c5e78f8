"""Broken variants of groups that gossip: what is purged, passed on, and told of gaps."""

from typing import Final

from tests.sim.variant import Mutant, Patch

GOSSIP_MUTANTS: Final = (
    Mutant(
        "gossip: what was purged is passed on all the same",
        "gossip",
        (
            Patch(
                "protocol/epidemic/pool.py",
                "        for copy in spread.copies:\n"
                "            copy.lane.shelves.take(copy)\n"
                "        spread.copies.clear()\n",
                "",
            ),
        ),
        breaks="Relaying",
    ),
    Mutant(
        "gossip: a copy that is not taken any more purges others",
        "gossip",
        (
            Patch(
                "protocol/epidemic/member.py",
                "                elif self._message_parts:\n"
                "                    self._came_again(frame, source, now_ns)\n",
                "                else:\n"
                "                    whole, seq = frame.whole, frame.seq\n"
                "                    late = decode_whole(whole, frame.source, seq, 9_999)\n"
                '                    self._layer.offer(Spread(late, 0, b""), [])\n',
            ),
        ),
        breaks="Accounting",
    ),
    Mutant(
        "gossip: a message purges others before it has come",
        "gossip",
        (
            Patch(
                "protocol/epidemic/member.py",
                "        message = decode_whole(rumour.whole, rumour.source, rumour.seq, limit)\n",
                "        message = decode_whole(rumour.whole, rumour.source, rumour.seq, limit)\n"
                '        self._layer.offer(Spread(message, 0, b""), [])\n',
            ),
        ),
        breaks="Accounting",
    ),
    Mutant(
        "gossip: what comes out of order is delivered twice",
        "gossip",
        (
            Patch(
                "protocol/epidemic/inbox.py",
                "            stream.came.add(int(seq))\n",
                "            pass\n",
            ),
        ),
        breaks="Integrity",
    ),
    Mutant(
        "gossip: what makes room is called replaced",
        "gossip",
        (
            Patch(
                "protocol/epidemic/pool.py",
                'self._observer.message("drop", spread.message, self._dropped, None)',
                'self._observer.message("purge", spread.message, self._place, None)',
            ),
        ),
        breaks="Accounting",
    ),
    Mutant(
        "gossip: nobody passes on what came from others",
        "gossip",
        (
            Patch(
                "protocol/epidemic/member.py",
                "        if not self._tier.relays(rumour.round):\n",
                "        if rumour.round >= 0:\n",
            ),
        ),
        breaks="Atomicity",
    ),
    Mutant(
        "gossip: after another view, what came before is delivered again",
        "relays",
        (
            Patch(
                "protocol/epidemic/member.py",
                "        self._view = view\n        for part in self._parts:\n",
                "        self._view = view\n"
                "        self._inbox._streams.clear()\n"
                "        for part in self._parts:\n",
            ),
        ),
        first=4,
        breaks="Integrity",
    ),
    Mutant(
        "gossip: what lazy purging drops is passed on all the same",
        "relays",
        (
            Patch(
                "protocol/epidemic/pool.py",
                "                one.obsolete = True\n                self._let_go(one)\n",
                "                pass\n",
            ),
        ),
        breaks="Relaying",
    ),
    Mutant(
        "gossip: what was given up is not told",
        "relays",
        (
            Patch(
                "protocol/epidemic/delivery.py",
                "            self._tell_later(source, seq)\n",
                "            pass\n",
            ),
        ),
        breaks="Gaps",
    ),
    Mutant(
        "gossip: a gap of a source that fell silent is never told",
        "relays",
        (
            Patch(
                "protocol/epidemic/inbox.py",
                "            self._gapped[source] = stream\n",
                "",
            ),
        ),
        breaks="Gaps",
    ),
    Mutant(
        "gossip: the word that a message is covered is of another one",
        "relays",
        (
            Patch(
                "protocol/epidemic/overlay/pull.py",
                "covers.append((int(seq), message.source, int(message.seq)))",
                "covers.append((int(seq) + 1, message.source, int(message.seq)))",
            ),
        ),
        first=4,
        breaks="Accounting",
    ),
)
