"""Federations over real sockets, with sites in processes of their own: order and failures."""

import asyncio
import itertools
import signal
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.live.groups import wait_until
from tests.live.site_process import SiteProcess

import semcast
import semcast.blocking
from semcast.check import History, check_all
from semcast.errors import ConfigError, InputError, OtherKindError, UnknownGroupError
from semcast.journal import read_journal

SECRET = "a secret that only tests have"
# PROP Figure 6.
FIGURE6 = {
    "a": ("alpha", "gamma"), "b": ("alpha", "gamma"), "c": ("alpha", "beta"),
    "d": ("alpha", "beta"), "e": ("alpha", "beta"),
}  # fmt: skip
GROUPS = ["alpha", "beta", "gamma"]
# On a busy machine no site that only waits for a processor may be taken for one that failed.
SILENCE_MS = 4_000.0


@pytest.fixture
def name() -> str:
    return f"bank-{uuid.uuid4().hex[:8]}"


def started(stack: ExitStack, name: str, **settings: Any) -> dict[str, SiteProcess]:
    """All sites of Figure 6, which send to all groups."""
    given = {"secret": SECRET, "interface": "lo", "join_timeout_s": 90.0}
    given |= {"silence_ms": SILENCE_MS} | settings
    sites = {
        one: stack.enter_context(SiteProcess(name, one, sites=FIGURE6, **given)) for one in FIGURE6
    }
    for site in sites.values():
        site.answer()
    for site in sites.values():
        site.call("traffic", GROUPS, 0.03)
    wait_until(lambda: all(taken(site) > 50 for site in sites.values()), "traffic flows")
    return sites


def taken(site: SiteProcess) -> int:
    return len(site.state()["taken"])


def settle(sites: Sequence[SiteProcess]) -> list[dict[str, Any]]:
    """Stop the traffic, and wait until everybody has everything."""
    for site in sites:
        site.call("quiet")

    def all_have_all() -> bool:
        states = [site.state() for site in sites]
        counts = {
            (group, len([at for at in state["taken"] if at[0] == group]))
            for state in states
            for group in state["groups"]
        }
        return all(state["stable"] for state in states) and len(counts) == len(dict(counts))

    wait_until(all_have_all, "everybody has everything")
    return [site.state() for site in sites]


def check_journal(folder: Path) -> History:
    """The journal of the whole run keeps what was promised, and says something."""
    history = History(read_journal(folder, "run"))
    report = check_all(history)
    assert report.ok, str(report)
    assert history.header.reliability == "federation"
    assert history.counts["deliver"] > 0
    for name in ("Multiple Group Order", "Acyclic Order", "Single Source Order"):
        assert report.judged[name] > 0, str(report)
    return history


def assert_agree(states: Sequence[dict[str, Any]]) -> None:
    """Any two sites took what both took in the same order."""
    for one, other in itertools.combinations(states, 2):
        both = set(one["taken"]) & set(other["taken"])
        ours = [at for at in one["taken"] if at in both]
        assert ours == [at for at in other["taken"] if at in both]


def test_overlapping_groups_have_one_order(name: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        sites = started(stack, name, record=str(tmp_path), record_run="run")
        states = settle(list(sites.values()))
        assert_agree(states)
        for state, groups in zip(states, FIGURE6.values(), strict=True):
            assert set(state["groups"]) == set(groups)
            assert {at[0] for at in state["taken"]} == set(groups)
            assert {at[1] for at in state["taken"]} == set(FIGURE6)
            assert set(state["graph"]["groups"]["beta"]) == {"c", "d", "e"}
            assert not state["undone"]
        left = [site.call("leave") for site in sites.values()]
        assert all(left)
    check_journal(tmp_path)


def test_others_go_on_without_a_killed_site_and_it_may_come_back(name: str, tmp_path: Path) -> None:
    """Non-atomic recovery (PROP §5.2.1), of the manager and of another site."""
    recorded = {"record": str(tmp_path), "record_run": "run"}
    with ExitStack() as stack:
        sites = started(stack, name, **recorded)
        for victim in ("a", "d"):
            sites[victim].kill()
            left = [site for one, site in sites.items() if one != victim]
            wait_until(
                lambda left=left: all(len(site.state()["members"]) == 4 for site in left),  # type: ignore[misc]
                f"the others go on without {victim}",
            )
            counts = [taken(site) for site in left]
            wait_until(
                lambda left=left, counts=counts: all(  # type: ignore[misc]
                    taken(site) > count + 50 for site, count in zip(left, counts, strict=True)
                ),
                "traffic flows again",
            )
            back = SiteProcess(
                name, victim, secret=SECRET, interface="lo", groups=FIGURE6[victim],
                join_timeout_s=90.0, silence_ms=SILENCE_MS, **recorded,
            )  # fmt: skip
            sites[victim] = stack.enter_context(back)
            back.answer()
            # If it heard nobody in time, it has begun alone; then it gives way.
            wait_until(
                lambda: all(len(site.state()["members"]) == 5 for site in sites.values()),
                "all are together again",
            )
        counts = [taken(site) for site in sites.values()]
        wait_until(
            lambda: all(
                taken(site) > count + 20 for site, count in zip(sites.values(), counts, strict=True)
            ),
            "all get more",
        )
        for site in sites.values():
            site.call("quiet")
        states = [site.state() for site in sites.values()]
        assert_agree(states)
        assert "failed" in states[1]["events"]
        for site in sites.values():
            site.call("leave")
    check_journal(tmp_path)


def test_a_site_that_was_stopped_comes_back_and_is_told_what_to_roll_back(
    name: str, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        sites = started(stack, name, record=str(tmp_path), record_run="run")
        stopped = sites["c"]
        stopped.signal(signal.SIGSTOP)
        left = [site for one, site in sites.items() if one != "c"]
        wait_until(lambda: all(len(one.state()["members"]) == 4 for one in left), "they go on")
        stopped.signal(signal.SIGCONT)
        wait_until(lambda: "rejoined" in stopped.state()["events"], "it is back")
        wait_until(
            lambda: all(len(one.state()["members"]) == 5 for one in sites.values()), "together"
        )
        count = taken(stopped)
        wait_until(lambda: taken(stopped) > count + 50, "it gets more")
        for site in sites.values():
            site.call("quiet")
        states = [site.state() for site in sites.values()]
        assert_agree(states)
        events = states[2]["events"]
        assert events.index("out") < events.index("rejoined")
        assert bool(states[2]["undone"]) == ("rolled-back" in events)
        for site in sites.values():
            site.call("leave")
    check_journal(tmp_path)


def test_sites_come_change_and_go_while_traffic_runs(name: str) -> None:
    with ExitStack() as stack:
        sites = started(stack, name)
        late = SiteProcess(
            name, "late", secret=SECRET, interface="lo", groups=["beta", "delta"],
            join_timeout_s=90.0, silence_ms=SILENCE_MS,
        )  # fmt: skip
        stack.enter_context(late)
        late.answer()
        late.call("traffic", ["delta", "alpha"], 0.03)
        late.call("change", ["gamma", "delta"])
        assert set(late.state()["groups"]) == {"delta", "gamma"}
        assert sites["b"].call("leave")
        left = [late, *(site for one, site in sites.items() if one != "b")]
        wait_until(lambda: all(len(one.state()["members"]) == 5 for one in left), "b has left")
        wait_until(
            lambda: {"gamma", "delta"} <= {at[0] for at in late.state()["taken"]},
            "it gets messages of its new groups",
        )
        for site in left:
            site.call("quiet")
        states = [site.state() for site in left]
        assert_agree(states)
        assert "left" in states[1]["events"]


def test_asyncio_and_blocking_sites_meet_and_hear_what_happens(name: str) -> None:
    async def both() -> tuple[list[str], bytes]:
        settings: dict[str, Any] = {"secret": SECRET, "interface": "lo"}
        settings["silence_ms"] = SILENCE_MS
        kinds: list[str] = []

        async def listen(site: semcast.Site) -> None:
            kinds.extend([event.kind async for event in site.events()])

        async with semcast.federate(name, name="a", groups=("alpha",), **settings) as a:
            listening = asyncio.create_task(listen(a))
            await asyncio.sleep(0)
            b = await asyncio.to_thread(
                semcast.blocking.federate, name, name="b", groups=("alpha", "beta"), **settings
            )
            while "beta" not in a.known_groups:  # each site hears of a new graph in its own time
                await asyncio.sleep(0.01)
            assert await a.send("beta", b"1") == 1
            assert await a.send_many("alpha", [b"2", b"3"], replaces=["k", None]) == 2
            got = [await asyncio.to_thread(b.receive, 30) for _ in range(3)]
            assert [(one.group, one.payload) for one in got if one.group == "alpha"][-1][1] == b"3"
            assert (await a.receive()).group == "alpha"
            with pytest.raises(UnknownGroupError):
                a.send_nowait("gamma", b"4")
            await asyncio.to_thread(b.leave)
        await asyncio.wait_for(listening, 30)
        return kinds, got[0].payload

    kinds, _ = asyncio.run(both())
    assert {"joined", "opened", "left"} <= set(kinds)


def test_bad_input_is_one_clear_line(name: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"secret": SECRET, "interface": "lo"}
    folder = str(tmp_path / "history")
    with semcast.blocking.federate(
        name, name="a", groups=("alpha",), history=folder, **settings
    ) as site:
        with pytest.raises(ConfigError, match="groups is 'beta'; it must be a list of names"):
            site.change("beta")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="group name ''"):
            site.change([""])
        with pytest.raises(InputError, match="in use by another site"):
            semcast.blocking.federate(name, name="b", history=folder, **settings)
        with pytest.raises(OtherKindError, match="says that it is a federation; use federate"):
            semcast.blocking.join(name, name="c", **settings)
    with pytest.raises(InputError, match="is the history of site 'a'"):
        semcast.blocking.federate(name, name="b", history=folder, **settings)
