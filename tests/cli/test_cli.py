"""The command line as a whole: version, help, completion, exit codes, one line for a mistake."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import semcast
from semcast.cli import _errors as errors
from semcast.cli import app, main
from semcast.errors import WindowFullError

COMMANDS = ["purge", "stability", "trigger", "propagation"]

MISTAKES = [
    "--nonsense",
    "nonsense",
    "model nonsense",
    "model purge",
    "model purge --nonsense",
    "model purge nonsense",
    "model purge --r",
    "model purge --r two",
    "model purge --r 2",
    "model purge --r nan",
    "model purge --r 0.5 --d 0.5",
    "model purge --d 5",
    "model purge --r 0.5 --classes 25:0.5",
    "model purge --classes 25",
    "model purge --classes 25:0.5,",
    "model purge --classes 25:0.9,3:0.9",
    "model purge --classes 0:0.9",
    "model purge --pmf no-such-file.csv",
    "model purge --pmf .",
    "model purge --r 0.5 --buffer 0",
    "model purge --r 0.5 --buffer 1.5",
    "model purge --r 0.5 --buffer 99999999999999999999",
    "model purge --r 0.5 --k -1",
    "model purge --r 0.5 --sender-rate 0",
    "model purge --r 0.5 --sender-rate 100 --receiver-rate -4",
    "model purge --r 0.5 --sender-rate inf",
    "model purge --r 0.5 --want-sender-rate 50",
    "model purge --r 0.5 --sender-rate 50 --receiver-rate 10 --want-sender-rate 60",
    "model stability",
    "model stability --branching 4",
    "model stability --branching 0 --height 5",
    "model stability --branching 4 --height 0",
    "model stability --branching 4 --height 5 --leaf-degree 5",
    "model stability --branching 4 --height 500000000",
    "model trigger --buffer 100",
    "model trigger --buffer 100 --rate 2 --rtt 50",
    "model trigger --buffer 100 --rate 0 --rtt 50",
    "model trigger --buffer 100 --rate 0.2 --rtt -1",
    "model trigger --buffer 100 --rate 0.2 --rtt 50 --alpha 2",
    "model trigger --buffer 100 --rate 0.2 --rtt 50 --messages -1",
    "model propagation --members 5",
    "model propagation --members 0 --latency-ms 1 --processing-ms 1 --depth 0",
    "model propagation --members 5 --latency-ms -1 --processing-ms 1 --depth 2",
    "model propagation --members 5 --latency-ms 1 --processing-ms 1 --depth 9",
    "model propagation --members 5 --latency-ms 1 --processing-ms 1 --depth 2 --forwarding-nodes 2",
    "model propagation --members 5 --latency-ms 1 --processing-ms 1 --depth 2 "
    "--broadcast-ms 1 --forwarding-nodes 1",
]


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_gets_one_line_and_exit_code_2(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("semcast: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert "Traceback" not in err


def test_a_mistake_is_named_with_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    main(["model", "purge", "--r", "2"])
    assert capsys.readouterr().err == "semcast: r is 2; it must be between 0 and 1\n"
    main(["model", "purge", "--pmf", "no-such-file.csv"])
    assert capsys.readouterr().err == "semcast: no-such-file.csv: No such file or directory\n"
    main(["model", "purge", "--r", "0.5", "--sender-rat", "5"])
    assert "--sender-rate" in capsys.readouterr().err


def test_version_tells_the_build_and_the_python(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    out = capsys.readouterr().out
    from semcast import ids

    build = "interpreted" if str(ids.__file__).endswith(".py") else "compiled"
    python = ".".join(map(str, sys.version_info[:3]))
    assert out.startswith(f"semcast {semcast.__version__} ({build}, ")
    assert out.endswith(f" {python})\n")


@pytest.mark.parametrize("line", ["", "model"])
def test_a_group_alone_shows_its_help(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 0
    alone = capsys.readouterr()
    assert main([*line.split(), "--help"]) == 0
    assert alone.err == ""
    assert alone.out.strip() == capsys.readouterr().out.strip()
    assert alone.out.startswith("Usage: semcast")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_explains_every_option_and_gives_an_example(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    group = typer.main.get_command(app)
    command = group.commands["model"].commands[name]  # type: ignore[attr-defined]
    assert main(["model", name, "--help"]) == 0
    out = capsys.readouterr().out
    for option in command.params:
        assert option.help
        for spelling in option.opts:
            assert f"  {spelling} " in out
    assert f"  semcast model {name} --" in out
    assert "--json" in out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed(
    shell: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Otherwise typer looks for a shell among the parents of this process; there may be none.
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    assert main(["--show-completion", shell]) == 0
    out = capsys.readouterr().out
    assert "_SEMCAST_COMPLETE" in out
    assert "semcast" in out


def test_completion_completes_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_SEMCAST_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "semcast model pro")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert main([]) == 0
    assert capsys.readouterr().out.split() == ["propagation"]


def raising(error: BaseException) -> object:
    raise error


def test_an_interrupt_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    assert errors.exit_code_of(lambda: raising(KeyboardInterrupt())) == 130
    assert errors.exit_code_of(lambda: raising(typer.Abort())) == 130
    assert capsys.readouterr() == ("", "")


def test_an_interrupt_inside_a_command_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("semcast.model.trigger.trigger", interrupted)
    assert main(["model", "trigger", "--buffer", "100", "--rate", "0.2", "--rtt", "50"]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_commands_own_exit_code_is_kept() -> None:
    assert errors.exit_code_of(lambda: 1) == 1
    assert errors.exit_code_of(lambda: None) == 0
    assert errors.exit_code_of(lambda: raising(SystemExit(3))) == 3


def test_an_error_of_ours_becomes_one_line_however_it_was_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert errors.exit_code_of(lambda: raising(WindowFullError("a\n  b", 1, 1))) == 2
    assert capsys.readouterr().err == "semcast: a b\n"
    assert errors.exit_code_of(lambda: raising(OSError("disk on fire"))) == 2
    assert capsys.readouterr().err == "semcast: disk on fire\n"


def test_a_bug_of_ours_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        errors.exit_code_of(lambda: 1 // 0)


@pytest.mark.parametrize("when", [[], ["-u"]], ids=["at the end", "in the middle"])
def test_a_reader_that_leaves_is_no_error(when: list[str]) -> None:
    """As with `semcast … | head -0`: nothing on stderr, and the code that shells expect."""
    program = "import sys; from semcast.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, *when, "-c", program, "model", "stability", "--branching", "4"]
    with subprocess.Popen(
        [*command, "--height", "5", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 141


def test_a_start_imports_neither_rich_nor_anything_heavy() -> None:
    """What `--version` and completion pay for."""
    program = (
        "import sys; from semcast.cli import main; main(['--version']); "
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(run.stdout.split())
    assert loaded.isdisjoint({"rich", "pyspark", "pandas", "pyarrow", "asyncio", "cryptography"})


def test_json_is_one_object_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pmf = tmp_path / "pmf.json"
    pmf.write_text('{"0": 0.5, "3": 0.5}')
    for line in (
        f"model purge --pmf {pmf} --json",
        "model stability --branching 2 --height 2 --json",
        "model trigger --buffer 100 --rate 0.2 --rtt 50 --json",
        "model propagation --members 5 --latency-ms 1 --processing-ms 1 --depth 2 --json",
        "model epidemic --members 20 --rounds 3 --json",
    ):
        assert main(line.split()) == 0
        out, err = capsys.readouterr()
        assert isinstance(json.loads(out), dict)
        assert err == ""
