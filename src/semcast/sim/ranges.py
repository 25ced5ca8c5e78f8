"""Tables of settings in, frozen dataclasses out, or one line that says which key is wrong and why.

A settings class is a frozen dataclass whose annotations say all that is allowed: the type, and the
range as `Annotated[float, Between(0, 1)]`. Values are checked whoever makes the object. Knows
nothing of what the settings mean.
"""

import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from typing import Annotated, Any, Literal, TypeVar

from semcast.errors import ConfigError, InputError
from semcast.settings.setting import WORDS, plain, require_between, require_choice

S = TypeVar("S")


@dataclass(frozen=True)
class Between:
    """The smallest and the largest value allowed."""

    low: float
    high: float


class Settings:
    """Base of settings classes: checks ranges and choices when an object is made."""

    def __post_init__(self) -> None:
        for name, hint in hints_of(type(self)).items():
            require(name, getattr(self, name), hint)


def hints_of(cls: type) -> dict[str, Any]:
    """The annotations of a settings class, by the names of its fields."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in fields(cls)}


def require(name: str, value: object, hint: Any) -> None:
    """Raise ConfigError unless `value` is within what the annotation allows."""
    origin = typing.get_origin(hint)
    if origin is Annotated:
        inner, *extras = typing.get_args(hint)
        for extra in extras:
            if isinstance(extra, Between):
                for one in value if isinstance(value, tuple) else (value,):
                    require_between(name, one, extra.low, extra.high)
        require(name, value, inner)
    elif origin in (types.UnionType, typing.Union) and value is not None:
        for choice in typing.get_args(hint):
            if not is_dataclass(choice):
                require(name, value, choice)
    elif origin is Literal:
        require_choice(name, value, typing.get_args(hint))


def read_settings(cls: type[S], table: object, where: str) -> S:
    """The settings object of a table; `where` names the table in complaints."""
    if not isinstance(table, Mapping):
        raise InputError(f"{where} is {_shown(table)}; it must be a table of settings")
    hints = hints_of(cls)
    for key in table:
        if key not in hints:
            raise InputError(f"{where}: unknown key {key!r}; known are {', '.join(hints)}")
    values = {}
    for field in fields(cls):  # type: ignore[arg-type]
        if field.name in table:
            values[field.name] = _convert(table[field.name], hints[field.name], where, field.name)
        elif _required(field):
            raise InputError(f"{where}: key {field.name!r} is missing")
    try:
        return cls(**values)
    except ConfigError as error:
        raise InputError(f"{where}: {error}") from error


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _convert(value: object, hint: Any, where: str, key: str) -> object:
    origin = typing.get_origin(hint)
    if origin is Annotated:
        return _convert(value, typing.get_args(hint)[0], where, key)
    if origin is Literal:
        return value  # `require` says what may be chosen
    if origin is tuple:
        if not isinstance(value, list):
            raise InputError(f"{where}: {key} is {_shown(value)}; it must be a list")
        inner = typing.get_args(hint)[0]
        return tuple(_convert(one, inner, where, f"{key}[{at}]") for at, one in enumerate(value))
    if origin in (types.UnionType, typing.Union):
        return _convert_union(value, typing.get_args(hint), where, key)
    if is_dataclass(hint):
        return read_settings(typing.cast(type, hint), value, f"{where}: {key}")
    found = plain(value, hint)
    if found is None:
        raise InputError(f"{where}: {key} is {_shown(value)}; it must be {WORDS[hint]}")
    return found


def _convert_union(value: object, choices: tuple[Any, ...], where: str, key: str) -> object:
    """Either something or None, or one of several tables, which their key `kind` names."""
    choices = tuple(choice for choice in choices if choice is not types.NoneType)
    if len(choices) == 1:
        return _convert(value, choices[0], where, key)
    kinds = {typing.get_args(hints_of(choice)["kind"])[0]: choice for choice in choices}
    kind = value.get("kind") if isinstance(value, Mapping) else None
    if not isinstance(kind, str) or kind not in kinds:
        raise InputError(
            f"{where}: {key}.kind is {_shown(kind)}; choose one of {', '.join(map(repr, kinds))}"
        )
    return read_settings(kinds[kind], value, f"{where}: {key}")


def _shown(value: object) -> str:
    return "missing" if value is None else repr(value)[:60]
