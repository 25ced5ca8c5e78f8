"""What settings mean for a federation: checked, and as the protocol has them."""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from semcast.errors import ConfigError
from semcast.live.kind_settings import Kind
from semcast.protocol.propagation.config import FederationConfig, check_groups

if TYPE_CHECKING:
    from semcast.live.config import GroupConfig

FEDERATION: Final = "federation"
# Pairs: the name of a site, and the groups that it is in.
Sites: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
_OWN: Final = (
    "groups", "sites", "recovery", "rule", "protocol", "history", "null_ms", "silence_ms",
)  # fmt: skip
_SENSELESS: Final = {
    "role": "a site that only receives is one that never sends; leave it out",
    "quorum": "there the manager decides on graphs; leave it out",
    "members": "name the sites and their groups in sites",
    "size": "name the sites and their groups in sites",
    "order": "there all messages come in one order; leave it out",
    "state": "there nobody keeps state for newcomers; leave it out",
    "stability": "there each site hears from its neighbours what they have; leave it out",
    "total_messages": "choose delivery_messages and window_messages",
    "evict_after_s": "choose silence_ms, after which a site has failed",
}
FEDERATION_KIND: Final = Kind(
    FEDERATION, _OWN, _SENSELESS, "federations: use federate", "in a federation"
)


def as_sites(value: Any) -> Sites:
    """What a user gave as the sites of a federation; raises if it is no table of groups."""
    pairs = value.items() if isinstance(value, Mapping) else value
    with suppress(TypeError, ValueError):
        found = tuple((site, tuple(groups)) for site, groups in pairs)
        plain = not any(isinstance(groups, str) for _, groups in pairs)
        names = [site for site, _ in found] + [one for _, groups in found for one in groups]
        if plain and all(isinstance(name, str) for name in names):
            return found
    raise ConfigError(
        f"sites is {value!r}; it must say for each site the list of groups that it is in, for "
        "instance {'a': ('alpha', 'beta'), 'b': ('beta',)}"
    )


def check_federation(config: "GroupConfig") -> None:
    """Raises ConfigError if settings do not go together with the reliability."""
    if FEDERATION_KIND.has(config):
        federation_config(config)
        _check_sites(config, as_sites(config.sites))


def _check_sites(config: "GroupConfig", sites: Sites) -> None:
    names = [site for site, _ in sites]
    if len(set(names)) != len(names):
        raise ConfigError(f"sites names somebody twice: {', '.join(names)}")
    if sites and config.name not in names:
        raise ConfigError(
            f"this site is called {config.name!r}, which is not among sites: {', '.join(names)}"
        )
    if config.protocol == "two-phase" and not sites:
        raise ConfigError("protocol 'two-phase' without sites; name all of them, and their groups")
    wanted = own_groups(config)
    for site, groups in (*sites, (config.name, wanted)):
        if len(set(groups)) != len(groups):
            raise ConfigError(f"{site!r} is in a group twice: {', '.join(groups)}")
    check_names([*wanted, *(one for _, groups in sites for one in groups)], len(sites))
    named_here = dict(sites).get(config.name)
    if config.groups and named_here is not None and set(named_here) != set(config.groups):
        raise ConfigError(
            f"groups is {', '.join(config.groups)}, but sites says that {config.name!r} is in "
            f"{', '.join(named_here) or 'none'}; leave out one of them"
        )


def check_names(groups: list[str], sites: int) -> None:
    """Refuse names that groups may not have, and too many of them."""
    nobody: tuple[int, ...] = ()
    check_groups(dict.fromkeys(groups, nobody), sites)


def own_groups(config: "GroupConfig") -> tuple[str, ...]:
    """The groups that this site is to be a member of."""
    return config.groups or dict(as_sites(config.sites)).get(config.name, ())


def awaited(config: "GroupConfig") -> tuple[str, ...]:
    """The sites that are to be there before the federation begins, in order of names."""
    return tuple(sorted(site for site, _ in as_sites(config.sites)))


def federation_config(config: "GroupConfig") -> FederationConfig:
    """What all sites must agree on."""
    return FederationConfig(
        recovery=config.recovery,
        rule="central" if config.protocol == "central" else config.rule,
        null_ns=round(config.null_ms * 1e6),
        silence_ns=round(config.silence_ms * 1e6),
    )
