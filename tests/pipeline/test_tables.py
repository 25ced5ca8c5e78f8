"""Tables of commands on Spark are readable at 80 columns; tests/cli has the other commands."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.cli.tables import watched

from semcast.cli import main
from semcast.journal import write_journal
from semcast.sim import world
from semcast.sim.scenario import ProtocolScenario, load

SCENARIOS = Path(__file__).parents[2] / "examples/scenarios"


def run_journal(folder: Path) -> Path:
    """Journals of one short run."""
    scenario = load(SCENARIOS / "fig5-protocol.toml", ["duration_s=2", "warm_up_s=0.5"])
    assert isinstance(scenario, ProtocolScenario)
    outcome = world.run(scenario, 1, name="a-run-of-quotes")
    assert outcome.journal is not None
    write_journal(outcome.journal, folder)
    return folder


def test_tables_of_commands_on_spark(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark is not None  # the commands find it
    journals = run_journal(tmp_path / "journals")
    trace = tmp_path / "quotes-of-a-day.csv"
    rows = [f"{at / 100},some-sender,key-{at % 5},q,10" for at in range(400)]
    trace.write_text("\n".join(["time_s,sender,key,kind,size", *rows, ""]))
    grid = "r=0.25,0.5 delay_ms=15,25 duration_s=2 warm_up_s=0.5"
    commands = [
        ["analyse", journals, "--all"],
        ["verify", journals],
        ["profile", trace],
        ["plan", trace, "--receiver-share", "0.6", "--seeds", "2"],
        ["ingest", journals, "--out", tmp_path / "lake"],
        ["sweep", SCENARIOS / "fig5-purging.toml", "--grid", grid, "--seeds", "2",
         "--out", tmp_path / "sweep"],
    ]  # fmt: skip
    for command in commands:
        with watched() as seen:
            assert main([str(word) for word in command]) == 0, capsys.readouterr().err
        seen.assert_readable(capsys.readouterr().out)
