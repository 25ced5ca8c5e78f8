"""Order "key" from one member to another: whoever reads to the end has the newest of every key."""

import random

from hypothesis import given
from hypothesis import strategies as st

from semcast.check import check_safety
from semcast.ids import Source
from semcast.journal import Header, Journal, JournalObserver
from semcast.obsolescence import Keys, Replaces
from semcast.protocol.config import MemberConfig
from semcast.protocol.member import Member
from semcast.protocol.membership.view import View
from semcast.wire.decode import Decoder
from semcast.wire.encode import FrameWriter
from semcast.wire.message import Message

Said = tuple[bytes, Replaces]
NINE_TRADES: list[Said] = [(b"trade", None)] * 9


def pair(life: int = 1, k: int = 64, into: Journal | None = None) -> tuple[Member, Member, Journal]:
    """A sender and a reader; and all that both tell."""
    config = MemberConfig(order="key", reliability="sender", k=k)
    journal = Journal(Header.of(config, ("p1.1", "p2.1"), run="by key")) if into is None else into
    members = []
    for source in (Source(1, life), Source(2, 1)):
        observer = JournalObserver(journal, f"p{source.sender}.{source.incarnation}", lambda: 0)
        stream = random.Random(f"by key/{source}")
        view = View(1, (1, 2), (life, 1), config.f)
        members.append(Member(config, source, view, stream, observer))
    return members[0], members[1], journal


def send(sender: Member, reader: Member, said: list[Said]) -> None:
    for payload, replaces in said:
        sender.multicast(payload, replaces, 0)
    for outgoing in sender.datagrams(0):
        reader.receive(outgoing.frames, sender.me, 0)


def state(messages: list[Message]) -> dict[str, str]:
    """What somebody has who sets "a=1 b=1" as it comes."""
    words = " ".join(message.payload.decode() for message in messages).split()
    return dict(word.split("=") for word in words if "=" in word)


def test_who_reads_to_the_end_has_the_newest_of_every_key_though_some_come_together() -> None:
    sender, reader, journal = pair()
    send(sender, reader, [*NINE_TRADES, (b"a=1 b=1", Keys(("a", "b"))), (b"a=2", "a")])
    assert state(reader.take(100, 0)) == {"a": "2", "b": "1"}
    assert check_safety(journal).ok


@given(
    st.lists(st.sets(st.sampled_from("abc")), max_size=40),
    st.sampled_from([0, 1, 3, 64]),
    st.integers(1, 9),
)
def test_whatever_comes_together_the_state_in_the_end_is_the_newest(
    key_sets: list[set[str]], k: int, pace: int
) -> None:
    sender, reader, journal = pair(k=k)
    said: list[Said] = [
        (
            " ".join(f"{key}={number}" for key in sorted(keys)).encode(),
            Keys(tuple(keys)) if keys else None,
        )
        for number, keys in enumerate(key_sets)
    ]
    taken = []
    for at in range(0, len(said), pace):
        send(sender, reader, said[at : at + pace])
        taken += reader.take(1, 0)
    taken += reader.take(100, 0)
    newest = {key: str(number) for number, keys in enumerate(key_sets) for key in keys}
    assert state(taken) == newest
    report = check_safety(journal)
    assert report.ok, str(report)


def test_what_it_is_about_is_told_to_the_application_and_to_the_journal() -> None:
    sender, reader, journal = pair()
    send(sender, reader, [(b"both", Keys(("b", "a"))), (b"one", "a"), (b"none", None)])
    told = {message.payload: (message.key, message.keys) for message in reader.take(100, 0)}
    assert told == {b"both": (b"", (b"a", b"b")), b"one": (b"a", (b"a",)), b"none": (b"", ())}
    written = {event.key for event in journal.select(event="deliver", node="p2.1")}
    assert written == {'keys:["a", "b"]', "a", None}


# -- lives -----------------------------------------------------------------------------------------


def test_a_value_of_a_former_life_does_not_come_last() -> None:
    sender, reader, journal = pair()
    again, _, _ = pair(life=2, into=journal)
    send(sender, reader, [(b"a=1", "a"), (b"b=1 c=1", Keys(("b", "c")))])
    send(again, reader, [(b"b=2", "b"), (b"a=2", "a")])
    assert state(reader.take(100, 0)) == {"a": "2", "b": "2", "c": "1"}
    assert check_safety(journal).ok


def test_nor_if_it_waits_for_room() -> None:
    """The reader's buffer is full; what is older has the room that there is first."""
    config = MemberConfig(order="key", reliability="sender", delivery_messages=2)
    first = View.first([1, 2, 3], config.f)
    views = [first, first.with_life(1, 2)]
    reader = Member(config, Source(2, 1), first, random.Random("reader"))
    lives = [
        Member(config, Source(1, life), view, random.Random(life))
        for life, view in enumerate(views, 1)
    ]
    other = Member(config, Source(3, 1), first, random.Random("other"))
    send(other, reader, [(b"x", "x"), (b"y", "y")])
    send(lives[0], reader, [(b"a=1", "a")])
    send(lives[1], reader, [(b"a=2", "a")])
    # This replaces two, so that there is room for one more; the next to come is of the newer life.
    send(other, reader, [(b"z", Keys(("x", "y", "z")))])
    send(lives[1], reader, [(b"b=2", "b")])
    taken = []
    for _ in range(3):
        taken += reader.take(2, 0)
    assert [message.payload for message in taken if b"a" in message.payload] == [b"a=1", b"a=2"]
    assert state(taken) == {"a": "2", "b": "2"}


def test_what_comes_only_after_a_newer_life_s_value_was_taken_is_not_lost() -> None:
    """It comes last then: nobody can tell whether there is more of a life that is over."""
    sender, _, _ = pair()
    again, _, _ = pair(life=2)
    sender.multicast(b"a=1", "a", 0)
    late = sender.datagrams(0)
    other = Source(3, 1)
    config = MemberConfig(order="key", reliability="group")
    view = View.first([1, 2, 3], config.f)
    reader = Member(config, Source(2, 1), view, random.Random("reader"))
    send(again, reader, [(b"a=2", "a")])
    assert [message.payload for message in reader.take(100, 0)] == [b"a=2"]
    writer = FrameWriter(other, 1300)
    for message in Decoder().decode(late[0].frames, sender.me).messages:
        writer.add_message(message)
    reader.receive(writer.take(), other, 0)
    assert [message.payload for message in reader.take(100, 0)] == [b"a=1"]
