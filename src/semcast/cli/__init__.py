"""The command line: arguments in, an exit code out. One file per command.

    0    fine
    1    a check found a violation, or a member did not answer or do what it was asked
    2    bad input: one line on stderr says what and why
    130  interrupted

To add a command, write it in its own file and register it below. Import inside the command
whatever only that command needs: every start of `semcast` pays for the imports of this file.
"""

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from semcast.cli import (
    analyse,
    check,
    demo,
    doctor,
    ingest,
    keys,
    members,
    model_epidemic,
    model_propagation,
    model_purge,
    model_stability,
    model_trigger,
    monitor,
    plan,
    profile,
    record,
    replay,
    send,
    sim_exhaust,
    sim_explore,
    sim_run,
    sweep,
    tail,
    top,
    verify,
)
from semcast.cli._errors import exit_code_of
from semcast.cli._program import PROGRAM, spelled

app = typer.Typer(
    name=PROGRAM,
    help="Semantically reliable multicast: one slow reader slows nobody, "
    "and nothing that still matters is lost.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
model_app = typer.Typer(
    help="What to expect before anything is run: the papers' closed forms, and gossip in rounds.",
    short_help="What to expect, by formulas and in rounds.",
    rich_markup_mode=None,
)
model_app.command("purge", short_help="Purge ratio, throughput and the buffer it takes.")(
    model_purge.purge
)
model_app.command("stability", short_help="Rounds and messages of five stability protocols.")(
    model_stability.stability
)
model_app.command("trigger", short_help="When to start a stability round.")(model_trigger.trigger)
model_app.command("propagation", short_help="Messages and delay of ordered multicasts.")(
    model_propagation.propagation
)
model_app.command("epidemic", short_help="Gossip with purging, for up to millions of members.")(
    model_epidemic.epidemic
)
sim_app = typer.Typer(
    help="Whole groups in virtual time: the same protocol code, a simulated network, any fault.",
    short_help="Run groups in virtual time.",
    rich_markup_mode=None,
)
sim_app.command("run", short_help="Run a scenario and check what it promised.")(sim_run.sim_run)
sim_app.command("explore", short_help="Random groups under random faults, all checked.")(
    sim_explore.sim_explore
)
sim_app.command("replay", short_help="One case of the explorer again.")(sim_explore.sim_replay)
sim_app.command("exhaust", short_help="Every run of a very small group, all checked.")(
    sim_exhaust.sim_exhaust
)
app.command("demo", short_help="A live group with one slow reader, explained by Spark.")(demo.demo)
app.command("doctor", short_help="What the network of this machine can do, and what to mend.")(
    doctor.doctor
)
keys_app = typer.Typer(
    help="Make a group's secret, and change it while the group runs: install, use, remove.",
    short_help="Make and change a group's secret.",
    rich_markup_mode=None,
)
keys_app.command("new", short_help="Make a secret.")(keys.new)
keys_app.command("install", short_help="All members learn another secret.")(keys.install)
keys_app.command("use", short_help="All members seal with another key.")(keys.use)
keys_app.command("remove", short_help="All members forget a key.")(keys.remove)
keys_app.command("list", short_help="Which keys each member has.")(keys.list_keys)
app.command("send", short_help="Send text or lines of stdin to a group.")(send.send)
app.command("tail", short_help="Print a group's messages as they come.")(tail.tail)
app.command("members", short_help="Who is in a group, and how they are doing.")(members.members)
app.command("top", short_help="Watch a group: rates, buffers, purges, lag.")(top.top)
app.add_typer(keys_app, name="keys")
app.command("record", short_help="Write down what happens in a group.")(record.record)
app.command("replay", short_help="Send what a trace holds to a group.")(replay.replay)
app.add_typer(model_app, name="model")
app.add_typer(sim_app, name="sim")
app.command("ingest", short_help="Traces and journals into Parquet, bad rows kept aside.")(
    ingest.ingest
)
app.command("profile", short_help="Traffic: what replaces what, how soon, how often.")(
    profile.profile
)
app.command("plan", short_help="The smallest buffer that carries a slow receiver.")(plan.plan)
app.command("sweep", short_help="A scenario over a grid of settings and seeds.")(sweep.sweep)
app.command("analyse", short_help="Rates, latencies, purging: what a journal says.")(
    analyse.analyse
)
app.command("check", short_help="Judge a small journal in seconds, without Spark.")(check.check)
app.command("verify", short_help="Hold a journal against everything that was promised.")(
    verify.verify
)
app.command("monitor", short_help="Profile and verify a group while it runs.")(monitor.monitor)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and say how it went; never raises for a user's mistake."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = typer.main.get_command(app)
    _spell_examples(command)
    return exit_code_of(
        lambda: command.main(args=arguments, prog_name=PROGRAM, standalone_mode=False)
    )


def _spell_examples(command: Any) -> None:
    """Examples in the help of this command and of those below it are as they have to be typed."""
    if command.help:
        command.help = "\n".join(
            spelled(line) if line.startswith("  ") else line for line in command.help.split("\n")
        )
    for one in getattr(command, "commands", {}).values():
        _spell_examples(one)


def version_line() -> str:
    """For instance: semcast 0.1.0 (compiled, CPython 3.11.7)."""
    import platform

    import semcast
    from semcast import ids

    build = "interpreted" if (ids.__file__ or "").endswith(".py") else "compiled"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{PROGRAM} {semcast.__version__} ({build}, {python})"


def _print_version(wanted: bool) -> None:
    if wanted:
        print(version_line())
        raise typer.Exit


def _help_if_alone(context: typer.Context) -> None:
    """A group named without a command explains itself."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version and whether the core is compiled, then exit.",
        ),
    ] = False,
) -> None:
    _help_if_alone(context)


@model_app.callback(invoke_without_command=True)
def _model(context: typer.Context) -> None:
    _help_if_alone(context)


@keys_app.callback(invoke_without_command=True)
def _keys(context: typer.Context) -> None:
    _help_if_alone(context)


@sim_app.callback(invoke_without_command=True)
def _sim(context: typer.Context) -> None:
    _help_if_alone(context)
