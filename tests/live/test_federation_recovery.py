"""Sites over real sockets that keep a history, are killed under traffic, and are started again."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.live.groups import wait_until
from tests.live.site_process import SiteProcess
from tests.live.test_federation_live import (
    FIGURE6,
    GROUPS,
    SECRET,
    SILENCE_MS,
    assert_agree,
    check_journal,
    name,
    settle,
    taken,
)

__all__ = ["name"]  # a fixture

# Small, so that it is soon full.
WINDOW = 40


class Bank:
    """The sites of Figure 6, each with a history and an application that forgets nothing."""

    def __init__(self, stack: ExitStack, name: str, folder: Path, recovery: str) -> None:
        self._stack = stack
        self._name = name
        self._folder = folder
        self._settings: dict[str, Any] = {
            "secret": SECRET, "interface": "lo", "join_timeout_s": 90.0, "recovery": recovery,
            "record": str(folder / "journal"), "record_run": "run", "silence_ms": SILENCE_MS,
            "window_messages": WINDOW,
        }  # fmt: skip
        self.sites: dict[str, SiteProcess] = {}
        # All of them are named, so that only the first begins: on a machine so busy that others do
        # not hear each other in time, these could begin a federation of their own.
        for site in [self.start(one, sites=FIGURE6) for one in FIGURE6]:
            site.answer()
        # Before that, a site may send in a graph in which another one is not yet.
        self.together()
        for site in self.sites.values():
            site.call("traffic", GROUPS, 0.03)
        self.flows("a", "b", "c", "d", "e")

    def start(self, one: str, **more: Any) -> SiteProcess:
        site = SiteProcess(
            self._name, one, groups=FIGURE6[one], history=str(self._folder / one),
            ledger=str(self._folder / f"{one}.ledger"), **self._settings, **more,
        )  # fmt: skip
        self.sites[one] = self._stack.enter_context(site)
        return site

    def flows(self, *names: str) -> None:
        """Wait until these get more."""
        sites = [self.sites[one] for one in names]
        counts = [taken(site) for site in sites]
        wait_until(
            lambda: all(
                taken(site) > count + 50 for site, count in zip(sites, counts, strict=True)
            ),
            "traffic flows",
        )

    def together(self) -> None:
        wait_until(
            lambda: all(len(site.state()["members"]) == 5 for site in self.sites.values()),
            "all are together",
        )

    def leave(self) -> Sequence[dict[str, Any]]:
        states = settle(list(self.sites.values()))
        for site in self.sites.values():
            site.call("leave")
        return states


@pytest.mark.parametrize("victim", ["a", "c"])
def test_an_atomic_site_that_is_killed_goes_on_where_it_was(
    name: str, victim: str, tmp_path: Path
) -> None:
    """PROP §5.2.2."""
    with ExitStack() as stack:
        bank = Bank(stack, name, tmp_path, "atomic")
        for _ in range(2):
            bank.sites[victim].die()
            others = [site for one, site in bank.sites.items() if one != victim]
            # Windows fill up, since nobody may forget what that site has not got.
            wait_until(
                lambda others=others: all(  # type: ignore[misc]
                    one.state()["stats"]["retained_held"] >= WINDOW for one in others
                ),
                "whatever needs it waits",
            )
            assert all(len(site.state()["members"]) == 5 for site in others)
            bank.start(victim).answer()
            bank.sites[victim].call("traffic", GROUPS, 0.03)
            bank.flows(*FIGURE6)
        states = bank.leave()
        assert_agree(states)
        for state in states:
            assert len(set(state["taken"])) == len(state["taken"]), "nothing comes twice"
            assert not state["undone"]
            assert "out" not in state["events"]
        for group in GROUPS:
            members = [state for state in states if group in state["groups"]]
            assert len({tuple(at for at in one["taken"] if at[0] == group) for one in members}) == 1
    check_journal(tmp_path / "journal")


@pytest.mark.parametrize("victim", ["a", "c"])
def test_a_non_atomic_site_that_is_killed_is_told_what_to_roll_back(
    name: str, victim: str, tmp_path: Path
) -> None:
    """PROP §5.2.1."""
    with ExitStack() as stack:
        bank = Bank(stack, name, tmp_path, "non-atomic")
        bank.sites[victim].die()
        left = [one for one in FIGURE6 if one != victim]
        wait_until(
            lambda: all(len(bank.sites[one].state()["members"]) == 4 for one in left), "they go on"
        )
        bank.flows(*left)
        bank.start(victim).answer()
        bank.together()
        bank.flows(*FIGURE6)
        for site in bank.sites.values():
            site.call("quiet")
        wait_until(
            lambda: all(site.state()["stable"] for site in bank.sites.values()),
            "all have everything",
        )
        states = {one: site.state() for one, site in bank.sites.items()}
        assert_agree(list(states.values()))
        back = states[victim]
        assert bool(back["undone"]) == ("rolled-back" in back["events"])
        for one in left:
            common = set(FIGURE6[one]) & set(FIGURE6[victim])
            mine = {at for at in back["taken"] if at[0] in common}
            # All have it by now; an application may still have to take it.
            wait_until(
                lambda one=one, mine=mine: mine <= set(bank.sites[one].state()["taken"]),  # type: ignore[misc]
                f"{one} has what the site has that came back",
            )
        for site in bank.sites.values():
            site.call("leave")
    check_journal(tmp_path / "journal")
