"""Keys are rotated by the command line while a group is busy: no message is lost by it."""

import json
from pathlib import Path

import pytest
from tests.live.groups import DEADLINE_S, SECRET, Nodes, payloads, wait_until
from tests.live.journals import check_journals, leave_all
from tests.live.material import Way

from semcast.cli import main

pytest.importorskip("pyarrow")
NEW = "the secret that comes after it 12"
SENDERS = "ab"


class Rotation:
    """A group, and the commands that change its keys."""

    def __init__(self, nodes: Nodes, folder: Path) -> None:
        self._nodes = nodes
        self._secrets = {"1": folder / "old", "2": folder / "new"}
        for path, secret in zip(self._secrets.values(), (SECRET, NEW), strict=True):
            path.write_text(secret)
            path.chmod(0o600)

    def command(self, step: str, key_id: str, sealed_with: str, *more: str) -> int:
        """One step of the rotation, at every member; the exit code."""
        node = self._nodes["a"]
        where = ["--secret-file", str(self._secrets[sealed_with]), "--key-id", sealed_with]
        if self._nodes.way.kind == "unicast":
            where += ["--transport", "unicast", "--peers", node.address]
        else:
            where += ["--transport", "multicast", "--interface", "lo"]
        where += ["--timeout", str(DEADLINE_S), "--json"]
        return main(["keys", step, self._nodes.group, key_id, *where, *more])

    def run(self, capsys: pytest.CaptureFixture[str]) -> None:
        new = ["--new-secret-file", str(self._secrets["2"])]
        steps = [("install", "2", "1", *new), ("use", "2", "1", *new), ("remove", "1", "2")]
        for step in steps:
            assert self.command(*step) == 0
            assert json.loads(capsys.readouterr().out)["done"] == list(self._nodes.names)
            self._go_on()

    def _go_on(self) -> None:
        """Until everybody has some that were sealed after the step, and so all before them."""
        for sender in SENDERS:
            assert self._nodes[sender].call("sending")
            more = len(self._nodes[sender].call("sent")) + 50
            for node in self._nodes:
                wait_until(
                    lambda n=node, s=sender, m=more: n.call("count", sender=s) >= m,  # type: ignore[misc]
                    f"{node.name} gets more of {sender}",
                )


@pytest.mark.parametrize("kind", ["multicast", "unicast"])
def test_every_message_arrives_once_and_in_order_while_keys_are_rotated(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing of it is refused for its key, either: repair would hide that. (A datagram that comes
    twice, as on a busy machine, is refused the second time, which loses nothing.)
    """
    journals = tmp_path / "journals"
    with Nodes(Way(kind, ipv6=False), record=str(journals)) as nodes:
        for node in nodes:
            node.call("collect")
        for name in SENDERS:
            nodes[name].call("traffic", count=100_000, gap_s=0.005)
        Rotation(nodes, tmp_path).run(capsys)
        for name in SENDERS:
            nodes[name].call("stop_sending")
        for sender in SENDERS:
            sent = [text for _, text in nodes[sender].call("sent")]
            all_of_it = len(sent)
            for node in nodes:
                wait_until(
                    lambda n=node, s=sender, c=all_of_it: n.call("count", sender=s) == c,  # type: ignore[misc]
                    f"{node.name} has all of {sender}",
                )
                assert payloads(node.call("collected"), sender) == sent
        for node in nodes:
            stats = node.call("stats")
            refused = {why for why in stats if why.startswith("refused_") and stats[why]}
            assert refused <= {"refused_seen"}
        leave_all(nodes)
    check_journals(journals, rested=3)
