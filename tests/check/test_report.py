"""The report: what was promised is judged, counted and shown, and nothing else."""

import pytest
from tests.check.log import Log

from semcast.check import PROPERTIES, check_all, check_safety, judge
from semcast.errors import InputError

SAFETY = ["Integrity", "FIFO Order", "Stream Completeness", "Accounting", "Flow Bounds"]


def test_what_is_promised_depends_on_the_reliability() -> None:
    """SRM Figures 2 and 3"""
    assert list(check_all(Log(reliability="group").journal).judged) == [
        *SAFETY,
        "Safe Purging",
        "Stability",
        "Validity",
        "Agreement",
        "FIFO Completeness",
    ]
    assert list(check_all(Log(reliability="sender").journal).judged) == [
        *SAFETY,
        "Stability",
        "Sender Reliability",
    ]


def test_what_is_promised_depends_on_who_comes_and_goes() -> None:
    """Views are of open groups, and state of groups in which newcomers get it."""
    closed = set(check_all(Log().journal).judged)
    assert closed.isdisjoint({"View Sequence", "State"})
    assert set(check_all(Log(membership="open").journal).judged) == closed | {"View Sequence"}
    assert set(check_all(Log(state="keys").journal).judged) == closed | {"State"}
    feed = Log(membership="open", reliability="sender")
    assert "View Sequence" not in check_all(feed.journal).judged


def test_safety_and_liveness_together_are_everything() -> None:
    log = Log()
    log.multicast("p1#1")
    log.deliver("p2", "p1#1")
    safety = check_safety(log.journal)
    liveness = judge(log.journal, [one for one in PROPERTIES if not one.safety])
    whole = check_all(log.journal)
    assert whole.violations == safety.violations + liveness.violations
    assert whole.judged == safety.judged | liveness.judged


def test_a_report_counts_and_names_what_is_broken() -> None:
    log = Log()
    log.multicast("p1#1")
    log.take("p1", "p1#1")
    log.take("p2", "p1#1")
    log.deliver("p2", "p1#1")
    report = check_all(log.journal)
    assert not report.ok
    assert report.counts["Integrity"] == 1
    assert report.counts["Agreement"] == 1
    assert report.judged["Integrity"] == 4
    assert ["Integrity", "4", "1"] in report.rows()
    text = str(report)
    assert "Integrity, at 0.000 ms: p2.1 delivers p1.1#1 again" in text.splitlines()
    assert text.splitlines()[0].split() == ["property", "judged", "violations"]


def test_a_report_shows_the_first_violations_and_says_how_many_more() -> None:
    log = Log()
    for seq in range(1, 31):
        log.deliver("p2", f"p1#{seq}")
    text = str(check_safety(log.journal))
    # Thirty deliveries of what nobody multicast, thirty of what was never received.
    assert text.splitlines()[-1] == "and 40 more"


def test_an_event_about_no_message_is_said_plainly() -> None:
    log = Log()
    log.world("p1", "deliver")
    with pytest.raises(
        InputError, match=r"event 1 \(deliver\) of p1\.1 does not say which message"
    ):
        check_all(log.journal)
    log = Log()
    log.journal.record(1, "p1.1", "purge", "p1.1", 1, by_seq=2)
    with pytest.raises(InputError, match="both of the cover"):
        check_all(log.journal)


def test_a_node_with_another_kind_of_name_is_said_plainly() -> None:
    log = Log()
    log.journal.record(1, "alice", "crash")
    with pytest.raises(InputError, match=r"'alice'.*write p<sender>\.<incarnation>"):
        check_all(log.journal)
