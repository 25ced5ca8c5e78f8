"""Kinds of groups: which settings only one of them has, and which make no sense in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from semcast.errors import ConfigError
from semcast.settings import named

if TYPE_CHECKING:
    from semcast.live.config import GroupConfig


@dataclass(frozen=True)
class Kind:
    """One kind of group: what it is called, and which settings are its own."""

    reliability: str
    # Settings that only such groups have.
    own: Sequence[str]
    # What makes no sense in such a group, and why.
    senseless: Mapping[str, str]
    # "it is for …", and "… in such a group".
    whose: str
    where: str

    def has(self, config: "GroupConfig") -> bool:
        """Whether this is such a group; raises ConfigError if its settings do not go together with
        that.
        """
        if config.reliability != self.reliability:
            self._refuse_own(config)
            return False
        for name, why in self.senseless.items():
            value = getattr(config, name)
            if value != named(name).default and not (name == "state" and value == "none"):
                raise ConfigError(f"{name} is {value!r} {self.where}: {why}")
        return True

    def member_settings(self, config: "GroupConfig") -> dict[str, Any]:
        """What members have otherwise because it is such a group: where state makes no sense,
        nobody keeps any for newcomers.
        """
        if config.reliability != self.reliability or "state" not in self.senseless:
            return {}
        return {"state": "none"}

    def _refuse_own(self, config: "GroupConfig") -> None:
        for name in self.own:
            if getattr(config, name) != named(name).default:
                raise ConfigError(
                    f"{name} is {getattr(config, name)!r} with reliability "
                    f"{config.reliability!r}; it is for {self.whose}"
                )
