"""`semcast keys`: make secrets, and change the keys of a running group without losing a message.

Rotation is `install`, `use`, `remove`, each for all members before the next; see
docs/design/sealing.md. `use` and `remove` look first whether everybody is ready, and change nothing
if not.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from semcast.cli._group import SOME_DID_NOT, Target, group_command, read_secret
from semcast.cli._output import JsonOption, print_json, print_table, print_words
from semcast.errors import ConfigError, InputError

if TYPE_CHECKING:
    from semcast.live.meeting.asker import Answers, Asker

KeyIdArgument = Annotated[
    int, typer.Argument(min=1, max=65_535, help="The key's number, the same for all members.")
]
NewSecretOption = Annotated[
    Path | None, typer.Option("--new-secret-file", help="A file with the new secret.")
]
NewFileArgument = Annotated[
    Path | None, typer.Argument(metavar="FILE", help="Where to write it; without, it is printed.")
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Even if some members are not ready or do not answer.")
]


def new(file: NewFileArgument = None, as_json: JsonOption = False) -> int:
    """Make a secret: 32 random bytes as text. Give it to every member, and to nobody else.

    With FILE it is written there, for its owner alone to read, and only its fingerprint is shown.

    \b
    Examples:
      semcast keys new secret.txt
      export SEMCAST_SECRET=$(semcast keys new)
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    import secrets

    from semcast.live.secret_file import write_secret
    from semcast.wire.keys import Secret

    text = secrets.token_urlsafe(32)
    fingerprint = Secret(text.encode()).fingerprint
    if file is not None:
        write_secret(file, text)
        if as_json:
            print_json({"file": str(file), "fingerprint": fingerprint})
        else:
            print_words(f"{file} has a new secret, which only you can read ({fingerprint}).")
    elif as_json:
        print_json({"secret": text, "fingerprint": fingerprint})
    else:
        print(text)
    return 0


@group_command(asking=True)
def install(
    target: Target,
    key: KeyIdArgument,
    new_secret_file: NewSecretOption = None,
    as_json: JsonOption = False,
) -> int:
    """Step 1: all members learn another secret, and go on sealing with the one they use.

    It travels under the group's present seal.

    \b
    Example:
      semcast keys install quotes 2 --secret-file old.txt --new-secret-file new.txt
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    material = _new_secret(new_secret_file)
    with target.asker({key: material}) as asker:
        answers = asker.ask("install", target.timeout_s, key_id=key, secret=material.hex())
    return _report(target, "install", key, answers, as_json)


@group_command(asking=True)
def use(
    target: Target,
    key: KeyIdArgument,
    new_secret_file: NewSecretOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> int:
    """Step 2: all members seal with this key from now on. They must all have it installed.

    \b
    Example:
      semcast keys use quotes 2 --secret-file old.txt --new-secret-file new.txt
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    with target.asker({key: _new_secret(new_secret_file)}) as asker:
        if not force:
            _require(asker, target, lambda keys: key in keys, f"has not installed key {key}")
        answers = asker.ask("use", target.timeout_s, key_id=key)
    return _report(target, "use", key, answers, as_json)


@group_command(asking=True)
def remove(
    target: Target, key: KeyIdArgument, force: ForceOption = False, as_json: JsonOption = False
) -> int:
    """Step 3: all members forget a key, which nobody may use any more.

    \b
    Example:
      semcast keys remove quotes 1 --secret-file new.txt --key-id 2
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    with target.asker() as asker:
        if not force:
            _require(asker, target, lambda keys: not keys.get(key, False), f"still uses key {key}")
        answers = asker.ask("remove", target.timeout_s, key_id=key)
    return _report(target, "remove", key, answers, as_json)


@group_command(asking=True)
def list_keys(target: Target, as_json: JsonOption = False) -> int:
    """Which keys each member has, by fingerprint, and which it uses.

    The exit code is 1 if members differ, or if somebody does not answer.

    \b
    Example:
      semcast keys list quotes --secret-file secret.txt
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    with target.asker() as asker:
        answers = asker.ask("keys", target.timeout_s)
    _complain_if_refused(answers)
    found = {name: _keys(one.body) for name, one in sorted(answers.by_name.items())}
    alike = len({repr(keys) for keys in found.values()}) == 1
    if as_json:
        print_json(
            {
                "group": target.group,
                "alike": alike,
                "members": found,
                "not_answering": list(answers.missing),
            }
        )
    else:
        rows = [
            (name, str(one["key_id"]), one["fingerprint"], "in use" if one["in_use"] else "")
            for name, keys in found.items()
            for one in keys
        ]
        print_table(f"{target.group}: keys", ["member", "key", "fingerprint", ""], rows)
        if answers.missing:
            print_words(f"No answer from {', '.join(answers.missing)}.")
    return 0 if alike and not answers.missing else SOME_DID_NOT


# -- small parts -----------------------------------------------------------------------------------


def _new_secret(path: Path | None) -> bytes:
    from semcast.wire.keys import Secret

    if path is None:
        raise InputError("no --new-secret-file; make one with: semcast keys new new.txt")
    material = read_secret(path).encode()
    Secret(material)  # raises if it is too short
    return material


def _keys(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "key_id": int(one["key_id"]),
            "fingerprint": str(one["fingerprint"]),
            "in_use": one["in_use"] is True,
        }
        for one in body.get("keys", [])
    ]


def _require(asker: "Asker", target: Target, ready: Any, otherwise: str) -> None:
    """Nothing is changed unless everybody is ready for it."""
    answers = asker.ask("keys", target.timeout_s)
    _complain_if_refused(answers)
    for name, one in sorted(answers.by_name.items()):
        if not ready({key["key_id"]: key["in_use"] for key in _keys(one.body)}):
            raise ConfigError(f"{name} {otherwise}; nothing was changed (--force does it anyway)")
    if answers.missing:
        raise ConfigError(
            f"no answer from {', '.join(answers.missing)}; nothing was changed "
            "(--force does it anyway)"
        )


def _complain_if_refused(answers: "Answers") -> None:
    for name, why in answers.refused.items():
        raise ConfigError(f"{name} says: {why}")


def _report(target: Target, what: str, key: int, answers: "Answers", as_json: bool) -> int:
    done = {name: one.body.get("changed") is True for name, one in sorted(answers.by_name.items())}
    refused = answers.refused
    if as_json:
        print_json(
            {
                "group": target.group,
                "command": what,
                "key_id": key,
                "done": [name for name in done if name not in refused],
                "changed": [name for name, changed in done.items() if changed],
                "refused": refused,
                "not_answering": list(answers.missing),
            }
        )
    else:
        fine = [name for name in done if name not in refused]
        print_words(f"{what} {key}: done by {', '.join(fine) or 'nobody'}.")
        print_words(*(f"{name} refuses: {why}" for name, why in refused.items()))
        if answers.missing:
            print_words(f"No answer from {', '.join(answers.missing)}; repeat the command.")
    return SOME_DID_NOT if refused or answers.missing else 0
