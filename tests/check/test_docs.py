"""The documents say of each property who promises it and when it is judged, as the code does."""

import re
from pathlib import Path

import pytest
from tests.check.log import HEADER, Log

from semcast.check import PROPERTIES, Property, check_all

DOCS = Path(__file__).parents[2] / "docs"
NAMES = {one.name for one in PROPERTIES}


def rows_of(page: str) -> dict[str, list[str]]:
    """The cells of every row that begins with a property, but for those that only count."""
    rows = {}
    for line in (DOCS / page).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and cells[0] in NAMES and len(cells) > 4:
            rows[cells[0]] = cells[1:]
    return rows


def said(one: Property) -> tuple[str, str, str]:
    """When it is judged, whether of live journals, and by whom it is promised."""
    live = "no" if one.one_order else "yes"
    several = {2: "both", 4: "all"}
    who = several.get(len(one.reliability), one.reliability[0])
    return ("always" if one.safety else "in the end", live, who)


def test_the_page_on_verify_lists_what_is_judged_of_which_journals() -> None:
    rows = rows_of("pipeline/verify.md")
    assert list(rows) == [one.name for one in PROPERTIES]
    for one in PROPERTIES:
        reliability, order, membership, judged, live = rows[one.name]
        which = (
            "open" if one.membership == ("open",) else "both, with state" if one.state else "both"
        )
        assert membership == which, one.name
        assert (judged, live, reliability) == said(one), one.name
        assert order == ("both" if len(one.order) == 2 else one.order[0]), one.name


def test_the_page_on_checkers_lists_the_same() -> None:
    rows = rows_of("design/checkers.md")
    assert list(rows) == [one.name for one in PROPERTIES]
    words = {"on every prefix": "always", "in the end": "in the end"}
    promised = {"S-RM": "group", "S-SM": "sender", "both": "both", "all": "all", "PSRM": "gossip"}
    promised["PROP"] = "federation"
    for one in PROPERTIES:
        who, judged, live = rows[one.name][-3:]
        told = (words[judged], live, promised[re.split(r"[, ]", who)[0]])
        assert told == said(one), one.name


@pytest.mark.parametrize("reliability", ["sender", "group", "gossip", "federation"])
@pytest.mark.parametrize("order", ["fifo", "key"])
@pytest.mark.parametrize("one_order", [False, True])
@pytest.mark.parametrize("membership", ["closed", "open"])
@pytest.mark.parametrize("state", ["none", "keys"])
def test_a_report_lists_what_the_page_on_verify_says(
    reliability: str, order: str, one_order: bool, membership: str, state: str
) -> None:
    """Journals of live members are those without one order."""
    journal = Log(
        HEADER,
        reliability=reliability,
        order=order,
        one_order=one_order,
        membership=membership,
        state=state,
    ).journal
    expected = [
        name
        for name, (who, which, groups, _, live) in rows_of("pipeline/verify.md").items()
        if who in ("all", reliability, "" if reliability in ("gossip", "federation") else "both")
        and which in ("both", order)
        and (groups in ("both", membership) or (groups == "both, with state" and state == "keys"))
        and (one_order or live == "yes")
    ]
    assert list(check_all(journal).judged) == expected
