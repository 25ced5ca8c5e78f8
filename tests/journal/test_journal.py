"""The journal in memory: numbers in order, names that mean one thing, headers that say it all."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.journal.material import headers

from semcast.errors import InputError
from semcast.ids import ID_MAX, Source
from semcast.journal import (
    Event,
    Header,
    Journal,
    JournalObserver,
    key_text,
    keys_in,
    keys_text,
    node_name,
    parse_node,
)
from semcast.protocol.config import MemberConfig
from semcast.wire.message import Message

HEADER = Header(run="a run", members=("p1.1", "p2.1"))


# -- events ----------------------------------------------------------------------------------------


def test_events_of_a_node_are_numbered_by_themselves() -> None:
    journal = Journal(HEADER)
    for name in ("p1.1", "p2.1", "p1.1", "p1.1", "p2.1"):
        journal.record(7, name, "crash")
    assert [(event.node, event.lsn) for event in journal] == [
        ("p1.1", 1),
        ("p2.1", 1),
        ("p1.1", 2),
        ("p1.1", 3),
        ("p2.1", 2),
    ]


def test_a_number_never_comes_twice_or_late() -> None:
    journal = Journal(HEADER)
    journal.append(Event(1, 5, "p1.1", "crash"))
    journal.append(Event(1, 1, "p2.1", "crash"))
    for lsn in (5, 4):
        with pytest.raises(InputError, match=f"event {lsn} .* comes after its event 5"):
            journal.append(Event(1, lsn, "p1.1", "crash"))
    assert len(journal) == 2
    journal.record(1, "p1.1", "leave")
    assert journal.events[-1].lsn == 6


def test_select_finds_events_by_node_and_kind() -> None:
    journal = Journal(HEADER)
    for at, (name, kind) in enumerate([("p1.1", "safe"), ("p2.1", "safe"), ("p2.1", "view")]):
        journal.record(at, name, kind)
    assert [event.time_ns for event in journal.select(node="p2.1")] == [1, 2]
    assert [event.time_ns for event in journal.select(event="safe")] == [0, 1]
    assert [event.time_ns for event in journal.select("p2.1", "view")] == [2]
    assert [event.time_ns for event in journal.select()] == [0, 1, 2]


# -- names -----------------------------------------------------------------------------------------


@given(st.integers(0, ID_MAX), st.integers(0, ID_MAX))
def test_a_node_is_found_again_by_its_name(sender: int, incarnation: int) -> None:
    assert parse_node(node_name(Source(sender, incarnation))) == (sender, incarnation)


@pytest.mark.parametrize("name", ["", "p1", "p1.", "1.1", "p1.1 ", "p-1.1", "p1.1.1", "q1.1"])
def test_other_names_are_refused_in_one_line(name: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_node(name)
    assert repr(name) in str(refused.value)
    assert "\n" not in str(refused.value)


@given(st.binary(max_size=6), st.binary(max_size=6))
def test_two_keys_never_have_one_name(one: bytes, other: bytes) -> None:
    assert (key_text(one) == key_text(other)) == (one == other)
    # Nor if one of them looks like the name of the other.
    assert key_text(key_text(one).encode()) != key_text(one) or key_text(one).encode() == one


@given(st.sets(st.binary(min_size=1, max_size=6) | st.just(b'keys:["a", "b"]'), max_size=4))
def test_several_keys_are_read_as_they_were_written(keys: set[bytes]) -> None:
    text = keys_text(sorted(keys))
    if not keys:
        assert text is None
    else:
        assert text is not None
        assert keys_in(text) == [key_text(key) for key in sorted(keys)]


@pytest.mark.parametrize("text", ["keys:", "keys:[", "keys:[]", 'keys:"a"', "keys:[1]", "a"])
def test_what_is_no_list_of_keys_is_a_key(text: str) -> None:
    assert keys_in(text) == [text]


# -- the header ------------------------------------------------------------------------------------


@given(headers())
def test_a_header_survives_json(header: Header) -> None:
    assert Header.from_json(header.to_json()) == header


def test_a_header_is_made_of_a_configuration() -> None:
    config = MemberConfig(reliability="sender", k=32, f=2, window_messages=40, deliver_own=False)
    header = Header.of(config, ["p1.1", "p2.1"], run="r", seed="7")
    for name in ("reliability", "purging", "deliver_own", "k", "f", "window_messages"):
        assert getattr(header, name) == getattr(config, name)
    for name in ("delivery_messages", "delivery_bytes", "window_bytes"):
        assert getattr(header, name) == getattr(config, name)
    assert (header.run, header.members, header.seed) == ("r", ("p1.1", "p2.1"), "7")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"run": ""}, "no name"),
        ({"members": ()}, "names no members"),
        ({"members": ("alice",)}, "'alice'"),
        ({"members": ("p1.1", "p1.1")}, "twice"),
        ({"reliability": "some"}, "'some'"),
    ],
)
def test_a_header_that_means_nothing_is_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        replace(HEADER, **changes)


@pytest.mark.parametrize(
    ("json_text", "text"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ("{}", "lacks members and run"),
        ('{"run": "r", "members": ["p1.1"], "colour": 1}', "'colour'"),
        ('{"run": "r", "members": ["p1.1"], "k": true}', "k = True"),
        ('{"run": "r", "members": ["p1.1"], "k": "64"}', "k = '64'.*a int"),
        ('{"run": "r", "members": "p1.1"}', "a list"),
    ],
)
def test_json_that_is_no_header_is_refused_in_one_line(json_text: str, text: str) -> None:
    with pytest.raises(InputError, match=text) as refused:
        Header.from_json(json_text)
    assert "\n" not in str(refused.value)


def test_json_of_a_header_is_one_line_that_others_can_read() -> None:
    assert json.loads(HEADER.to_json())["members"] == ["p1.1", "p2.1"]
    assert "\n" not in HEADER.to_json()


# -- what members tell -----------------------------------------------------------------------------


def observed() -> tuple[Journal, JournalObserver]:
    journal = Journal(HEADER)
    times = iter(range(100, 200))
    return journal, JournalObserver(journal, "p2.1", lambda: next(times))


def test_a_message_is_written_down_whole() -> None:
    journal, observer = observed()
    older = Message(Source(1, 1), 4, b"AAPL101.5", 4, 0, 0, False, 17)
    newer = Message(Source(1, 1), 9, b"AAPL102.5!", 4, 0b10101, 0, False, 40)
    observer.message("multicast", newer, "", None)
    observer.message("purge", older, "delivery", newer)
    assert journal.events == [
        Event(100, 1, "p2.1", "multicast", "p1.1", 9, (1, 3, 5), "AAPL", None, 40, 10),
        Event(101, 2, "p2.1", "purge", "p1.1", 4, None, "AAPL", None, 17, 9, "delivery", "p1.1", 9),
    ]


def test_an_unmarked_message_replaces_nothing_and_says_so() -> None:
    journal, observer = observed()
    observer.message("multicast", Message(Source(3, 2), 1, b"trade"), "", None)
    (event,) = journal
    assert (event.sender, event.obsoletes, event.key, event.rank) == ("p3.2", (), None, None)


def test_a_ranked_message_has_its_rank_even_if_that_is_nothing() -> None:
    journal, observer = observed()
    observer.message("deliver", Message(Source(1, 1), 1, b"bid", 3, 0, 0, True), "", None)
    (event,) = journal
    assert (event.key, event.rank, event.obsoletes) == ("bid", 0, None)


def test_progress_is_written_down_with_its_cover() -> None:
    journal, observer = observed()
    observer.progress("stable", Source(1, 1), 7, None, 0)
    observer.progress("skip", Source(1, 1), 8, Source(3, 2), 5)
    assert [event[:6] for event in journal] == [
        (100, 1, "p2.1", "stable", "p1.1", 7),
        (101, 2, "p2.1", "skip", "p1.1", 8),
    ]
    assert [(event.by_sender, event.by_seq) for event in journal] == [(None, None), ("p3.2", 5)]


# -- federations -----------------------------------------------------------------------------------


def stream(group: str) -> Source:
    """The stream of site 3 to a group: the wire knows it by a number of its own."""
    found = Source(3001 + len(group), 2)
    found.group = group
    found.site = 3
    return found


def test_a_message_of_a_federation_is_its_site_s_and_names_its_group() -> None:
    journal, observer = observed()
    observer.message("deliver", Message(stream("alpha"), 7, b"x"), "", None)
    observer.progress("skip", stream("beta"), 8, stream("beta"), 9)
    assert [(one.sender, one.seq, one.group) for one in journal] == [
        ("p3.2", 7, "alpha"),
        ("p3.2", 8, "beta"),
    ]
    assert [(one.by_sender, one.by_seq) for one in journal] == [(None, None), ("p3.2", 9)]


def test_a_graph_that_is_opened_counts_from_there_on() -> None:
    journal, observer = observed()
    observer.opened(4, ("alpha", "beta"))
    observer.message("receive", Message(stream("alpha"), 7, b"x"), "", None)
    observer.opened(5, ())
    observer.progress("close", stream("alpha"), 5, None, 0)
    assert [(one.event, one.seq, one.key, one.view) for one in journal] == [
        ("open", 4, 'keys:["alpha", "beta"]', 4),
        ("receive", 7, None, 4),
        ("open", 5, None, 5),
        ("close", 5, None, 5),
    ]
    assert [one.sender for one in journal] == [None, "p3.2", None, "p3.2"]


def test_what_only_federations_have_is_in_no_other_header() -> None:
    """Files of other groups are as they were."""
    assert "recovery" not in json.loads(HEADER.to_json())
    federated = replace(HEADER, reliability="federation", recovery="atomic")
    assert Header.from_json(federated.to_json()) == federated
    with pytest.raises(InputError, match="recovery 'perhaps' in the journal's header"):
        replace(federated, recovery="perhaps")
