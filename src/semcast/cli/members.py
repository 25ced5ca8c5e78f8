"""`semcast members`: a group in; who is in it and how they are doing, out. It asks and does not
join.
"""

from typing import TYPE_CHECKING, Any, Final

from semcast.cli._group import SOME_DID_NOT, Target, group_command
from semcast.cli._output import JsonOption, print_json, print_table, print_words

if TYPE_CHECKING:
    from semcast.live.meeting.asker import Answers


_SEEN: Final = frozenset(("state", "slow", "since_ns", "address"))


@group_command(asking=True)
def members(target: Target, as_json: JsonOption = False) -> int:
    """Ask who is in a group and how everybody is doing. Whoever asks is no member.

    The exit code is 1 if somebody who should be there does not answer.

    \b
    Example:
      semcast members quotes --secret-file secret.txt
      semcast members quotes --secret-file secret.txt --json
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    with target.asker() as asker:
        answers = asker.ask("members", target.timeout_s)
    found = rows_of(answers)
    federation = federation_of(answers)
    if as_json:
        print_json(
            {
                "group": target.group,
                "members": found,
                "not_answering": list(answers.missing),
                "sample": answers.sample,
                "federation": federation,
            }
        )
    else:
        _print(target.group, found, federation)
        if answers.sample:
            print_words("The group gossips: these are those that were found, and may not be all.")
        if answers.missing:
            print_words(f"No answer from {', '.join(answers.missing)}.")
    return SOME_DID_NOT if answers.missing else 0


def rows_of(answers: "Answers") -> list[dict[str, Any]]:
    """One row for each member: as it says itself, or as others see it if it does not answer."""
    rows: dict[str, dict[str, Any]] = {}
    for answer in answers.by_name.values():
        seen = [one for one in answer.body.get("members", []) if isinstance(one, dict)]
        for view in seen:
            name = str(view.get("name"))
            row = rows.setdefault(name, {"name": name, "answers": name in answers.by_name})
            # A member knows best how it is doing, and others know best how they see it.
            knows = _SEEN if name != answer.name else view.keys() - _SEEN
            for key, value in view.items():
                if key in knows or key not in row:
                    row[key] = value
    return [rows[name] for name in sorted(rows)]


def federation_of(answers: "Answers") -> dict[str, Any] | None:
    """What the sites of a federation say of its graph: its number, the manager, and for each site
    its groups, its parent and the groups whose primary destination it is. None of other groups.
    """
    said = {
        name: facts
        for name, answer in sorted(answers.by_name.items())
        if isinstance(facts := answer.body.get("federation"), dict)
    }
    if not said:
        return None
    newest = max(said.values(), key=lambda facts: int(facts.get("graph", 0)))
    sites = {
        name: {one: facts.get(one) for one in ("groups", "parent", "primary_of", "graph")}
        for name, facts in said.items()
    }
    return {
        "graph": newest.get("graph"),
        "manager": newest.get("manager"),
        "groups": newest.get("known_groups"),
        "sites": sites,
    }


def _print(
    group: str, found: list[dict[str, Any]], federation: dict[str, Any] | None = None
) -> None:
    columns = ["member", "is", "at", "sent", "taken", "waiting", "behind", "replaced"]
    rows = _rows(found)
    if federation is None:
        print_table(f"{group}: {len(rows)} members", columns, rows)
        return
    of_site = {name: _place(facts) for name, facts in federation["sites"].items()}
    placed = [(*row, *of_site.get(row[0], ("", "", ""))) for row in rows]
    columns = ["site", *columns[1:], "groups", "parent", "primary of"]
    print_table(f"{group}: {len(rows)} sites, graph {federation['graph']}", columns, placed)
    print_words(f"The manager is {federation['manager'] or 'not known'}.")


def _place(facts: dict[str, Any]) -> tuple[str, str, str]:
    """Where a site stands in the graph, for people."""
    groups, primary = facts.get("groups") or [], facts.get("primary_of") or []
    return ", ".join(map(str, groups)), str(facts.get("parent") or ""), ", ".join(map(str, primary))


def _rows(found: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    return [
        (
            row["name"],
            str(row["state"]) + (" and slow" if row["slow"] else ""),
            str(row["address"]).replace(" port ", ":"),
            f"{row['sent_messages']:,}",
            f"{row['delivered_messages']:,}",
            f"{row['held_messages']:,}",
            f"{row['behind_ms']:,.0f} ms",
            f"{row['purge_ratio']:.0%}",
        )
        for row in found
    ]
