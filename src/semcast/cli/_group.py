"""What commands about live groups share: how a group is named and reached, joining it, asking it.

Options in, a `Target` out, which joins or asks. A command takes the target as its first parameter
and is wrapped by `group_command`, which adds the options.
"""

import functools
import inspect
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from semcast.errors import ConfigError, GroupClosedError, OtherKindError
from semcast.settings import Place, Setting, at
from semcast.settings.setting import NAMES, split

if TYPE_CHECKING:
    from semcast.live.blocking import Group, Recipient
    from semcast.live.blocking_site import Site
    from semcast.live.config import GroupConfig
    from semcast.live.meeting.asker import Asker

log: Final = logging.getLogger("semcast")

SOME_DID_NOT: Final = 1
TERMINATED: Final = 143  # 128 + SIGTERM, as shells report it
_LONG_S: Final = 2.0

GroupArgument = Annotated[str, typer.Argument(help="The group's name.", show_default=False)]
# Options by name: type, default and help.
_Options: TypeAlias = dict[str, tuple[Any, Any, str]]


def _options(place: Place) -> _Options:
    """The settings that are options of commands."""
    kinds = {bool: bool, int: int | None, float: float | None}
    found: _Options = {}
    for one in at(place):
        more = f" One of {', '.join(one.choices)}." if one.choices else ""
        more = " Written with commas." if one.type == NAMES else more
        default = False if one.type is bool else None
        kind = kinds.get(one.type, str | None)
        found[_option(one)] = (kind, default, one.says.replace("`", "") + more)
    return found


def _option(setting: Setting) -> str:
    return setting.name.removesuffix("_s")


_SHARED: Final[_Options] = {
    "secret": (str | None, None, "The group's secret; others see it in the list of processes."),
    "secret_file": (Path | None, None, "A file with the secret; without either, SEMCAST_SECRET."),
    "config": (Path | None, None, "A TOML file with settings of GroupConfig."),
    "log_format": (str, "text", "Of warnings on stderr: text or json."),
}
_ASKING: Final[_Options] = {"timeout": (float, 3.0, "Seconds to wait for answers.")}


@dataclass
class Target:
    """A group that a user named."""

    group: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def timeout_s(self) -> float:
        """How long answers may take."""
        timeout_s = float(self.options["timeout"])
        if not 0 < timeout_s <= 3600:
            raise ConfigError(f"--timeout {timeout_s:g}; it goes from above 0 to 3600 seconds")
        return timeout_s

    def _settings(self) -> dict[str, Any]:
        given = self.options
        found: dict[str, Any] = {"group": self.group}
        for one in (*at(Place.REACHING), *at(Place.JOINING)):
            value = given.get(_option(one))
            if value not in (None, "") and one.type is not bool:
                found[one.name] = split(value) if one.type == NAMES else value
        if given["insecure"]:
            found |= {"insecure": True, "secret": None}
        if given["secret"] is not None:
            found["secret"] = given["secret"]
        elif given["secret_file"] is not None:
            found["secret"] = read_secret(given["secret_file"])
        return found

    def config(self, **more: Any) -> "GroupConfig":
        """What was given, then SEMCAST_* variables, then the file."""
        from semcast.live.config import from_environment

        given = self._settings() | more
        if "groups" in given:
            given["reliability"] = "federation"
        return from_environment(given, file=self.options["config"])

    def group_config(self, **more: Any) -> "GroupConfig":
        """The same, where a command is for groups and not for federations."""
        config = self.config(**more)
        if config.reliability == "federation":
            raise ConfigError(
                "--groups is for federations, and for semcast tail and record there, or for send "
                "with --to-group; leave it out"
            )
        return config

    def joined(self, **more: Any) -> "AbstractContextManager[Group]":
        """A member for as long as the context lasts; SIGTERM leaves as Ctrl-C does."""
        return _member(self.group_config(**more))

    def federated(self, **more: Any) -> "AbstractContextManager[Site]":
        """A site of a federation for as long as the context lasts."""
        return _site(self.config(reliability="federation", **more))

    def attended(self, **more: Any) -> "AbstractContextManager[Recipient]":
        """Somebody who only receives: a reader of a group, if that is open; or, if a user said
        groups, a site of a federation that is in them.
        """
        from semcast.live.config import changed

        config = self.config(**more)
        if config.reliability == "federation":
            if not config.groups and not config.sites:
                raise ConfigError("in which groups of the federation? say --groups, with commas")
            return _site(config, may_be_alone=False)
        if config.is_open and config.reliability != "gossip":
            config = changed(config, role="reader")
        return _member(config)

    @contextmanager
    def joined_as(self, names: Sequence[str], **more: Any) -> "Iterator[dict[str, Group]]":
        """Several members in this process, by these names; the group is complete with all."""
        configs = {name: self.group_config(name=name, **more) for name in names}
        with _terminated_cleanly(), ExitStack() as members:
            with (
                _saying_so_if_it_takes_long(configs[names[0]]),
                ThreadPoolExecutor(len(names)) as pool,
            ):
                # All at once: none of them is there before the others are.
                joining = {name: pool.submit(_join, config) for name, config in configs.items()}
            for one in joining.values():
                if one.exception() is None:
                    members.enter_context(one.result())
            yield {name: one.result() for name, one in joining.items()}

    def asker(self, others: dict[int, bytes] | None = None) -> "Asker":
        """An asker for this group; whoever asks is no member."""
        from semcast.live.config import for_asking
        from semcast.live.meeting.asker import Asker

        return Asker(for_asking(self._settings(), file=self.options["config"]), others)


@contextmanager
def _member(config: "GroupConfig") -> "Iterator[Group]":
    with _terminated_cleanly():
        with _saying_so_if_it_takes_long(config):
            joined = _join(config)
        with joined as group:
            yield group


@contextmanager
def _site(config: "GroupConfig", may_be_alone: bool = True) -> "Iterator[Site]":
    import semcast.blocking

    with _terminated_cleanly():
        with _saying_so_if_it_takes_long(config):
            joined = semcast.blocking.federate(config.group, config=config)
        with joined as site:
            if not may_be_alone and len(site.view) == 1:
                log.warning("nobody else is in %r yet: this site has begun it", config.group)
            yield site


def _join(config: "GroupConfig") -> "Group":
    """Join; if the members of an open group have another reliability than is set here, with theirs:
    there is no option for it, and somebody who looks at a group need not know it.
    """
    import semcast.blocking
    from semcast.live.config import changed

    try:
        return semcast.blocking.join(config.group, config=config)
    except OtherKindError as error:
        if error.reliability == "federation":
            raise ConfigError(
                f"{config.group!r} is a federation: say --groups to receive, and --to-group to send"
            ) from None
        if not error.reliability:
            raise
        # In a group that gossips everybody relays, so there are no readers.
        role = "member" if error.reliability == "gossip" else config.role
        config = changed(config, reliability=error.reliability, role=role)
        return semcast.blocking.join(config.group, config=config)


def group_command(
    asking: bool = False, group_first: bool = True
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add GROUP and its options to a command, whose first parameter becomes the target."""
    shared = _SHARED | _options(Place.REACHING)
    shared |= _ASKING if asking else _options(Place.JOINING)
    keyword = inspect.Parameter.KEYWORD_ONLY

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        _, *own = inspect.signature(function).parameters.values()
        arguments = [one for one in own if one.default is inspect.Parameter.empty]
        options = [one for one in own if one.default is not inspect.Parameter.empty]
        given = inspect.Parameter("group", keyword, annotation=GroupArgument)
        added = []
        for name, (kind, default, text) in shared.items():
            variable = "SEMCAST_SECRET_FILE" if name == "secret_file" else None
            option = typer.Option(f"--{name.replace('_', '-')}", help=text, envvar=variable)
            one = inspect.Parameter(name, keyword, annotation=Annotated[kind, option])
            added.append(one.replace(default=default))
        named = [given, *arguments] if group_first else [*arguments, given]
        all_of_them = [one.replace(kind=keyword) for one in (*named, *options, *added)]

        @functools.wraps(function)
        def command(**values: Any) -> int:
            target = Target(values.pop("group"), {name: values.pop(name) for name in shared})
            with _logging(target.options["log_format"]):
                return function(target, **values)

        command.__signature__ = inspect.Signature(all_of_them)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in all_of_them}
        return command

    return decorate


def read_secret(path: Path) -> str:
    """The secret in a file, with a warning if others can read it."""
    from semcast.live import secret_file

    return secret_file.read_secret(path)


@contextmanager
def discarding(group: "Recipient") -> Iterator[None]:
    """Take and forget what others send, so that they do not wait for this member."""

    def discard() -> None:
        try:
            while True:
                group.receive_many()
        except GroupClosedError:
            return

    threading.Thread(target=discard, name="semcast discard", daemon=True).start()
    yield


@contextmanager
def _saying_so_if_it_takes_long(config: "GroupConfig") -> Iterator[None]:
    """Say that we wait for other members, if they take their time to come."""

    def say() -> None:
        others = "somebody" if config.is_open else f"the other {config.group_size - 1} members"
        log.warning("waiting for %s of %r, up to %g s", others, config.group, config.join_timeout_s)

    timer = threading.Timer(_LONG_S, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def _terminated_cleanly() -> Iterator[None]:
    def end(*_: object) -> None:
        raise SystemExit(TERMINATED)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _logging(log_format: str) -> Iterator[None]:
    """What the library has to say, on stderr."""
    from semcast.live.insight.logs import JsonFormatter

    if log_format not in ("text", "json"):
        raise ConfigError(f"--log-format {log_format!r}; choose text or json")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter() if log_format == "json" else logging.Formatter("semcast: %(message)s")
    )
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO if log_format == "json" else logging.WARNING)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
