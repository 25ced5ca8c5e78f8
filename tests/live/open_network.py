"""Open groups on a network in memory: how they come together, and what becomes of them."""

from typing import Any

from semcast.testing import FakeMember, FakeNetwork

SECRET = "a secret that only tests have"


def present(member: FakeMember) -> int:
    """How many are there, as this member sees it."""
    return 0 if member.session.member is None else len(member.session.member.view.present)


def gather(network: FakeNetwork, count: int, **settings: Any) -> list[FakeMember]:
    """So many members, which are all in and know each other."""
    members = []
    for number in range(count):
        members.append(network.join("quotes", name=f"m{number}", secret=SECRET, **settings))
        network.run(seconds=0.005)
    assert network.run(lambda: all(one.complete and present(one) == count for one in members), 10)
    return members


def payloads(member: FakeMember) -> list[bytes]:
    return [message.payload for message in member.receive_many()]


def news_of(member: FakeMember) -> list[tuple[str, str]]:
    """The events of this member from now on: their kinds and texts."""
    heard: list[tuple[str, str]] = []
    member.session.on_news = lambda kind, text, _: heard.append((kind, text))
    return heard


def not_pending(member: FakeMember) -> bool:
    transfer = None if member.session.member is None else member.session.member.transfers()
    return transfer is not None and not transfer.pending
