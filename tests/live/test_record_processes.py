"""Recording, for real: members in processes of their own, killed and restarted; then the checkers.

S-RM on loopback, with purging (SRM Figures 3 and 4).
"""

from pathlib import Path

import pytest
from tests.live.company import wait_until
from tests.live.processes import SECRET, Member, members, new_group

from semcast.check import History, check_all
from semcast.check.facts import nodes_in
from semcast.journal import read_journal, runs_in

pytest.importorskip("pyarrow")
NAMES = ["a", "b", "c"]


def traffic(name: str, first: int, count: int) -> list[list[str | None]]:
    """Quotes of three keys, every fourth message a trade; the last is one too."""
    found: list[list[str | None]] = []
    for at in range(first, first + count):
        key = f"k{at % 3}" if at % 4 and at < first + count - 1 else None
        found.append([f"{name}{at}", key])
    return found


def begun(folder: Path) -> list[Path]:
    """The journals in which something is written by now."""
    return [path for path in folder.glob("run=*/*.arrows") if path.stat().st_size > 0]


def test_a_group_in_which_a_process_is_killed_and_restarted_is_one_journal_that_passes(
    tmp_path: Path,
) -> None:
    settings = {"record": str(tmp_path), "group": new_group()}
    with members(NAMES, **settings) as group:
        for one in group.values():
            one.do("send", messages=traffic(one.name, 0, 200))
        for one in group.values():
            one.begin("receive_until", text="c199")
        for one in group.values():
            one.end()
        wait_until(lambda: len(begun(tmp_path)) == 3)
        group["c"].do("send", messages=traffic("c", 200, 50))
        group["c"].kill()  # what it wrote down last is known by what others received
        group["a"].do("send", messages=traffic("a", 200, 50))
        group["c"].close()
        group["c"] = Member(
            **settings, secret=SECRET, members=NAMES, interface="lo", transport="multicast",
            join_timeout_s=60.0, name="c",
        )  # fmt: skip
        group["c"].wait_joined()
        group["b"].do("send", messages=traffic("b", 200, 50))
        group["b"].do("drain")
        group["a"].do("drain")
        group["a"].do("send", messages=[["last", None]])
        group["a"].do("drain")
        for one in group.values():
            one.begin("receive_until", text="last")
        for one in group.values():
            one.end()
        for one in group.values():
            one.do("leave")
    assert len(runs_in(tmp_path)) == 1
    journal = read_journal(tmp_path)
    report = check_all(journal)
    assert report.ok, str(report)
    assert report.judged["Agreement"] > 300
    lives = {line.split()[0]: line.split()[1] for line in journal.header.names}
    assert sorted(lives.values()) == ["a", "b", "c", "c"]
    assert len(journal.header.members) == 3
    crashed = [event.node for event in journal.select(event="crash")]
    assert [lives[node] for node in crashed] == ["c"]
    # Those that ended well are judged for what they owe: the killed life is not.
    history = History(journal)
    assert {lives[history.run.nodes[n]] for n in nodes_in(history.run.correct)} == set(NAMES)
    assert not history.run.correct & history.run.only(crashed[0])
    assert journal.header.left_out == 0


def test_a_process_that_is_killed_for_good_leaves_a_journal_that_passes(tmp_path: Path) -> None:
    """Nothing becomes stable any more, so only what must hold at every moment is judged."""
    with members(NAMES, record=str(tmp_path)) as group:
        for one in group.values():
            one.begin("send", messages=traffic(one.name, 0, 300))
        group["a"].end()
        group["b"].kill()
        group["c"].end()
        for one in (group["a"], group["c"]):
            one.do("send", messages=[[f"{one.name} last", None]])
        for one in (group["a"], group["c"]):
            one.do("receive_until", text="c last" if one.name == "a" else "a last")
        for one in (group["a"], group["c"]):
            one.do("leave", drain_s=0)
    journal = read_journal(tmp_path)
    report = check_all(journal)
    assert report.ok, str(report)
    assert report.judged["Accounting"] > 600
