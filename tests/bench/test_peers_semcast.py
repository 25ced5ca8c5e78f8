"""What the benchmark asks of semcast's blocking façade, against a stand-in for it."""

import sys
from collections import deque
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from bench.peers.adapters.semcast import PEER
from bench.peers.api import Setup, UnavailableError, Variant


class FakeGroup:
    """Remembers what was asked of it."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.name = name
        self.options = options
        self.sent: list[tuple[bytes, str | None]] = []
        self.waiting: deque[bytes] = deque()
        self.left = False

    def send(self, payload: bytes, replaces: str | None = None) -> None:
        self.sent.append((payload, replaces))

    def send_many(self, payloads: list[bytes]) -> None:
        self.sent += [(payload, None) for payload in payloads]

    def receive(self, timeout: float) -> SimpleNamespace:  # noqa: ARG002
        if not self.waiting:
            raise TimeoutError
        return SimpleNamespace(payload=self.waiting.popleft())

    def receive_many(self, messages_max: int, timeout: float) -> list[SimpleNamespace]:
        return [self.receive(timeout) for _ in range(min(messages_max, max(1, len(self.waiting))))]

    def leave(self) -> None:
        self.left = True


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[FakeGroup]:
    made: list[FakeGroup] = []

    def join(group: str, **options: Any) -> FakeGroup:
        made.append(FakeGroup(group, options))
        return made[-1]

    blocking = ModuleType("semcast.blocking")
    vars(blocking)["join"] = join
    monkeypatch.setitem(sys.modules, "semcast.blocking", blocking)
    return made


def setup_of(variant: Variant, role: str) -> Setup:
    return Setup(role, "a-run", 1, "", 64, variant.options, ("r1", "r2"))


@pytest.mark.parametrize("variant", PEER.variants, ids=lambda v: f"{v.name}/{v.workloads[0]}")
def test_every_variant_joins_as_one_of_three_and_is_sealed_or_says_it_is_not(
    variant: Variant, groups: list[FakeGroup]
) -> None:
    for end in (
        variant.sender(setup_of(variant, "sender")),
        variant.receiver(setup_of(variant, "r1")),
    ):
        end.open()
        end.close()
    for group, role in zip(groups, ("sender", "r1"), strict=True):
        assert group.name == "a-run"
        assert group.left
        assert group.options["name"] == role
        assert group.options["members"] == ["sender", "r1", "r2"]
        assert group.options["deliver_own"] is False
        assert group.options["reliability"] in ("sender", "group")
        assert group.options["order"] in ("fifo", "key")
        assert (group.options["secret"] is None) == group.options.get("insecure", False)


def test_keys_are_what_a_message_replaces(groups: list[FakeGroup]) -> None:
    variant = PEER.variants[0]
    sender = variant.sender(setup_of(variant, "sender"))
    sender.open()
    sender.send(b"a", "AAPL")
    sender.send(b"b", None)
    sender.send_many([b"c", b"d"])
    assert groups[0].sent == [(b"a", "AAPL"), (b"b", None), (b"c", None), (b"d", None)]


def test_a_receiver_gets_payloads_and_nothing_when_time_is_up(groups: list[FakeGroup]) -> None:
    variant = PEER.variants[0]
    receiver = variant.receiver(setup_of(variant, "r1"))
    receiver.open()
    groups[0].waiting.extend([b"a", b"b", b"c"])
    assert receiver.receive(0.1) == b"a"
    assert receiver.receive_many(10, 0.1) == [b"b", b"c"]
    assert receiver.receive(0.1) is None
    assert receiver.receive_many(10, 0.1) == ()


def test_a_package_without_the_facade_is_not_built_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "semcast.blocking", None)
    variant = PEER.variants[0]
    with pytest.raises(UnavailableError, match="not built yet"):
        variant.sender(setup_of(variant, "sender")).open()
