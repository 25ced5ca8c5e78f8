"""Broken variants of the protocol, and how each is hunted (`tests/sim/hunts.py`).

A mutant is a change of text in a file of the package. The copy that has it runs interpreted, in a
process of its own, until a run of it breaks a promise, or after so many that it would have done so
long ago; how fast the machine is does not matter.
"""

from typing import Final

from tests.sim.federation_mutants import FEDERATION_MUTANTS
from tests.sim.variant import Mutant, Patch

MUTANTS: Final = (
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
                "                self._since[source] = int(inbound.had)\n",
                "                self._since[source] = int(inbound.cut)\n",
            ),
        ),
        first=84,
        breaks="State",
    ),
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
    *FEDERATION_MUTANTS,
)
