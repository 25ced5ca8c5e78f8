"""Views on which members agreed are events; others only set the column."""

import pytest

from semcast.errors import InputError
from semcast.ids import Source
from semcast.journal import Header, Journal, JournalObserver, keys_in
from semcast.journal.lives import settle
from semcast.protocol.membership.view import Change, View


def observed(*views: View) -> Journal:
    journal = Journal(Header("views", (), membership="open"))
    observer = JournalObserver(journal, "p1.1", lambda: 5)
    for view in views:
        observer.view(view)
        observer.progress("stable", Source(1, 1), 1, None, 0)
    return journal


def test_an_agreed_view_is_an_event_with_its_content() -> None:
    first = View.alone(Source(1, 1), "one", 77)
    second = first.changed(Change(joins=((2, 3, "two"),)), 1)
    third = second.changed(Change(gone=(2,)), 1)
    journal = observed(first, second, third)
    views = list(journal.select(event="view"))
    assert [(one.sender, one.seq, one.by_seq) for one in views] == [
        ("p77.0", view.number, int(view.digest)) for view in (first, second, third)
    ]
    assert [keys_in(one.key or "") for one in views] == [["p1.1"], ["p1.1", "p2.3"], ["p1.1"]]
    assert [one.view for one in journal] == [1, 1, 2, 2, 3, 3]


def test_a_view_that_nobody_agreed_on_is_no_event() -> None:
    journal = observed(View.first([1, 2], 1))
    assert [(one.event, one.view) for one in journal] == [("stable", 1)]


def test_only_an_open_group_may_begin_with_nobody() -> None:
    with pytest.raises(InputError, match="names no members"):
        Header("closed", ())
    with pytest.raises(InputError, match="membership"):
        Header("odd", ("p1.1",), membership="ajar")


def test_logs_of_an_open_group_are_one_journal_in_which_nobody_was_first() -> None:
    parts = []
    for node in ("p1.1", "p2.1"):
        header = Header("run", (node,), membership="open", node=node, one_order=False)
        parts.append((header, list(Journal(header).events)))
    header, _ = settle(parts)
    assert header.members == ()
    assert header.open
