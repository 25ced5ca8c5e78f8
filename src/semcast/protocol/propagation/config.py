"""How a federation is set up: what its sites must agree on, checked, with units in the names."""

from dataclasses import dataclass
from typing import Final, final

from semcast.errors import ConfigError
from semcast.ids import Source
from semcast.protocol.propagation.federated import (
    GROUP_NAME_BYTES_MAX,
    GROUPS_MAX,
    SITES_MAX,
    group_id,
)

RECOVERIES: Final = ("non-atomic", "atomic")
_SECOND_NS: Final = 1_000_000_000
_MS_NS: Final = 1_000_000


@final
@dataclass(frozen=True)
class FederationConfig:
    """The same for all sites of a federation."""

    # "non-atomic": the others go on without a site that fails, and it is told what to roll back.
    # "atomic": whatever needs the site waits until it is back (PROP §5.2).
    recovery: str = "non-atomic"
    # How the propagation graph is chosen (`generator`).
    rule: str = "greedy"
    # A site that has nothing to say to a neighbour says so this often; one that is not heard for so
    # long has failed (PROP Appendix I: threshold_out and threshold_in).
    null_ns: int = 100_000_000
    silence_ns: int = _SECOND_NS
    # How often sites say what has reached everybody below them.
    settle_ns: int = 20_000_000
    # How many messages wait at most for a child, and how many that came wait for their turn.
    forward_messages: int = 1_024
    wait_messages: int = 256
    # How many messages a site keeps that not everybody is known to have, before sources have to
    # wait for that.
    history_messages: int = 1 << 14

    def __post_init__(self) -> None:
        if self.recovery not in RECOVERIES:
            raise ConfigError(f"recovery {self.recovery!r}; choose 'non-atomic' or 'atomic'")
        if not 0 < self.null_ns * 2 <= self.silence_ns:
            # Whoever sets these, does so in milliseconds.
            raise ConfigError(
                f"null_ms is {self.null_ns / _MS_NS:g} and silence_ms "
                f"{self.silence_ns / _MS_NS:g}: a site must be silent for two periods at least "
                "before it counts as failed"
            )
        if self.settle_ns < 1:
            raise ConfigError(f"settle_ms is {self.settle_ns / _MS_NS:g}; it must be more than 0")
        for name in ("forward_messages", "wait_messages", "history_messages"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least 1")

    @property
    def atomic(self) -> bool:
        """Whether a site that fails is waited for."""
        return self.recovery == "atomic"


@final
@dataclass(frozen=True)
class Seat:
    """A site of a federation, in one of its lives: which groups it wants to be a member of."""

    sender: int
    life: int
    name: str
    groups: tuple[str, ...]
    # Grows whenever the site wants other groups.
    version: int = 1

    @property
    def source(self) -> Source:
        """The life that it is in."""
        source = Source(self.sender, self.life)
        source.name = self.name
        return source


@final
@dataclass(frozen=True)
class Charter:
    """The sites that a federation begins with. Everybody who begins it has the same one."""

    seats: tuple[Seat, ...]

    def __post_init__(self) -> None:
        senders = [seat.sender for seat in self.seats]
        if not senders or len(set(senders)) != len(senders):
            raise ConfigError("a charter names at least one site, and each site once")
        check_groups(self.groups(), len(senders))

    def groups(self) -> dict[str, tuple[int, ...]]:
        """By group: its sites."""
        return groups_of(self.seats)


def groups_of(seats: tuple[Seat, ...]) -> dict[str, tuple[int, ...]]:
    """By group: the sites that are in it, in order."""
    found: dict[str, list[int]] = {}
    for seat in seats:
        for name in seat.groups:
            found.setdefault(name, []).append(seat.sender)
    return {name: tuple(sorted(found[name])) for name in sorted(found)}


def check_groups(groups: dict[str, tuple[int, ...]], sites: int) -> None:
    """Refuse what is too much, and names that no group may have."""
    if len(groups) > GROUPS_MAX or sites > SITES_MAX:
        raise ConfigError(
            f"{len(groups)} groups and {sites} sites; {GROUPS_MAX} and {SITES_MAX} are the most"
        )
    for name in groups:
        check_group_name(name)
    numbers = {group_id(name) for name in groups}
    if len(numbers) != len(groups):
        raise ConfigError("two groups have the same number on the wire; rename one of them")


def check_group_name(name: str) -> None:
    """Refuse a name that no group may have."""
    if not 1 <= len(name.encode()) <= GROUP_NAME_BYTES_MAX:
        raise ConfigError(
            f"group name {name[:80]!r}; it has 1 to {GROUP_NAME_BYTES_MAX} bytes in UTF-8"
        )
