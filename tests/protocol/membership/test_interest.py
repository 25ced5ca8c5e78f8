"""What an application does not want never waits for it; the rest is as complete as without that."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocol.membership.newcomers import NewcomerGroup

from semcast.errors import ConfigError
from semcast.ids import EVERYBODY, Source
from semcast.obsolescence.tagger import Keys, Replaces
from semcast.protocol.config import MemberConfig
from semcast.protocol.interest import Interest, Only, interest_in
from semcast.protocol.member import Member
from semcast.protocol.membership.view import View
from semcast.protocol.observer import Observer
from semcast.wire.decode import Decoder
from semcast.wire.message import Message

A = Source(1, 1)


class Ignored(Observer):
    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple[str, int]] = []

    def message(self, event: str, message: Message, where: str, _cover: Message | None) -> None:
        if where != "retransmit":
            self.events.append((event, int(message.seq)))


def about(key: bytes) -> Message:
    return Message(A, 1, key + b"payload", len(key), by_key=True)


def pair(only: Only, **given_settings: object) -> tuple[Member, Member, Ignored]:
    """A sender that wants everything, and a reader that does not."""
    view = View.first([1, 2], 0)
    config = MemberConfig(f=0, **given_settings)  # type: ignore[arg-type]
    choosy = MemberConfig(f=0, only=interest_in(only), **given_settings)  # type: ignore[arg-type]
    seen = Ignored()
    return (
        Member(config, A, view, random.Random("1")),
        Member(choosy, Source(2, 1), view, random.Random("2"), seen),
        seen,
    )


def carry(
    sender: Member,
    reader: Member,
    lost: Callable[[int], bool] = lambda _: False,
    second: int = 0,
) -> None:
    """Carry over what was sent, but for some messages, which the reader then asks for."""
    for at_ms in range(0, 900, 5):
        now_ns = second * 1_000_000_000 + at_ms * 1_000_000
        if at_ms > 0 and sender.all_stable():
            return
        for one, other in ((sender, reader), (reader, sender)):
            one.on_timer(now_ns)
            for outgoing in one.datagrams(now_ns):
                found = Decoder().decode(outgoing.frames, one.me).messages
                if at_ms == 0 and any(lost(int(message.seq)) for message in found):
                    continue
                if outgoing.to in (EVERYBODY, int(other.me.sender)):
                    other.receive(outgoing.frames, one.me, now_ns)


def sent_one_by_one(sender: Member, uses: list[Replaces]) -> None:
    for seq, replaces in enumerate(uses, 1):
        sender.multicast(b"%d" % seq, replaces, 0)


def keys_of(names: list[str | None], key: str | None) -> set[int]:
    return {seq for seq, name in enumerate(names, 1) if name == key}


def test_a_prefix_several_and_a_function() -> None:
    cases: list[tuple[Only, list[bytes]]] = [
        ("AA", [b"AAPL", b"AA"]),
        (b"AA", [b"AAPL", b"AA"]),
        (["AA", b"M"], [b"AAPL", b"AA", b"MSFT"]),
        ((), []),
        ("", [b"AAPL", b"AA", b"MSFT", b"IBM"]),
        (lambda key: len(key) == 4, [b"AAPL", b"MSFT"]),
    ]
    for only, wanted in cases:
        interest = interest_in(only)
        assert interest is not None
        found = [key for key in (b"AAPL", b"AA", b"MSFT", b"IBM") if interest.wants(about(key))]
        assert found == wanted
        assert interest.wants(Message(A, 1, b"without a key"))
    assert interest_in(None) is None


def test_several_keys_are_wanted_if_one_is() -> None:
    interest = Interest((b"a",))
    both = Message(A, 1, b"\x01a\x01b!", 4, several=True, by_key=True)
    neither = Message(A, 1, b"\x01b\x01c!", 4, several=True, by_key=True)
    assert interest.wants(both)
    assert not interest.wants(neither)


def test_a_function_that_raises_wants_everything_and_the_world_learns_why() -> None:
    def broken(key: bytes) -> bool:
        return key[100] == 0

    interest = Interest((), broken)
    assert interest.wants(about(b"k"))
    assert interest.wants(about(b"l"))
    assert interest.faults == 2
    assert isinstance(interest.fault, IndexError)


def test_what_is_no_key_is_refused() -> None:
    with pytest.raises(ConfigError, match="only=7"):
        interest_in(["a", 7])  # type: ignore[list-item]


@pytest.mark.parametrize("order", ["fifo", "key"])
def test_it_is_acknowledged_but_never_waits(order: str) -> None:
    """A reader that takes nothing is not held up by what it does not want, nor are the others."""
    sender, reader, seen = pair("want", order=order, delivery_messages=4, window_messages=4)
    for turn in range(10):
        for at in range(3):
            sender.multicast(b"%d.%d" % (turn, at), f"other{at}", 0)
        carry(sender, reader, second=turn)
        assert sender.all_stable()
        sender.take(100, 0)
    assert reader.deliverable() == 0
    assert reader.stats()["delivery_held"] == 0
    sender.multicast(b"this", "want it", 0)
    carry(sender, reader, second=10)
    (message,) = reader.take(10, 0)
    assert message.payload == b"this"
    assert message.skipped == ()
    assert {event for event, _ in seen.events} == {"ignore", "receive", "deliver"}
    assert len([1 for event, _ in seen.events if event == "ignore"]) == 30


@pytest.mark.parametrize("order", ["fifo", "key"])
@pytest.mark.parametrize("reliability", ["group", "sender"])
@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "u", "v", None, "ku", "uv"]), max_size=40), st.data())
def test_order_and_completeness_of_the_rest_are_kept(
    order: str, reliability: str, names: list[str | None], data: st.DataObject
) -> None:
    """As in a group without interest, from which the unwanted were taken out."""
    uses: list[Replaces] = [
        Keys(tuple(name)) if name in ("ku", "uv") and name is not None else name for name in names
    ]
    lost = data.draw(st.sets(st.integers(1, 40), max_size=3))
    got: list[list[tuple[int, tuple[int, ...]]]] = []
    for only in (None, ["a", "b", "k"]):
        sender, reader, _ = pair(only, order=order, reliability=reliability)
        sent_one_by_one(sender, uses)
        carry(sender, reader, lambda seq: seq in lost)
        got.append([(int(one.seq), tuple(one.skipped)) for one in reader.take(100, 0)])
        assert sender.all_stable()
    wanted = {seq for seq, name in enumerate(names, 1) if name not in ("u", "v", "uv")}
    everything, chosen = got
    for of in [wanted] if order == "fifo" else [keys_of(names, key) for key in ("a", "b", None)]:
        expected = [seq for seq, _ in everything if seq in of]
        assert [seq for seq, _ in chosen if seq in of] == expected
    assert {seq for seq, _ in chosen} == {seq for seq, _ in everything if seq in wanted}
    named = [one for _, skipped in chosen for one in skipped]
    assert set(named) <= wanted - {seq for seq, _ in chosen}
    assert len(named) == len(set(named))


def test_many_unwanted_between_two_wanted_are_told_apart_or_not_named() -> None:
    _, reader, _ = pair("a", window_messages=10_000, delivery_messages=10_000)
    last = 9_000
    for seq in range(1, last + 1):
        key = b"a1" if seq in (1, last) else b"a2" if seq % 2 else b"unwanted"
        reader._intake.on_messages([Message(A, seq, key, len(key), by_key=True)], 0)
    taken = reader.take(10, 0)
    assert [int(one.seq) for one in taken] == [8_999, 9_000]
    skipped = taken[0].skipped
    assert all(seq == 1 or seq % 2 for seq in skipped)
    assert len(skipped) == 1_024
    assert list(skipped) == sorted(skipped)


def test_an_unwanted_message_purges_nothing_that_waits() -> None:
    """If it names a wanted one, that is obsolete, but the application would get nothing in its
    place. So it stays, and is taken.
    """
    view = View.first([1, 2], 0)
    config = MemberConfig(f=0, only=Interest((b"want",)), replacement="bitmap")
    reader = Member(config, Source(2, 1), view, random.Random("2"))
    wanted = Message(A, 1, b"want1", 4)
    unwanted = Message(A, 2, b"other2", 5, bitmap=1)
    reader._intake.on_messages([wanted, unwanted], 0)
    assert [int(one.seq) for one in reader.take(10, 0)] == [1]


def test_one_that_was_purged_on_its_way_is_passed_over_though_its_cover_is_not_wanted() -> None:
    """It is obsolete all the same, and nobody has it any more. Since nobody here knows what it was
    about, `skipped` does not name it.
    """
    view = View.first([1, 2], 0)
    config = MemberConfig(f=0, only=Interest((b"want",)), replacement="bitmap")
    reader = Member(config, Source(2, 1), view, random.Random("2"))
    inbound = reader._intake._inbound(A)
    assert inbound is not None
    inbound.cover(1, A, 2)
    unwanted = Message(A, 2, b"other2", 5, bitmap=1)
    reader._intake.on_messages([unwanted, Message(A, 3, b"want3", 4)], 0)
    (message,) = reader.take(10, 0)
    assert (int(message.seq), tuple(message.skipped)) == (3, ())


def test_state_respects_interest_and_a_newcomer_keeps_the_rest_for_others() -> None:
    group = NewcomerGroup(MemberConfig(f=0, only=interest_in("a")), 2)
    for at in range(10):
        group.put(0, b"%d" % at, f"a{at}")
        group.put(0, b"%d" % at, f"b{at}")
    group.settle()
    newcomer = group.come_back(1)
    group.until_whole(newcomer)
    group.settle()
    assert [one.keys for one in group.taken[newcomer.me]] == [(b"a%d" % at,) for at in range(10)]
    assert all(one.state for one in group.taken[newcomer.me])
    assert newcomer.stats()["standing_keys"] == 20
