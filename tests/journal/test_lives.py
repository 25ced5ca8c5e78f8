"""Logs of single lives as one journal: what is added follows from them, and nothing is excused."""

from dataclasses import replace

import pytest

from semcast.check import History, Missing, check_all, check_run
from semcast.check.facts import nodes_in
from semcast.errors import InputError
from semcast.journal import Event, Header, Journal
from semcast.journal.lives import END, EVICT, GAP, Part, settle
from semcast.journal.parquet import _merged

HEADER = Header(run="live", members=("p1.1", "p2.1"), group="quotes", one_order=False)


class Log:
    """The log of one life, written by hand; times are the same everywhere and go on by one."""

    now_ns = 0

    def __init__(self, node: str, joined: bool = False, **header: object) -> None:
        self.header = replace(HEADER, node=node, name=f"name of {node}", joined=joined, **header)  # type: ignore[arg-type]
        self.events: list[Event] = []

    def tell(
        self, event: str, sender: str | None = None, seq: int | None = None, **more: object
    ) -> "Log":
        Log.now_ns += 1
        lsn = self.events[-1].lsn + 1 if self.events else 1
        self.events.append(
            Event(Log.now_ns, lsn, self.header.node, event, sender, seq, **more)  # type: ignore[arg-type]
        )
        return self

    def sends(self, seq: int, *obsoletes: int) -> "Log":
        me = self.header.node
        self.tell("multicast", me, seq, obsoletes=obsoletes, sent_ns=Log.now_ns + 1, size=8)
        return self.gets(me, seq)

    def gets(self, sender: str, seq: int, *obsoletes: int) -> "Log":
        self.tell("receive", sender, seq, obsoletes=obsoletes, sent_ns=Log.now_ns, size=8)
        return self.tell("deliver", sender, seq)

    @property
    def part(self) -> Part:
        return self.header, self.events


def judged(*logs: Log) -> tuple[Journal, History]:
    header, settled = settle([log.part for log in logs])
    journal = Journal(header)
    for event in _merged(settled):
        journal.append(event)
    return journal, History(journal)


def names(history: History) -> set[str]:
    return {history.run.nodes[n] for n in nodes_in(history.run.correct)}


def test_lives_that_ended_when_all_was_stable_are_judged() -> None:
    one, two = Log("p1.1"), Log("p2.1")
    one.sends(1)
    two.gets("p1.1", 1)
    one.tell("stable", "p1.1", 1)
    two.tell(END, seq=0)
    one.tell(END, seq=0)
    journal, history = judged(one, two)
    assert check_all(history).ok
    assert names(history) == {"p1.1", "p2.1"}
    assert journal.header.names == ("p1.1 name of p1.1", "p2.1 name of p2.1")
    assert journal.header.node == ""


def test_a_message_that_a_judged_life_did_not_get_is_a_violation() -> None:
    one, two = Log("p1.1"), Log("p2.1")
    one.sends(1).tell("stable", "p1.1", 1)
    two.tell(END, seq=0)
    one.tell(END, seq=0)
    _, history = judged(one, two)
    assert not check_all(history).ok


def test_a_message_that_is_lost_for_good_is_a_violation_although_it_is_never_stable() -> None:
    """It is never stable because it is lost: that must not excuse anybody."""
    one, two, three = Log("p1.1"), Log("p2.1"), Log("p3.1")
    for seq in (1, 2, 3):
        one.sends(seq)
        three.gets("p1.1", seq)
    two.gets("p1.1", 1)
    for log in (one, two, three):
        log.tell("stable", "p1.1", 1)
        log.tell(END, seq=0)
    _, history = judged(one, two, three)
    assert names(history) == {"p1.1", "p2.1", "p3.1"}
    report = check_run(history)
    assert (report.not_at_rest, report.counts["Agreement"]) == ("", 2)
    assert report.missing == [Missing("p2.1", "p1.1", 2, (2, 3))]
    assert "p2.1 lacks p1.1#2, p1.1#3" in str(report).splitlines()


def test_what_a_killed_sender_left_with_some_of_those_who_ended_is_missing_at_the_others() -> None:
    """The killed one owes nothing itself, and is owed nothing."""
    one, two, three = Log("p1.1"), Log("p2.1"), Log("p3.1")
    one.sends(1)
    two.gets("p1.1", 1).sends(1)
    three.gets("p1.1", 1).gets("p2.1", 1).gets("p1.1", 2)
    two.tell(END, seq=0)
    three.tell(END, seq=0)
    _, history = judged(one, two, three)
    assert names(history) == {"p2.1", "p3.1"}
    assert check_run(history).missing == [Missing("p2.1", "p1.1", 1, (2,))]


def test_the_same_logs_without_their_ends_were_cut_short_and_nothing_is_missed() -> None:
    one, two = Log("p1.1"), Log("p2.1")
    one.sends(1).sends(2)
    two.gets("p1.1", 1)
    report = check_run(judged(one, two)[1])
    assert report.ok
    assert report.not_at_rest.startswith("nobody is left to judge")
    assert "Agreement" not in report.judged


@pytest.mark.parametrize("why", ["others sent more", "with messages waiting", "put out"])
def test_a_life_that_ended_early_owes_nothing(why: str) -> None:
    one, two = Log("p1.1"), Log("p2.1")
    if why == "with messages waiting":
        one.sends(1)
        two.tell("receive", "p1.1", 1, obsoletes=(), size=8)
        one.tell("stable", "p1.1", 1)
        two.tell(END, seq=1)
    elif why == "put out":
        one.sends(1)
        two.tell(END, seq=0)
        one.tell(EVICT, "p2.1")
    else:
        two.tell(END, seq=0)
        one.sends(1)
    one.tell(END, seq=0)
    journal, history = judged(one, two)
    assert check_all(history).ok
    assert names(history) == {"p1.1"}
    assert [event.node for event in journal.select(event="leave")] == ["p2.1"]


def test_a_log_without_an_end_is_that_of_a_crash_and_its_last_messages_are_restored() -> None:
    """The killed life wrote down its first message; two more are known by who received them."""
    one, two, three = Log("p1.1"), Log("p2.1"), Log("p3.1")
    one.sends(1)
    two.gets("p1.1", 1).gets("p1.1", 3, 1)
    three.gets("p1.1", 1).gets("p1.1", 2).gets("p1.1", 3, 1)
    two.tell(END, seq=0)
    three.tell(END, seq=0)
    journal, history = judged(one, two, three)
    assert check_all(history).ok
    mine = list(journal.select(node="p1.1"))
    assert [event.event for event in mine][-3:] == ["multicast", "multicast", "crash"]
    assert [event.seq for event in mine if event.event == "multicast"] == [1, 2, 3]
    assert next(e for e in mine if e.seq == 3).obsoletes == (1,)
    assert not history.run.correct & history.run.only("p1.1")


def test_what_a_whole_log_does_not_have_was_never_multicast() -> None:
    one, two = Log("p1.1"), Log("p2.1")
    one.sends(1).tell(END, seq=0)
    two.gets("p1.1", 1).gets("p1.1", 2).tell(END, seq=0)
    report = check_all(judged(one, two)[1])
    assert report.counts["Integrity"] == 1


def test_members_without_a_log_are_known_by_what_others_received() -> None:
    two = Log("p2.1")
    two.gets("p1.1", 1).gets("p1.1", 2).tell(END, seq=0)
    journal, history = judged(two)
    assert check_all(history).ok
    assert journal.header.members == ("p2.1",)
    assert [event.seq for event in journal.select("p1.1", "multicast")] == [1, 2]
    assert not history.run.correct & history.run.only("p1.1")


def test_nothing_after_a_gap_is_judged() -> None:
    """Behind the gap there is a delivery of something that was never received."""
    one, two = Log("p1.1"), Log("p2.1", left_out=7)
    one.sends(1).sends(2).tell(END, seq=0)
    two.gets("p1.1", 1).tell(GAP, seq=7).tell("deliver", "p1.1", 2).tell(END, seq=0)
    journal, history = judged(one, two)
    assert check_all(history).ok
    assert journal.header.left_out == 7
    assert [event.event for event in journal.select("p2.1")] == ["receive", "deliver", "crash"]


def test_who_came_later_is_no_member_from_the_start() -> None:
    one, late = Log("p1.1"), Log("p2.2", joined=True)
    one.sends(1).sends(2)
    late.tell("join", "p1.1", 2).gets("p1.1", 2)
    one.tell("stable", "p1.1", 2)
    one.tell(END, seq=0)
    late.tell(END, seq=0)
    journal, history = judged(one, late)
    assert journal.header.members == ("p1.1",)
    assert check_all(history).ok
    assert names(history) == {"p1.1", "p2.2"}


def test_if_only_those_who_came_later_wrote_the_others_were_there_first() -> None:
    late = Log("p2.2", joined=True)
    late.tell("join", "p1.1", 2).gets("p1.1", 2).tell(END, seq=0)
    journal, history = judged(late)
    assert journal.header.members == ("p1.1", "p2.1")
    assert check_all(history).ok


def test_members_that_are_set_up_differently_make_no_journal() -> None:
    with pytest.raises(InputError, match=r"order is 'key' in the journal of p2\.1"):
        settle([Log("p1.1").part, Log("p2.1", order="key").part])


def test_bounds_are_the_widest_and_promises_the_weakest() -> None:
    one = Log("p1.1", window_messages=8, f=2, deliver_own=True)
    two = Log("p2.1", window_messages=16, f=1, deliver_own=False)
    header, _ = settle([one.part, two.part])
    assert (header.window_messages, header.f, header.deliver_own) == (16, 1, False)


def test_what_came_only_as_state_of_one_that_was_killed_was_multicast() -> None:
    """It was killed before it wrote anything; a newcomer got its value as part of the state."""
    reader = Log("p1.1").tell("join", "p2.1", 3)
    reader.tell("state", "p2.1", 2, obsoletes=(0,), key="k", size=8)
    reader.gets("p2.1", 3).tell(END, seq=0)
    journal, history = judged(reader)
    assert [(one.node, one.seq, one.key) for one in journal if one.event == "multicast"] == [
        ("p2.1", 2, "k"), ("p2.1", 3, None),
    ]  # fmt: skip
    assert check_all(history).ok


@pytest.mark.parametrize("killed", [True, False])
def test_only_a_sender_that_was_killed_may_have_replaced_what_nobody_knows(killed: bool) -> None:
    """Numbers 2 and 3 were replaced before they were sent: 2 by 3, and 3 by 4."""
    sender = Log("p2.1").sends(1)
    reader = Log("p1.1").gets("p2.1", 1)
    reader.tell("skip", "p2.1", 2, by_sender="p2.1", by_seq=3)
    reader.tell("skip", "p2.1", 3, by_sender="p2.1", by_seq=4)
    if not killed:
        sender.sends(4).tell(END, seq=0)
    reader.gets("p2.1", 4).tell(END, seq=0)
    _, history = judged(reader, sender)
    broken = {one.property for one in check_run(history).violations}
    assert ("Accounting" in broken) != killed


@pytest.mark.parametrize("skips", [True, False])
def test_what_one_got_and_another_skipped_is_a_hole_only_if_nothing_was_said(skips: bool) -> None:
    """Number 2 reached one of them; what replaced it, its sender wrote down, and was killed."""
    first = Log("p1.1").gets("p3.1", 1).gets("p3.1", 2).gets("p3.1", 4).tell(END, seq=0)
    second = Log("p2.1").gets("p3.1", 1)
    if skips:
        second.tell("skip", "p3.1", 2, by_sender="p3.1", by_seq=3)
        second.tell("skip", "p3.1", 3, by_sender="p3.1", by_seq=4)
    second.gets("p3.1", 4).tell(END, seq=0)
    _, history = judged(first, second)
    found = check_run(history).counts["Stream Completeness"]
    assert found == (0 if skips else 1)
