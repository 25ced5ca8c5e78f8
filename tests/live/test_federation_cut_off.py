"""A site over real sockets that is cut off under traffic, and has to roll back when it is back."""

import re
import subprocess
from contextlib import ExitStack
from pathlib import Path

from tests.live.groups import wait_until
from tests.live.namespace import own_loopback
from tests.live.test_federation_live import (
    FIGURE6,
    assert_agree,
    check_journal,
    name,
    started,
    taken,
)

__all__ = ["name"]  # a fixture

TABLE = (
    "nft add table inet cut",
    "nft add chain inet cut in { type filter hook input priority 0 ; }",
)


def nft(*words: str) -> None:
    subprocess.run(["nft", *words], check=True, capture_output=True)


def test_what_only_a_site_had_that_was_cut_off_it_undoes(name: str, tmp_path: Path) -> None:
    """As site c in PROP Figure 9: it goes on placing messages of its own, and delivers them; the
    survivors have never heard of these. PROP §5.2.1
    """
    with own_loopback(*TABLE), ExitStack() as stack:
        recorded = {"record": str(tmp_path), "record_run": "run"}
        sites = started(stack, name, **recorded)
        cut = sites["a"].state()["graph"]["primary"]["alpha"]
        others = [site for one, site in sites.items() if one != cut]
        [port] = re.findall(r"\d+$", sites[cut].state()["address"])
        for way in ("sport", "dport"):
            nft("add", "rule", "inet", "cut", "in", "udp", way, port, "drop")
        wait_until(lambda: all(len(one.state()["members"]) == 4 for one in others), "they go on")
        counts = [taken(site) for site in others]
        wait_until(
            lambda: all(taken(one) > count + 50 for one, count in zip(others, counts, strict=True)),
            "traffic flows",
        )
        nft("flush", "table", "inet", "cut")
        wait_until(lambda: "rejoined" in sites[cut].state()["events"], "it is back")
        wait_until(
            lambda: all(len(one.state()["members"]) == 5 for one in sites.values()), "together"
        )
        count = taken(sites[cut])
        wait_until(lambda: taken(sites[cut]) > count + 50, "it gets more")
        for site in sites.values():
            site.call("quiet")
        wait_until(
            lambda: all(site.state()["stable"] for site in sites.values()), "all have everything"
        )
        back = sites[cut].state()
        assert back["events"].index("out") < back["events"].index("rejoined")
        assert "rolled-back" in back["events"]
        assert ("alpha", cut) in {at[:2] for at in back["undone"]}
        agreed = [site.state() for site in sites.values()]
        assert_agree(agreed)
        for state in agreed:
            for group in set(FIGURE6[cut]) & set(state["groups"]):
                mine = {at for at in back["taken"] if at[0] == group}
                assert mine <= set(state["taken"])
        for site in sites.values():
            site.call("leave")
    check_journal(tmp_path)
