"""What one setting is: a value in, the same value checked out, or a ConfigError of one line.

The error names the setting, the value that was given and what is allowed. Values come from Python
or TOML (`typed`), or as text of a variable or an option (`parsed`); `check` then looks at bounds
and choices. Knows nothing of which settings there are.
"""

import enum
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias

from semcast.errors import ConfigError

MS: Final = 1_000_000
NAMES: Final = tuple[str, ...]
SecretOrNone: TypeAlias = bytes | str | None
# A word, or a table that says of each member but the root which member is its parent.
Tree: TypeAlias = str | Mapping[str, str] | tuple[tuple[str, str], ...]
# A table that says of each site in which groups it is.
Sites: TypeAlias = Mapping[str, tuple[str, ...]] | tuple[tuple[str, tuple[str, ...]], ...]
# The end of a name says its unit.
UNITS: Final = ("bytes_s", "bytes", "ms", "us", "s")
_FLAGS: Final = {"1": True, "true": True, "0": False, "false": False}
WORDS: Final[dict[Any, str]] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    NAMES: "a list of names",
    SecretOrNone: "bytes or a text",
    Tree: "a word or a table of names",
    Sites: "a table of sites, with a list of groups for each",
}


class Place(enum.Flag):
    """Where a setting is known by its name."""

    # An argument of `join`, a field of `GroupConfig`, a key of TOML, a variable.
    GROUP = enum.auto()
    MEMBER = enum.auto()  # an attribute of `MemberConfig`, in which milliseconds are nanoseconds
    SCENARIO = enum.auto()  # a key of the table `protocol` of a scenario
    TRANSPORT = enum.auto()  # an attribute of `TransportSettings`
    REACHING = enum.auto()  # an option of all commands about a group
    JOINING = enum.auto()  # an option of those that join it


class Default(enum.Enum):
    """Defaults that are no plain value; each says in words what it is."""

    REQUIRED = "must be said"
    OWN_NAME = "host and process"


@dataclass(frozen=True)
class Setting:
    """One entry of the table."""

    name: str
    default: Any
    where: Place
    allowed: tuple[Any, ...]  # the smallest and the largest number; or the words to choose from
    says: str
    preset: Any = None  # the default of a bare member and of scenarios, where it is another
    type: Any = None  # where it does not follow from the default
    types: Mapping[Place, Any] = field(default_factory=dict)  # at places where it is another
    hidden: bool = False  # never shown, neither by a configuration nor by an error

    def __post_init__(self) -> None:
        if self.type is None:
            of_default = type(self.default)
            object.__setattr__(self, "type", NAMES if of_default is tuple else of_default)

    @cached_property
    def unit(self) -> str:
        """The unit at the end of the name; nothing for counts, words and switches."""
        name = self.name.removesuffix("_max")
        ends = (unit for unit in UNITS if name.endswith(f"_{unit}"))
        return next(ends, "") if self.type in (int, float) else ""

    @property
    def choices(self) -> tuple[str, ...]:
        """The words to choose from."""
        return self.allowed if self.type is str else ()

    def default_at(self, place: Place) -> Any:
        """The default of a group, or of a bare member and a scenario."""
        preset = self.preset if place in (Place.MEMBER, Place.SCENARIO) else None
        found = self.default if preset is None else preset
        return round(found * MS) if self._in_ns(place) else found

    def name_at(self, place: Place) -> str:
        """The name; members count time in nanoseconds and say so."""
        return f"{self.name.removesuffix('ms')}ns" if self._in_ns(place) else self.name

    def _in_ns(self, place: Place) -> bool:
        return place is Place.MEMBER and self.unit == "ms"

    def typed(self, value: Any) -> Any:
        """The value in the type of a group's setting; raises if it is of another one."""
        if self.type in (Tree, Sites):
            return value  # checked where it is understood
        if self.type == NAMES:
            if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
                return tuple(value)
        elif self.type is SecretOrNone:
            if isinstance(value, SecretOrNone):
                return value
        elif (found := plain(value, self.type)) is not None:
            return found
        shown = f"a {type(value).__name__}" if self.hidden else repr(value)[:80]
        raise ConfigError(f"{self.name} is {shown}; it must be {WORDS[self.type]}")

    def parsed(self, text: str, called: str) -> Any:
        """The value that a text stands for; `called` names the variable or option in an error."""
        try:
            if self.type == NAMES:
                return tuple(split(text))
            if self.type is Sites or (self.type is Tree and text.startswith("{")):
                return json.loads(text)
            if self.type is bool:
                return _FLAGS[text.lower()]
            if self.type in (int, float):
                return self.type(text)
        except (KeyError, ValueError):
            raise ConfigError(f"{called} is {text!r}; it must be {WORDS[self.type]}") from None
        return text

    def check(self, value: Any, place: Place) -> None:
        """Raises unless the value is allowed; the default always is."""
        if value == self.default_at(place):
            return
        name, scale = self.name_at(place), MS if self._in_ns(place) else 1
        if self.choices:
            require_choice(name, value, self.choices)
        elif self.allowed:
            low, high = self.allowed
            require_between(name, value, low * scale, high * scale)


def plain(value: object, wanted: type) -> Any:
    """The value in this plain type, or None if it is of another; True and False are no numbers."""
    given = int | float if wanted is float else wanted
    if isinstance(value, given) and (wanted is bool or not isinstance(value, bool)):
        with suppress(OverflowError):  # some whole numbers are beyond every float
            return wanted(value)
    return None


def require_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Raises unless the value is one of the choices."""
    if value not in choices:
        raise ConfigError(f"{name} is {value!r}; choose one of {', '.join(map(repr, choices))}")


def require_between(name: str, value: float, low: float, high: float) -> None:
    """Raises unless the value is a number between the bounds."""
    if not low <= value <= high:
        shown = [str(one) if isinstance(one, int) else f"{one:g}" for one in (value, low, high)]
        raise ConfigError("{} is {}; it goes from {} to {}".format(name, *shown))


def split(text: str) -> list[str]:
    """The parts of a list that is written with commas."""
    return [part.strip() for part in text.split(",") if part.strip()]
