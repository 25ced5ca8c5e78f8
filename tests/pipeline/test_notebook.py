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

import semcast.pipeline
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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with everything that the page speaks of, small."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{at / 100},x,k{at % 5},q,10" for at in range(MESSAGES)]
    Path("quotes.csv").write_text("\n".join(["time_s,sender,key,kind,size", *rows, ""]))
    shutil.copy(ROOT / "examples/scenarios/fig5-purging.toml", "scenario.toml")
    changes = ["duration_s=2", "warm_up_s=0.5"]
    scenario = load(ROOT / "examples/scenarios/fig5-protocol.toml", changes)
    assert isinstance(scenario, ProtocolScenario)
    outcome = world.run(scenario, 1, name="small")
    assert outcome.journal is not None
    write_journal(outcome.journal, "journals")
    return tmp_path


def test_the_page_runs_as_printed(spark: SparkSession, folder: Path) -> None:
    assert spark is not None  # the functions find it
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert names["traffic"].messages == MESSAGES
    assert names["buffers"].final.k >= 5
    assert f"k={names['buffers'].final.k}," in names["buffers"].group_config
    assert names["failed"] == 0
    assert [one.seeds for one in names["found"].summary.values()] == [2] * len(
        names["found"].summary
    )
    assert (folder / "sweep/results").is_dir()
    (run,) = names["answers"].runs
    assert run.run == "small"
    assert run.sent > 0
    assert set(names["answers"].tables) == {"throughput", "purging", "latency", "blocked"}
    assert len(names["latency"]) == len(names["answers"].tables["latency"]) > 0
    assert names["verdict"].ok


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


def test_mistakes_are_refused_before_spark_is_asked_for(folder: Path) -> None:
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
