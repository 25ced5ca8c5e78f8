"""Broken variants of membership: agreement on views, open groups, feeds, and comebacks."""

from typing import Final

from tests.sim.variant import Mutant, Patch

MEMBERSHIP_MUTANTS: Final = (
    Mutant(
        "a member is put out because the system says once that nobody listens where it is",
        "open",
        (
            Patch(
                "protocol/membership/open_views.py",
                "        self._watch.refused(sender, now_ns)\n",
                "        self._agreed.gone(sender, now_ns)\n",
            ),
        ),
        first=49,
    ),
    Mutant(
        "views: a minority installs a view",
        "agreement",
        (
            Patch(
                "protocol/membership/agreement.py",
                "        return 2 * there > many\n",
                "        return there > 0\n",
            ),
        ),
    ),
    Mutant(
        "views: in an even split either half decides",
        "agreement",
        (
            Patch(
                "protocol/membership/agreement.py",
                "            return bool(bits >> self.first & 1)\n",
                "            return True\n",
            ),
        ),
        first=3,
    ),
    Mutant(
        "views: a vote of the last view counts",
        "agreement",
        (
            Patch(
                "protocol/membership/agreement.py",
                "        if view != self.view.digest or number != self.view.number:\n",
                "        if view < 0 or number < 0:\n",
            ),
        ),
        first=2,
    ),
    Mutant(
        "views: an acceptor forgets its promise",
        "agreement",
        (
            Patch(
                "protocol/membership/agreement.py",
                "    def _on_accept(self, said: Said) -> Said | None:\n"
                "        if said.ballot < self.promised:\n",
                "    def _on_accept(self, said: Said) -> Said | None:\n"
                "        if said.ballot < 0:\n",
            ),
        ),
    ),
    Mutant(
        "views: a proposer ignores the value that a promise carries",
        "agreement",
        (
            Patch(
                "protocol/membership/agreement.py",
                "        value = change if self._bound is None else self._bound\n",
                "        value = change\n",
            ),
        ),
    ),
    Mutant(
        "views: a proposer takes up the oldest value that a promise carries",
        "agreement",
        (
            Patch(
                "protocol/membership/agreement.py",
                "        if said.voted > self._bound_by and said.change is not None:\n",
                "        if self._bound is None and said.change is not None:\n",
            ),
        ),
        first=4,
    ),
    Mutant(
        "views: a decision is learned from one vote",
        "agreement",
        (
            Patch(
                "protocol/membership/agreement.py",
                "        if self.electorate.is_quorum(self.votes):\n",
                "        if self.votes:\n",
            ),
        ),
    ),
    Mutant(
        "open: a newcomer begins a stream one message late",
        "open",
        (
            Patch(
                "protocol/streams/intake.py",
                "        if self.endings.begin(inbound, stable):\n",
                "        if self.endings.begin(inbound, stable + 1):\n",
            ),
            Patch(
                "protocol/streams/intake.py",
                'self._tell_progress("join", source, inbound.next)',
                'self._tell_progress("join", source, min(inbound.next, stable + 1))',
            ),
        ),
    ),
    Mutant(
        "open: a member that was put out goes on as if nothing had happened",
        "open",
        (
            Patch(
                "protocol/membership/agreed.py",
                "        if not view.holds(self._me):\n            self.out = True\n",
                "        if view.number < 0:\n            self.out = True\n",
            ),
        ),
        first=29,
    ),
    Mutant(
        "open: a patron that does not know of a newcomer yet ends its stream",
        "open",
        (
            Patch(
                "protocol/membership/subscription.py",
                "            if not any(one.holds(of) for one in self._patrons.values()):\n",
                "            if True:\n",
            ),
            Patch(
                "protocol/membership/readers.py",
                "self._strange.setdefault(of, int(now_ns)) >= _STRANGE_NS\n",
                "self._strange.setdefault(of, int(now_ns)) >= 0\n",
            ),
        ),
        first=8043,
    ),
    Mutant(
        "open: with a fanout of 1 a member answers nobody but those who are behind",
        "open",
        (
            Patch(
                "protocol/stability/gossip/detection.py",
                "        if behind and (self._config.gossip_fanout > 1 or ",
                "        if behind and (True or ",
            ),
        ),
        first=5555,
    ),
    Mutant(
        "feeds: a sender that has died keeps newcomers out",
        "feeds",
        (
            Patch(
                "protocol/membership/feed.py",
                "            holds_up = holds_up or ask.long_waits < _LONG_WAITS_MAX\n",
                "            holds_up = True\n",
            ),
        ),
        first=5345,
    ),
    Mutant(
        "open: a patron does not wait for its readers",
        "open",
        (
            Patch(
                "protocol/membership/readers.py",
                "            self._detection.hold_back(of, lowest, now_ns)\n",
                "            self._detection.hold_back(of, SEQ_MAX, now_ns)\n",
            ),
        ),
        first=97,
    ),
    Mutant(
        "open: the state ends one message before the stream begins",
        "open",
        (
            Patch(
                "protocol/membership/transfer.py",
                "            self._want(source, inbound.cut, inbound.had)\n",
                "            self._want(source, max(0, inbound.cut - 1), inbound.had)\n",
            ),
        ),
        breaks="State",
        first=5,
    ),
    Mutant(
        "feeds: what is live does not wait for the state",
        "feeds",
        (
            Patch(
                "protocol/membership/transfer.py",
                "    def _begin(self, lists: bool) -> None:\n        self._order.hold()\n",
                "    def _begin(self, lists: bool) -> None:\n",
            ),
        ),
        first=15,
    ),
    Mutant(
        "open: what nobody received of one that was put out is not sent again",
        "comebacks",
        (
            Patch(
                "protocol/membership/resending.py",
                "            elif one.message.seq > end:\n",
                "            elif one.message.seq > SEQ_MAX:\n",
            ),
            Patch(
                "protocol/membership/resending.py",
                "from semcast.ids import NEVER, Source\n",
                "from semcast.ids import NEVER, SEQ_MAX, Source\n",
            ),
        ),
    ),
    Mutant(
        "open: one that was put out sends again what others have received",
        "comebacks",
        (
            Patch(
                "protocol/membership/resending.py",
                "            elif one.message.seq > end:\n",
                "            else:\n",
            ),
        ),
    ),
    Mutant(
        "open: what two had of each other when they were put out comes to them again",
        "comebacks",
        (
            Patch(
                "protocol/membership/doubts.py",
                "        if past.seq > 0:\n",
                "        if past.seq > 1_000_000:\n",
            ),
        ),
    ),
    Mutant(
        "open: how far a life got is told before all have got equally far",
        "comebacks",
        (
            Patch(
                "protocol/membership/resending.py",
                "            return Past(0, source)\n",
                "            return Past(ENDED, source, self._detection.stable(source))\n",
            ),
        ),
        first=51,
    ),
    Mutant(
        "feeds: a dead reader is never forgotten",
        "feeds",
        (
            Patch(
                "protocol/membership/feed.py",
                "            elif patience.owes_too_long(one, now_ns):\n",
                "            elif patience.owes_too_long(one, now_ns // 1_000):\n",
            ),
        ),
        first=77,
    ),
    Mutant(
        "feeds: a reader that is stopped for a second is forgotten, and its sender may leave",
        "feeds",
        (
            Patch(
                "protocol/membership/patience.py",
                "FORGET_NS_MIN: Final = 3_000_000_000\n",
                "FORGET_NS_MIN: Final = 1_000_000_000\n",
            ),
        ),
        first=30120,
        breaks="Sender Reliability",
    ),
    Mutant(
        "feeds: a stream begins one message late",
        "feeds",
        (
            Patch(
                "protocol/streams/intake.py",
                "        if self.endings.begin(inbound, stable):\n",
                "        if self.endings.begin(inbound, stable + 1):\n",
            ),
            Patch(
                "protocol/streams/intake.py",
                'self._tell_progress("join", source, inbound.next)',
                'self._tell_progress("join", source, min(inbound.next, stable + 1))',
            ),
        ),
        first=2,
    ),
    Mutant(
        "feeds: a stream that had ended goes on as if nothing of it had come",
        "feeds",
        (
            Patch(
                "protocol/streams/endings.py",
                "        had = self.ends.get(inbound.source, 0)\n",
                "        had = self.ends.get(inbound.source, 0) // 1_000\n",
            ),
        ),
        first=84,
        breaks="Integrity",
    ),
    Mutant(
        "feeds: of a stream that begins anew nothing comes that changed meanwhile",
        "feeds",
        (
            Patch(
                "protocol/membership/transfer.py",
                "                self._had.reach(source, inbound.had)\n",
                "                self._had.reach(source, inbound.cut)\n",
            ),
        ),
        first=84,
        breaks="State",
    ),
)
