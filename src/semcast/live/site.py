"""What sites have in common, for asyncio and for threads: their groups, and the graph."""

import os
from typing import TYPE_CHECKING, Any

from semcast.errors import ConfigError
from semcast.live.config import GroupConfig, check_name
from semcast.live.federation_settings import FEDERATION, awaited, check_names
from semcast.live.group import as_config
from semcast.live.hooks import Hooks, Undo, as_interest, check_function
from semcast.live.meeting.federation_session import FederationSession
from semcast.live.meeting.site_facts import named_graph
from semcast.protocol.interest import Only
from semcast.protocol.propagation.federated import Federated

if TYPE_CHECKING:
    from semcast.live.host.engine import Engine


class SiteFace:
    """What a site is beside a recipient of messages; use `semcast.federate` or
    `semcast.blocking.federate`.
    """

    if TYPE_CHECKING:

        @property
        def _engine(self) -> Engine: ...

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups whose messages this site gets.

        >>> site.groups
        ('alpha', 'beta')
        """
        with self._engine.lock:
            return self._site().groups()

    @property
    def known_groups(self) -> tuple[str, ...]:
        """All groups of the federation, as far as this site knows. It may send to all of them.

        >>> site.known_groups
        ('alpha', 'beta')
        """
        with self._engine.lock:
            return self._site().known_groups()

    @property
    def graph(self) -> dict[str, Any]:
        """The propagation graph that is open here: its number, who is in which group, on whom each
        site hangs, and the primary destination of each group. Empty while there is none.

        >>> site.graph["parent"], site.graph["primary"]
        ({'a': ''}, {'alpha': 'a', 'beta': 'a'})
        """
        with self._engine.lock:
            graph = self._site().graph()
            return {} if graph is None else named_graph(graph, self._engine.session.roster)

    def _site(self) -> Federated:
        session = self._session()
        assert session.site is not None, "a site is there as soon as it looks for others"
        return session.site

    def _session(self) -> FederationSession:
        session = self._engine.session
        assert isinstance(session, FederationSession)
        return session

    def _want(self, groups: Any) -> tuple[str, ...]:
        """Ask for other groups; returns them in order of names."""
        wanted = as_groups(groups)
        with self._engine.lock:
            session = self._session()
            if session.ended is not None:
                raise session.ended
            now_ns = self._engine.clock.now_ns()
            session.change(wanted, now_ns)
            self._engine.host.flush(self._engine.seat, now_ns)
        return wanted

    def _has_groups(self, wanted: tuple[str, ...]) -> bool:
        """Whether this site is in these groups and no others, with the lock held."""
        session = self._session()
        if session.ended is not None:
            raise session.ended
        return self._site().inside and self._site().groups() == wanted


def as_groups(groups: Any) -> tuple[str, ...]:
    """Names of groups that a user gave, in order; ConfigError if they are none."""
    given: object = groups
    if isinstance(given, str) or not all(isinstance(one, str) for one in groups):
        raise ConfigError(f"groups is {groups!r}; it must be a list of names")
    wanted = tuple(sorted(groups))
    if len(set(wanted)) != len(wanted):
        raise ConfigError(f"groups names one twice: {', '.join(wanted)}")
    check_names(list(wanted), 1)
    return wanted


def federation_of(
    federation: str,
    config: GroupConfig | str | os.PathLike[str] | None,
    only: Only,
    undo: Undo | None,
    settings: Any,
) -> tuple[GroupConfig, Hooks]:
    """What the arguments of `federate` describe."""
    chosen = as_config(federation, config, settings | {"reliability": FEDERATION})
    for site in awaited(chosen):
        check_name(site)
    check_function("undo", undo)
    return chosen, Hooks(as_interest(only), undo=undo)
