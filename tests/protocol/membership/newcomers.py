"""Groups in memory whose members come back as newcomers; what these get is held against a model.

The model knows every message that was ever sent. It says what stands of each source at a cut, and
what must and what may be in the state of a newcomer that begins there.
"""

from collections import defaultdict
from typing import Final

from tests.protocol.stability.member_group import Hears, MemberGroup

from semcast.ids import Source
from semcast.obsolescence.relation import obsoletes, outranks
from semcast.obsolescence.tagger import Replaces
from semcast.protocol.config import MemberConfig
from semcast.protocol.member import Member
from semcast.protocol.stability.followed import ENDED
from semcast.wire.message import Message


def standing(sent: list[Message], cut: int) -> dict[int, Message]:
    """What stands of one source at a cut, by the definition: of each key the newest, of each ranked
    key the highest, and nothing that a later bitmap names.
    """
    values: dict[bytes, Message] = {}
    bids: dict[bytes, Message] = {}
    until = [message for message in sent if message.seq <= cut]
    for message in until:
        for named in [one for one in until if message.bitmap and obsoletes(message, one)]:
            for held in (values, bids):
                for key in [key for key, one in held.items() if one is named]:
                    del held[key]
        if message.ranked:
            if message.key not in bids or outranks(message, bids[message.key]):
                bids[message.key] = message
        else:
            values.update(dict.fromkeys(message.keys, message))
    return {int(one.seq): one for one in [*values.values(), *bids.values()]}


class NewcomerGroup(MemberGroup):
    """A group that remembers what was sent, what each application took, and where it began."""

    def __init__(self, config: MemberConfig, members: int, seed: int = 0) -> None:
        self.history: Final[dict[Source, list[Message]]] = defaultdict(list)
        self.taken: Final[dict[Source, list[Message]]] = defaultdict(list)
        self.cuts: Final[dict[Source, dict[Source, int]]] = defaultdict(dict)
        # Members whose applications take nothing.
        self.asleep: Final[set[int]] = set()
        super().__init__(config, members, seed)

    def put(self, sender: int, payload: bytes, replaces: Replaces) -> bool:
        """Multicast if there is room."""
        member = self.members[sender]
        if not member.can_multicast(len(payload)):
            return False
        message = member.multicast(payload, replaces, self.now_ns)
        self.history[member.me].append(message)
        self.sent[member.me] += 1
        self._settle(member)
        return True

    def on_join(self, hears: Hears, source: Source, begins: int) -> None:
        super().on_join(hears, source, begins)
        self.cuts[hears.me].setdefault(source, ENDED if begins == ENDED else begins - 1)

    def _settle(self, member: Member) -> None:
        if int(member.me.sender) not in self.asleep:
            while member.deliverable():
                self.taken[member.me] += member.take(100, self.now_ns)
        elif member.deliverable():
            self._send_all(member)
            return
        super()._settle(member)

    def _send_all(self, member: Member) -> None:
        """As `_settle`, without taking."""
        me = int(member.me.sender)
        for outgoing in member.datagrams(self.now_ns):
            for to in self._first.members if outgoing.to == -1 else (outgoing.to,):
                if to != me and (me, to) not in self.cut:
                    self._send(member.me, to, outgoing.frames)

    def at_rest(self) -> bool:
        """Also, nobody waits for its state."""
        pending = any(member.transfer.pending for member in self.members.values())
        return not pending and super().at_rest()

    def until_whole(self, newcomer: Member, for_ms: float = 20_000) -> None:
        """Until a newcomer has its state."""
        assert self.run(for_ms, lambda: not newcomer.transfer.pending), newcomer.stats()

    def followed_by(self, sender: int) -> int:
        """How many sources a member follows."""
        return self.members[sender].stats()["sources_followed"]

    # -- the model ---------------------------------------------------------------------------------

    def check(self, newcomer: Member) -> None:
        """What a newcomer's application got is right, if nothing is missing any more."""
        got = self.taken[newcomer.me]
        state = [message for message in got if message.state]
        stream = [message for message in got if not message.state]
        begun: set[Source] = set()
        for message in got:
            assert not message.state or message.source not in begun, "state comes first"
            if not message.state:
                begun.add(message.source)
        names = [(message.source, int(message.seq)) for message in state]
        assert len(names) == len(set(names)), "nothing twice"
        for source in self.history:
            seqs = [seq for one, seq in names if one == source]
            assert seqs == sorted(seqs), "in order"
        cuts = self.cuts[newcomer.me]
        live: dict[Source, list[int]] = defaultdict(list)
        by_key: dict[tuple[Source, bytes], list[int]] = defaultdict(list)
        for message in stream:
            live[message.source].append(int(message.seq))
            by_key[message.source, message.key].append(int(message.seq))
        assert all(seqs == sorted(seqs) for seqs in by_key.values()), "in order of each key"
        for source, sent in self.history.items():
            gone = not self.config.group_reliable and not newcomer.view.holds(source)
            if source == newcomer.me or gone:
                continue
            cut = cuts.get(source, ENDED)
            stood = standing(sent, cut)
            came = {int(one.seq) for one in state if one.source == source}
            assert came <= set(stood), f"{source}: {came - set(stood)} did not stand at {cut}"
            for seq, message in stood.items():
                if seq not in came:
                    self._excused(message, sent[cut:], state, stream)
            assert sorted(live[source]) == sorted(set(live[source])), "nothing twice"
            if self.config.order == "fifo":
                assert live[source] == sorted(live[source]), "in order"
            assert all(seq > cut for seq in live[source]), "the stream begins after the cut"

    def _excused(
        self, message: Message, later: list[Message], state: list[Message], live: list[Message]
    ) -> None:
        """What stood and did not come was replaced after the cut, or by a higher bid."""
        newer = [
            one
            for one in later
            if obsoletes(one, message) or (not message.ranked and set(one.keys) & set(message.keys))
        ]
        beaten = [one for one in [*state, *live] if message.ranked and obsoletes(one, message)]
        assert newer or beaten, f"{message!r} stood and is missing"

    def values(self, life: Source) -> dict[tuple[Source, bytes], bytes]:
        """The newest value of every key that an application knows, by source."""
        found: dict[tuple[Source, bytes], bytes] = {}
        for message in self.taken[life]:
            for key in message.keys:
                found[message.source, key] = message.payload
        return found

    def true_values(self) -> dict[tuple[Source, bytes], bytes]:
        """The same of all messages that were ever sent."""
        return {
            (source, key): message.payload
            for source, sent in self.history.items()
            for message in sent
            for key in message.keys
        }
