"""The journals of real runs through the checkers, with something in them to judge."""

from collections.abc import Sequence
from pathlib import Path

from tests.live.groups import Nodes, wait_until

from semcast.check import PROPERTIES, History, check_all
from semcast.journal import read_journal, runs_in


def leave_all(nodes: Nodes, names: Sequence[str] = "") -> None:
    """When everything is stable and taken, so that whoever leaves has ended at rest."""
    leaving = [nodes[name] for name in names or nodes.names]
    for node in leaving:
        node.call("drain")
    for node in leaving:
        wait_until(
            lambda node=node: node.call("stats")["delivery_held"] == 0,  # type: ignore[misc]
            f"{node.name} takes what is left",
        )
    for node in leaving:
        node.call("leave")


def check_journals(folder: Path, rested: int) -> list[History]:
    """Every journal below a folder keeps what was promised, and not because nothing was.

    So many members, at least, ended at rest: what is owed in the end is owed by those alone, and
    where there are none, every such property holds. Where there are, all of them were judged.
    """
    found = [History(read_journal(folder, run)) for run in runs_in(folder)]
    assert found, f"no journal in {folder}"
    for history in found:
        report = check_all(history)
        assert report.ok, str(report)
        assert history.header.left_out == 0, f"{history.header.left_out} events are missing"
        assert history.counts["deliver"] > 0, "nothing was delivered"
        for one in PROPERTIES:
            # Without purging there is nothing to judge of it, and without newcomers no state.
            always = "purge" not in one.about and not one.state
            if one.name in report.judged and (one.safety or rested) and always:
                assert report.judged[one.name] > 0, f"nothing was judged by {one.name}\n{report}"
        at_rest = history.run.correct.bit_count()
        assert at_rest >= rested, f"{at_rest} members ended at rest, and not {rested}\n{report}"
    return found
