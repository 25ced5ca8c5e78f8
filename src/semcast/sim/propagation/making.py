"""The sites of a simulated federation: settings in, a site as the live world makes it out."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from semcast.ids import Source
from semcast.protocol.machine import Machine
from semcast.protocol.observer import Observer
from semcast.protocol.propagation import rule_names
from semcast.protocol.propagation.config import Charter, Seat
from semcast.protocol.propagation.federated import Federated
from semcast.protocol.propagation.site import Site
from semcast.protocol.propagation.store import Store
from semcast.protocol.propagation.two_phase.site import TwoPhaseSite
from semcast.sim.propagation.federation_scenario import CENTRAL, TWO_PHASE, FederationScenario


class ListStore(Store):
    """What a simulated site has written down; a crash does not touch it."""

    def __init__(self) -> None:
        super().__init__()
        self._records: list[bytes] = []

    def append(self, record: bytes) -> None:
        self._records.append(record)

    def records(self) -> list[bytes]:
        return list(self._records)

    def replace(self, records: list[bytes]) -> None:
        self._records = list(records)


@dataclass(frozen=True)
class SiteLife:
    """One life of a site that begins."""

    me: Source
    groups: tuple[str, ...]
    # Those that begin the federation; none if it runs already.
    charter: Charter | None
    # What the site has written down, if it keeps that from one life to the next.
    store: Store | None
    stream: random.Random
    observer: Observer | None
    now_ns: int
    # What the site was in its last life, if it did not crash.
    former: Machine | None = None

    @property
    def name(self) -> str:
        """What people call the site."""
        return f"p{self.me.sender}"


# Makes a site; tests make others than the real ones.
SiteMaker = Callable[[FederationScenario, SiteLife], Federated]


def make_site(scenario: FederationScenario, life: SiteLife) -> Federated:
    """A real site, of the protocol that the scenario says."""
    settings = scenario.federation
    if settings.protocol == TWO_PHASE:
        return TwoPhaseSite(
            settings.member_config(),
            life.me,
            life.name,
            life.groups,
            life.stream,
            life.observer,
            settings.config(),
            life.charter,
        )
    config = settings.config()
    if settings.protocol == CENTRAL:
        config = replace(config, rule=rule_names.CENTRAL)
    site = Site(
        settings.member_config(),
        life.me,
        life.name,
        life.groups,
        life.stream,
        life.observer,
        config,
        life.charter,
        life.store,
    )
    if life.former is not None:
        site.follow_up(life.former, life.now_ns)
    return site


def charter_of(
    scenario: FederationScenario, groups: dict[str, tuple[int, ...]], founders: list[int]
) -> Charter:
    """The charter of the sites that are there from the start. The first one of it is the manager
    and, if there is a central site, that too.
    """
    first = scenario.federation.central_site
    if scenario.federation.protocol == CENTRAL and first in founders:
        founders = [first, *(site for site in founders if site != first)]
    return Charter(
        tuple(Seat(site, 1, f"p{site}", groups_of_site(groups, site)) for site in founders)
    )


def groups_of_site(groups: dict[str, tuple[int, ...]], site: int) -> tuple[str, ...]:
    """The groups that a site is in, in order of names."""
    return tuple(sorted(name for name, sites in groups.items() if site in sites))
