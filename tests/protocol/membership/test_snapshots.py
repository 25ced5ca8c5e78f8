"""A snapshot covers the newcomer's cut, and the stream begins exactly after it."""

import pytest
from tests.protocol.membership.newcomers import NewcomerGroup

from semcast.errors import ConfigError, RemoteProtocolError
from semcast.ids import Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.member import Member
from semcast.protocol.membership.snapshots import Fetch
from semcast.wire.families.state import PIECE, SNAPSHOT, Chunk
from semcast.wire.message import Message


class Counters(NewcomerGroup):
    """Applications that remember every message they took, which is what they save."""

    def __init__(self, config: MemberConfig, members: int, seed: int = 0) -> None:
        self.saved: list[int] = []
        self.padding = b""
        super().__init__(config, members, seed)

    def _settle(self, member: Member) -> None:
        self._restore(member)
        super()._settle(member)
        if member.transfer.wants_snapshot:
            self.saved.append(int(member.me.sender))
            rows = [b"%d.%d" % (one.source.sender, one.seq) for one in self.taken[member.me]]
            member.transfer.provide(b" ".join(rows) + self.padding, member.transfer.taken())
        self._restore(member)

    def _restore(self, member: Member) -> None:
        if member.transfer.snapshot is not None:
            assert member.deliverable() == 0, "nothing comes before the snapshot"
        snapshot = member.transfer.take_snapshot()
        if snapshot is not None:
            for row in snapshot.rstrip(b"x").split():
                sender, seq = map(int, row.split(b"."))
                source = Source(sender, 1)
                self.taken[member.me].append(Message(source, seq, b""))

    def rows(self, member: Member) -> list[tuple[int, int]]:
        return [(int(one.source.sender), int(one.seq)) for one in self.taken[member.me]]


@pytest.mark.parametrize("order", ["fifo", "key"])
@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_snapshot_and_stream_are_everything_and_nothing_twice(order: str, loss: float) -> None:
    config = MemberConfig(f=0, state="snapshot", order=order)
    group = Counters(config, 3, seed=1)
    group.padding = b"x" * 200_000
    for turn in range(50):
        group.put(0, b"%d" % turn, None)
    group.settle()
    group.loss = loss
    newcomer = group.come_back(2)
    for turn in range(3_000):
        if turn < 200:
            group.put(turn % 2, b"live", None)
        group.run(1)
        if turn >= 200 and not newcomer.transfer.pending:
            break
    group.settle()
    rows = group.rows(newcomer)
    assert sorted(rows) == sorted(set(rows))
    assert set(rows) == set(group.rows(group.members[1]))
    for sender in (0, 1):
        seqs = [seq for one, seq in rows if one == sender]
        assert seqs == list(range(1, len(seqs) + 1))
    assert len(group.saved) >= 1


def test_an_application_that_has_not_taken_enough_saves_nothing_yet() -> None:
    group = Counters(MemberConfig(f=0, state="snapshot"), 2)
    group.put(0, b"first", None)
    group.settle()
    group.asleep.add(0)
    group.put(0, b"second", None)
    group.run(200)
    newcomer = group.come_back(1)
    group.run(1_000)
    assert newcomer.transfer.pending
    assert not group.members[0].transfer.wants_snapshot
    group.asleep.clear()
    group.until_whole(newcomer)
    group.settle()
    assert sorted(group.rows(newcomer)) == [(0, 1), (0, 2)]


class SlowSavers(Counters):
    """Applications that take a while to save, in which the group goes on."""

    def __init__(self, config: MemberConfig, members: int, seed: int = 0) -> None:
        self._saving: dict[Source, tuple[int, bytes, dict[Source, int]]] = {}
        super().__init__(config, members, seed)

    def _settle(self, member: Member) -> None:
        self._restore(member)
        super(Counters, self)._settle(member)
        self._restore(member)
        begun = self._saving.get(member.me)
        if begun is None and member.transfer.wants_snapshot:
            rows = [b"%d.%d" % (one.source.sender, one.seq) for one in self.taken[member.me]]
            taken = member.transfer.taken()
            self._saving[member.me] = (self.now_ns + 1_500_000_000, b" ".join(rows), taken)
        elif begun is not None and begun[0] <= self.now_ns:
            del self._saving[member.me]
            self.saved.append(int(member.me.sender))
            member.transfer.provide(begun[1], begun[2])


def test_who_asks_while_a_snapshot_is_saved_gets_a_later_one() -> None:
    """What is being saved may lack messages that are before the beginning of its streams."""
    group = SlowSavers(MemberConfig(f=0, state="snapshot"), 3, seed=2)
    group.put(0, b"first", None)
    group.settle()
    first = group.come_back(1)
    newcomers = [first]
    for turn in range(400):
        group.put(0, b"%d" % turn, None)
        group.run(5)
        if turn == 200:
            newcomers.append(group.come_back(2))
    for newcomer in newcomers:
        group.until_whole(newcomer)
    group.settle()
    for newcomer in newcomers:
        rows = group.rows(newcomer)
        assert sorted(rows) == sorted(set(rows))
        assert [seq for sender, seq in rows if sender == 0] == list(range(1, 402))


@pytest.mark.parametrize("seed", range(4))
def test_if_one_application_does_not_receive_another_saves(seed: int) -> None:
    group = Counters(MemberConfig(f=0, state="snapshot"), 3, seed=seed)
    group.put(1, b"first", None)
    group.settle()
    group.asleep.add(0)
    group.put(1, b"second", None)
    group.run(200)
    newcomer = group.come_back(2)
    group.until_whole(newcomer)
    assert group.saved == [1]
    assert newcomer.transfer.complete
    assert group.rows(newcomer) == [(1, 1), (1, 2)]


def test_if_nobody_ever_saves_the_newcomer_goes_on_and_knows_it() -> None:
    group = Counters(MemberConfig(f=0, state="snapshot"), 3)
    group.put(0, b"first", None)
    group.run(200)
    group.asleep.update((0, 1))
    group.put(0, b"second", None)
    group.run(200)
    newcomer = group.come_back(2)
    group.until_whole(newcomer, 60_000)
    assert newcomer.transfer.nobody_saved
    assert newcomer.stats()["state_incomplete"] == 1
    group.put(0, b"third", None)
    assert group.run(5_000, lambda: bool(group.rows(newcomer)))
    assert group.rows(newcomer)[-1] == (0, 3)
    # Whoever comes later is told that the only one who saves has not got everything.
    later = group.come_back(1)
    group.until_whole(later, 60_000)
    assert group.saved == [2]
    assert later.stats()["state_incomplete"] == 1


def test_if_a_snapshot_is_no_longer_there_a_later_one_comes_from_its_beginning() -> None:
    fetch = Fetch(1_000)
    fetch.on_piece(piece(0, 16, bytes(8)), Source(1, 1), 0)
    fetch.on_piece(piece(8, 16, b"snapshot", number=2), Source(1, 1), 0)
    assert (fetch.number, fetch.offset) == (2, 0)
    fetch.on_piece(piece(0, 16, bytes(8), number=2), Source(1, 1), 0)
    assert fetch.result() == (b"snapshot", {})


def test_a_provider_that_has_forgotten_a_snapshot_sends_the_next_one() -> None:
    group = Counters(MemberConfig(f=0, state="snapshot"), 2)
    group.padding = b"x" * 3_000_000
    group.put(0, b"first", None)
    group.settle()
    newcomer = group.come_back(1)
    provider = group.members[0]
    assert group.run(5_000, lambda: newcomer.transfer.fetched_bytes > 0)
    assert newcomer.transfer.pending
    # As if it had left and come back, in the eyes of the one that provides.
    provider.transfer.install(provider.view.without(1), group.now_ns)
    provider.transfer.install(provider.view, group.now_ns)
    group.until_whole(newcomer, 2_000)
    assert group.saved == [0, 0]
    assert group.rows(newcomer) == [(0, 1)]


def test_if_the_one_that_saves_dies_another_begins_anew() -> None:
    group = Counters(MemberConfig(f=1, state="snapshot"), 4, seed=3)
    group.padding = b"x" * 3_000_000
    for turn in range(5):
        group.put(1, b"%d" % turn, None)
    group.settle()
    newcomer = group.come_back(3)
    assert group.run(5_000, lambda: len(group.saved) == 1)
    group.run(1)
    assert newcomer.transfer.pending
    (dead,) = group.saved
    del group.members[dead]
    for member in group.members.values():
        member.remove(dead, group.now_ns)
    group.until_whole(newcomer)
    group.settle()
    assert sorted(group.rows(newcomer)) == [(1, seq) for seq in range(1, 6)]
    assert len(group.saved) == 2


def test_who_has_no_snapshots_says_so() -> None:
    group = Counters(MemberConfig(f=0, state="keys"), 2)
    group.put(0, b"v", "k")
    group.settle()
    group.members.pop(1)
    view = group.members[0].view.with_life(1, 2)
    config = MemberConfig(f=0, state="snapshot")
    newcomer = Member(config, Source(1, 2), view, group.stream, None, True)
    group.members[1] = newcomer
    group.until_whole(newcomer)
    assert newcomer.transfer.snapshot is None
    assert newcomer.stats()["state_incomplete"] == 1


def test_a_snapshot_that_is_too_large_is_refused() -> None:
    group = Counters(MemberConfig(f=0, state="snapshot", standing_bytes_max=10), 2)
    with pytest.raises(ConfigError, match="snapshot of 11 bytes; standing_bytes_max is 10"):
        group.members[0].transfer.provide(bytes(11), {})


def piece(offset: int, total: int, content: bytes, number: int = 1) -> Chunk:
    marks = SNAPSHOT | PIECE
    return Chunk(marks, 1, 0, Source(1, 1), number, number, number, content, offset, total)


def test_pieces_of_another_snapshot_are_ignored() -> None:
    fetch = Fetch(1_000)
    fetch.on_piece(piece(0, 16, bytes(8), number=2), Source(1, 1), 0)
    fetch.on_piece(piece(8, 16, b"\xff" * 8), Source(1, 1), 0)
    fetch.on_piece(piece(8, 16, b"\xff" * 8, number=3), Source(2, 1), 0)
    assert not fetch.complete
    assert fetch.offset == 8
    fetch.on_piece(piece(8, 16, b"snapshot", number=2), Source(1, 1), 0)
    assert fetch.result() == (b"snapshot", {})


@pytest.mark.parametrize(
    ("total", "content"),
    [
        (4, bytes(4)),
        (8, b"\x01" + bytes(7)),
        (32, b"\x01" + bytes(7) + b"\xff" * 24),
        (8, b"\xff" * 8),
    ],
)
def test_a_snapshot_that_makes_no_sense_is_refused(total: int, content: bytes) -> None:
    fetch = Fetch(1_000)
    fetch.on_piece(piece(0, total, content), Source(1, 1), 0)
    with pytest.raises(RemoteProtocolError, match="snapshot of"):
        fetch.result()


def test_a_snapshot_that_would_not_fit_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="snapshot 1 of 9000000 bytes"):
        Fetch(1_000).on_piece(piece(0, 9_000_000, b"x"), Source(1, 1), 0)
