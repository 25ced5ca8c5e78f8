"""The functions for notebooks: the page about them runs as printed; without pyspark they say so."""

import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.cli.tables import watched

import semcast.pipeline
from semcast import cli
from semcast.cli._verdicts import report
from semcast.errors import ConfigError, InputError
from semcast.journal import write_journal
from semcast.sim import world
from semcast.sim.scenario import ProtocolScenario, load

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/pipeline/notebook.md"
FUNCTIONS = ("profile", "plan", "sweep", "analyse", "verify")
MESSAGES = 400
# Said in other words, or in the docstring of the module.
_EXPLAINED = {
    "profile": ("spark",),
    "plan": ("spark", "receiver_rate_msg_s", "receiver_share"),
    "sweep": ("spark", "scenario", "seeds"),
    "analyse": ("spark", "journal", "runs"),
    "verify": ("spark", "journal", "runs"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that the page speaks of, small."""
    folder = tmp_path_factory.mktemp("notebook")
    rows = [f"{at / 100},x,k{at % 5},q,10" for at in range(MESSAGES)]
    (folder / "quotes.csv").write_text("\n".join(["time_s,sender,key,kind,size", *rows, ""]))
    shutil.copy(ROOT / "examples/scenarios/fig5-purging.toml", folder / "scenario.toml")
    changes = ["duration_s=2", "warm_up_s=0.5"]
    scenario = load(ROOT / "examples/scenarios/fig5-protocol.toml", changes)
    assert isinstance(scenario, ProtocolScenario)
    outcome = world.run(scenario, 1, name="small")
    assert outcome.journal is not None
    write_journal(outcome.journal, folder / "journals")
    return folder


@pytest.fixture(scope="module")
def page(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """All names that are known after the code of the page has run, in that folder."""
    assert spark is not None  # the functions find it
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
            exec(compile(block, str(PAGE), "exec"), names)
    return names


def test_the_page_runs_as_printed(page: dict[str, Any], folder: Path) -> None:
    assert page["traffic"].messages == MESSAGES
    assert page["buffers"].final.k is None
    assert f"delivery_messages={page['buffers'].final.buffer_messages}," in (
        page["buffers"].group_config
    )
    assert page["failed"] == 0
    assert {one.seeds for one in page["found"].summary.values()} == {2}
    assert (folder / "sweep/results").is_dir()
    (run,) = page["answers"].runs
    assert run.run == "small"
    assert run.sent > 0
    assert set(page["answers"].tables) == {"throughput", "purging", "latency", "blocked"}
    assert len(page["latency"]) == len(page["answers"].tables["latency"]) > 0
    assert page["verdict"].ok


def test_what_commands_print_of_it_is_readable_at_80_columns(
    page: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """The tables of commands on Spark; tests/cli/test_tables.py has the others."""
    with watched() as seen:
        cli.profile._print(page["traffic"])
        cli.plan._print(page["buffers"])
        cli.sweep._print(page["found"])
        cli.analyse._print_first(page["answers"])
        assert report(Path("journals"), [page["verdict"]], 0, per_run=False, as_json=False) == 0
    assert len(seen.tables) == 10
    seen.assert_readable(capsys.readouterr().out)


def test_every_function_is_exported_with_types_and_words() -> None:
    assert set(semcast.pipeline.__all__) == {*FUNCTIONS, "TraceOptions"}
    for name in FUNCTIONS:
        function = getattr(semcast.pipeline, name)
        signature = inspect.signature(function)
        assert function.__doc__
        assert signature.return_annotation is not inspect.Signature.empty
        explained = _EXPLAINED.get(name, ())
        for parameter in signature.parameters.values():
            assert parameter.annotation is not inspect.Parameter.empty
            is_explained = f"`{parameter.name}`" in function.__doc__ or parameter.name in explained
            assert is_explained, f"{name}: {parameter.name}"


def test_mistakes_are_refused_before_spark_is_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)

    def never() -> SparkSession:
        pytest.fail("Spark was asked for")

    pipeline = semcast.pipeline
    nowhere = folder / "nowhere"
    with pytest.raises(InputError, match="No such file"):
        pipeline.profile(nowhere, spark=never)
    with pytest.raises(InputError, match="between 0 and 1"):
        pipeline.plan("quotes.csv", receiver_share=0.5, blocked_share_max=2, spark=never)
    with pytest.raises(InputError, match="receiver_rate_msg_s or receiver_share"):
        pipeline.plan("quotes.csv", spark=never)
    with pytest.raises(InputError, match="no setting nonsense"):
        pipeline.sweep("scenario.toml", "nonsense=1", spark=never)
    with pytest.raises(ConfigError, match="'nonsense' is no table"):
        pipeline.analyse("journals", ["nonsense"], spark=never)
    with pytest.raises(InputError, match="no such folder"):
        pipeline.analyse(nowhere, spark=never)
    with pytest.raises(ConfigError, match="no property 'fairness'"):
        pipeline.verify("journals", ["fairness"], spark=never)
    with pytest.raises(InputError, match="no journal of run 'other'"):
        pipeline.verify("journals", runs=["other"], spark=never)


def test_without_pyspark_only_a_call_fails_and_says_what_to_install() -> None:
    script = (
        "import sys\n"
        "sys.modules['pyspark'] = None\n"
        "import semcast.pipeline\n"
        "from semcast.errors import PipelineError\n"
        f"for name in {FUNCTIONS}:\n"
        "    try:\n"
        "        getattr(semcast.pipeline, name)('anything')\n"
        "    except PipelineError as error:\n"
        "        assert \"pip install 'semcast[spark]'\" in str(error), error\n"
        "    else:\n"
        "        sys.exit(f'{name} did not complain')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr + ended.stdout
