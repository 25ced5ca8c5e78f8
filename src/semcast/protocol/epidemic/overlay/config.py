"""How large partial views are, and how much time and traffic goes into keeping them."""

from dataclasses import dataclass
from typing import Final

from semcast.errors import ConfigError
from semcast.wire.families.overlay import AGE_MAX, SHUFFLE_ENTRIES_MAX, TTL_MAX

_MS_NS: Final = 1_000_000


@dataclass(frozen=True)
class OverlayConfig:
    """The sizes are HyParView's for 10,000 members; nothing here depends on the group's size."""

    # Neighbours, to which messages go, and others that may take their place.
    active_max: int = 5
    passive_max: int = 30
    # How many steps a newcomer's walk has, and with how many left it enters a passive view.
    active_walk: int = 6
    passive_walk: int = 3
    # What a shuffle takes along of each view.
    shuffle_active: int = 3
    shuffle_passive: int = 4
    # Once a round a member sends a pulse to each neighbour, a shuffle to one, and one inquiry to
    # an entry of its passive view.
    round_ns: int = 1_000 * _MS_NS
    # How long to wait for an answer before asking again, and how often to ask: those whom a member
    # knows, and candidates for a link, of which there are more.
    answer_ns: int = 250 * _MS_NS
    asks_max: int = 3
    link_asks_max: int = 2
    # A neighbour of which nothing came for so long is asked whether it lives.
    silent_ns: int = 1_250 * _MS_NS
    # How many neighbours may be asked for in a round, and how many may be lost to urgent ones.
    links_per_round: int = 16
    displaced_per_round: int = 5
    # Newcomers that go to all neighbours in a round; further ones take a single walk.
    enters_per_round: int = 5
    # Members that were lost and are still asked now and then: every so many rounds one of them.
    exiles_max: int = 16
    exile_rounds: int = 4
    # After so many rounds without news of it a beacon is dead, and after so many with the same one
    # a member that has another is on another island.
    beacon_rounds: int = 16
    steady_rounds: int = 12
    # An entry of which nobody heard for so many rounds is forgotten, wherever it has been told.
    age_rounds: int = 30
    # After so many rounds without a neighbour the application is told.
    alone_rounds: int = 5

    def __post_init__(self) -> None:
        entries = self.shuffle_active + self.shuffle_passive
        for name, value, low, high in (
            ("active_max", self.active_max, 1, 64),
            ("passive_max", self.passive_max, 1, 1 << 12),
            ("active_walk", self.active_walk, 0, TTL_MAX),
            ("passive_walk", self.passive_walk, 0, self.active_walk),
            ("shuffle_active + shuffle_passive", entries, 1, SHUFFLE_ENTRIES_MAX - 1),
            ("round_ns", self.round_ns, _MS_NS, 1 << 50),
            ("answer_ns", self.answer_ns, _MS_NS, 1 << 50),
            ("asks_max", self.asks_max, 1, 100),
            ("link_asks_max", self.link_asks_max, 1, 100),
            ("silent_ns", self.silent_ns, _MS_NS, 1 << 50),
            ("links_per_round", self.links_per_round, 1, 1 << 20),
            ("displaced_per_round", self.displaced_per_round, 1, 1 << 20),
            ("enters_per_round", self.enters_per_round, 1, 1 << 20),
            ("exiles_max", self.exiles_max, 1, 1 << 12),
            ("exile_rounds", self.exile_rounds, 1, 1 << 20),
            ("beacon_rounds", self.beacon_rounds, 2, 1 << 15),
            ("steady_rounds", self.steady_rounds, 1, 1 << 15),
            ("age_rounds", self.age_rounds, 1, AGE_MAX),
            ("alone_rounds", self.alone_rounds, 1, 1 << 20),
        ):
            if not low <= value <= high:
                raise ConfigError(f"overlay {name} is {value}; it goes from {low} to {high}")
