"""A group on a fake network, in virtual time, and the journal of all its members."""

from typing import Any

from semcast.check import Report, check_all
from semcast.ids import Source
from semcast.journal import Header, Journal, JournalObserver, node_name
from semcast.testing import FakeMember, FakeNetwork

SECRET = b"a secret of 32 bytes in a test.."
OTHER_SECRET = b"another secret of the same size."


class World:
    """A fake network, a group on it, and the journal of all its members."""

    def __init__(self, seed: int = 1, names: str = "abc", **network: Any) -> None:
        self.network = FakeNetwork(seed, **network)
        self.names = names
        self.journal: Journal | None = None
        self.settings: dict[str, Any] = {"secret": SECRET, "members": tuple(names)}

    def join(self, name: str, **changed: Any) -> FakeMember:
        settings = self.settings | changed
        return self.network.join("quotes", name=name, observer=self.observer, **settings)

    def gather(self, **changed: Any) -> list[FakeMember]:
        """All members, complete, with an empty journal."""
        members = [self.join(name, **changed) for name in self.names]
        assert self.network.run(lambda: all(one.complete for one in members))
        return members

    def observer(self, me: Source) -> JournalObserver:
        """Members begin one after the other, so all first lives are in the header already."""
        if self.journal is None:
            lives = [node_name(one.session.me) for one in self.network.members]
            one = self.network.members[0]
            config = one.session.config.member_config(len(lives), 1500)
            self.journal = Journal(Header.of(config, lives, "fake"))
        return JournalObserver(self.journal, node_name(me), lambda: self.network.now_ns)

    def end(self, member: FakeMember, event: str) -> None:
        assert self.journal is not None
        if event == "leave":
            member.leave()
        else:
            member.crash()
        self.journal.record(self.network.now_ns, node_name(member.session.me), event)

    def come_to_rest(self, members: list[FakeMember]) -> None:
        """Everything that was sent is everywhere, and taken."""
        assert self.network.run(lambda: all(one.stable for one in members)), "never at rest"
        for one in members:
            one.receive_many()

    def check(self) -> Report:
        """Every promise was kept; says by how much each was judged."""
        assert self.journal is not None
        report = check_all(self.journal)
        assert report.ok, str(report)
        return report


def payloads(member: FakeMember) -> list[bytes]:
    return [message.payload for message in member.receive_many()]
