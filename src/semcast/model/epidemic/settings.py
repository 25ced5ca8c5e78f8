"""What a run of the round model is given: the group, its gossip, buffers, traffic and faults."""

import math
from dataclasses import dataclass
from typing import Final, final

from semcast.errors import ConfigError

POLICIES: Final = ("eager", "lazy", "random", "drop-new", "age")
VIEWS: Final = ("full", "partial")
MEMBERS_MAX: Final = 10_000_000
LINKS_MAX: Final = 64  # the links that a message still waits for are the bits of one word
RELAYS_MAX: Final = 200  # relays are counted in a byte
ROUNDS_MAX: Final = 100_000
MESSAGES_MAX: Final = 1_000_000


def relays_for(members: int, fanout: int) -> int:
    """Twice the hops that it takes if no copy is lost or goes astray, so that few are cut off."""
    if fanout < 2:
        return min(members, RELAYS_MAX)
    return min(2 * math.ceil(math.log(members, fanout)) + 2, RELAYS_MAX)


@final
@dataclass(frozen=True)
class Epidemic:
    """Everything that decides a run. The same settings give the same figures.

    A link carries one message in a round, so a member sends `links` copies in a round at most, and
    a group that purges nothing carries about `links / fanout` messages in a round.
    """

    members: int
    fanout: int = 5
    # A message is passed on at most so often after its source's own send (PSRM §4.2 has 4).
    relays: int | None = None  # None: enough for the size
    links: int = 10
    # Where a member's links lead: each time to anybody, or always to the same few.
    view: str = "full"
    buffer_messages: int = 3  # per link; one buffer of links times as many copies per member
    policy: str = "eager"
    rate_msg_round: float = 4.0  # of the whole group; sources are drawn at random
    # PSRM §4.2: the share of messages that belong to chains, how many chains there are at a time,
    # and how many messages a chain has. The last one of a chain is never obsolete.
    related_ratio: float = 1.0
    diversity: int = 1
    chain_length: int = 10
    loss: float = 0.05  # the share of copies that the network loses
    crashed: float = 0.0  # the share of members that are dead, and that the others still gossip to
    # Messages of so many rounds at the beginning and as many at the end are load, and are not
    # measured. None: as long as a message takes that finds every buffer full.
    settle_rounds: int | None = None
    measured_rounds: int = 50
    seed: int = 1

    def __post_init__(self) -> None:
        self._check_group()
        self._check_traffic()
        if self.policy not in POLICIES:
            raise ConfigError(f"policy is {self.policy!r}; it must be one of {', '.join(POLICIES)}")
        if self.view not in VIEWS:
            raise ConfigError(f"view is {self.view!r}; it must be one of {', '.join(VIEWS)}")

    @property
    def used_links(self) -> int:
        """A small group has fewer others than a member could have links."""
        return min(self.links, self.members - 1)

    @property
    def relays_max(self) -> int:
        return relays_for(self.members, self.fanout) if self.relays is None else self.relays

    @property
    def settling(self) -> int:
        """How many rounds before and after the measured ones there are."""
        if self.settle_rounds is not None:
            return self.settle_rounds
        hops = math.ceil(math.log(self.members, max(self.fanout, 2))) + 2
        return hops * (self.buffer_messages + 1)

    @property
    def rounds(self) -> int:
        return self.measured_rounds + 2 * self.settling

    @property
    def capacity_copies(self) -> int:
        """How many copies the buffer of one member holds."""
        return self.buffer_messages * self.used_links

    @property
    def dead(self) -> int:
        """How many members are crashed. At least two are left to talk to each other."""
        return min(int(self.crashed * self.members), self.members - 2)

    def _check_group(self) -> None:
        _within("members", self.members, 2, MEMBERS_MAX)
        _within("links", self.links, 1, LINKS_MAX)
        _within("fanout", self.fanout, 1, self.used_links)
        if self.relays is not None:
            _within("relays", self.relays, 0, RELAYS_MAX)
        # A message that enters takes one place for each of its copies.
        least = math.ceil(self.fanout / self.used_links)
        _within("buffer_messages", self.buffer_messages, least, 1_000)
        _within("loss", self.loss, 0.0, 1.0)
        _within("crashed", self.crashed, 0.0, 0.99)

    def _check_traffic(self) -> None:
        _within("rate_msg_round", self.rate_msg_round, 0.001, 10_000.0)
        _within("related_ratio", self.related_ratio, 0.0, 1.0)
        _within("diversity", self.diversity, 1, 1_000_000)
        _within("chain_length", self.chain_length, 1, 1_000_000)
        if self.settle_rounds is not None:
            _within("settle_rounds", self.settle_rounds, 0, ROUNDS_MAX)
        _within("measured_rounds", self.measured_rounds, 1, ROUNDS_MAX)
        _within("seed", self.seed, 0, 2**63 - 1)
        if self.rounds * self.rate_msg_round > MESSAGES_MAX:
            raise ConfigError(
                f"{self.rounds} rounds of {self.rate_msg_round:g} messages are more than "
                f"{MESSAGES_MAX}; lower one of them"
            )


def _within(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:  # a NaN is within nothing
        raise ConfigError(f"{name} is {value:.12g}; it must be from {least:.12g} to {most:.12g}")
