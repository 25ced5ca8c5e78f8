"""`semcast top`: a group in; a live table of members, rates, buffers, purges and lag, out."""

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from semcast.cli._group import SOME_DID_NOT, Target, group_command
from semcast.cli._output import JsonOption, print_json
from semcast.errors import NoAnswerError

if TYPE_CHECKING:
    from rich.console import Console, Group

    from semcast.live.meeting.asker import Answers, Asker

# By its name in the JSON: the counter whose growth in a second is shown.
RATES: Final = {
    "sent_messages_s": "multicast",
    "delivered_messages_s": "delivered",
    "purged_messages_s": "purged_delivery",
    "received_bytes_s": "bytes_in",
    "sent_bytes_s": "bytes_out",
}
LEVELS: Final = {
    "waiting_messages": "delivery_held",
    "retained_messages": "retained_held",
    "early_messages": "early_held",
    "behind_ms": "behind_ms",
}


@group_command(asking=True)
def top(
    target: Target,
    interval: Annotated[
        float, typer.Option("--interval", min=0.05, max=3600, help="Seconds between two looks.")
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, print, and end.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Watch a group: who sends, takes and purges how much, and who is behind.

    Asks; joins not. `--once` and `--json` look for one interval and end; the exit code is then 1
    if somebody who should be there does not answer.

    \b
    Example:
      semcast top quotes --secret-file secret.txt
      semcast top quotes --secret-file secret.txt --json
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    with target.asker() as asker:
        if not (once or as_json):
            return _watch(asker, target, interval)
        looks = _Looks(asker, target.timeout_s)
        looks.look()
        time.sleep(interval)
        missing = looks.look()
    if as_json:
        print_json(
            {
                "group": target.group,
                "interval_s": looks.seconds,
                "members": looks.rows,
                "not_answering": list(missing),
            }
        )
    else:
        from rich.console import Console

        console = Console(highlight=False)
        console.print(_table(console, target.group, looks.rows, missing))
    return SOME_DID_NOT if missing else 0


class _Looks:
    """What follows from two looks, one after the other."""

    def __init__(self, asker: "Asker", timeout_s: float) -> None:
        self._asker = asker
        self._timeout_s = timeout_s
        self._before: dict[str, dict[str, float]] = {}
        self._at_s = time.monotonic()
        self.seconds = 0.0
        self.rows: list[dict[str, Any]] = []

    def look(self) -> tuple[str, ...]:
        """Ask everybody; says who did not answer."""
        answers = self._asker.ask("stats", self._timeout_s)
        now_s = time.monotonic()
        self.seconds, self._at_s = now_s - self._at_s, now_s
        found = _stats(answers)
        self.rows = [
            self._row(name, stats, self._before.get(name)) for name, stats in sorted(found.items())
        ]
        self._before = found
        return answers.missing

    def _row(
        self, name: str, stats: dict[str, float], before: dict[str, float] | None
    ) -> dict[str, Any]:
        row: dict[str, Any] = {"name": name}
        for shown, key in RATES.items():
            grown = 0.0 if before is None else stats.get(key, 0) - before.get(key, 0)
            row[shown] = max(0.0, grown) / max(self.seconds, 1e-9)  # it may have restarted
        for shown, key in LEVELS.items():
            row[shown] = stats.get(key, 0)
        if "graph" in stats:  # of a site of a federation
            row["graph"] = int(stats["graph"])
        row["refused_datagrams"] = sum(
            value for key, value in stats.items() if key.startswith("refused_")
        )
        return row


def _stats(answers: "Answers") -> dict[str, dict[str, float]]:
    found = {}
    for name, answer in answers.by_name.items():
        stats = answer.body.get("stats")
        if isinstance(stats, dict):
            found[name] = {
                str(key): float(value)
                for key, value in stats.items()
                if isinstance(value, (int, float))
            }
    return found


def _watch(asker: "Asker", target: Target, interval: float) -> int:
    from rich.console import Console
    from rich.live import Live

    looks = _Looks(asker, target.timeout_s)
    missing = looks.look()  # nobody there at all is an error; later it is news
    console = Console(highlight=False)
    shown = _table(console, target.group, looks.rows, missing)
    with Live(shown, console=console, auto_refresh=False) as live:
        while True:
            time.sleep(interval)
            try:
                missing = looks.look()
            except NoAnswerError:
                missing = tuple(row["name"] for row in looks.rows)
                looks.rows = []
            live.update(_table(console, target.group, looks.rows, missing), refresh=True)


_COLUMNS: Final = (
    "member", "sent/s", "taken/s", "purged/s", "in kB/s", "out kB/s", "waiting", "kept",
    "behind ms",
)  # fmt: skip


def _table(
    console: "Console", group: str, rows: list[dict[str, Any]], missing: tuple[str, ...]
) -> "Group":
    from semcast.cli._tables import fitted

    shown = []
    for row in rows:
        rates = [f"{row[name] / (1000 if 'bytes' in name else 1):,.0f}" for name in RATES]
        levels = [row["waiting_messages"], row["retained_messages"], row["behind_ms"]]
        shown.append([row["name"], *rates, *(f"{level:,.0f}" for level in levels)])
    shown += [[name, "no answer"] for name in missing]
    graphs = sorted({row["graph"] for row in rows if "graph" in row})
    title = f"{group}, graph {' and '.join(map(str, graphs))}" if graphs else group
    return fitted(console, title, _COLUMNS, shown)
