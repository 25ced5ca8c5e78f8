"""Another kind of member stands where `Member` stands, in every world."""

import random
from collections import Counter

from tests.live.fake_world import SECRET
from tests.sim.flood import Flood

from semcast.journal import Header, Journal, JournalObserver, node_name
from semcast.live.config import configure
from semcast.live.meeting.session import Session
from semcast.obsolescence.tagger import Replaces
from semcast.protocol.config import MemberConfig
from semcast.sim.exhausting.automaton import MULTICAST, RECEIVE, REMOVE, TICK, Automaton, Datagrams
from semcast.sim.scenario import Protocol, ProtocolScenario
from semcast.sim.surroundings import Crash, Faults, Leave
from semcast.sim.traffic import Overwrites
from semcast.sim.world import Run, run
from semcast.testing import FakeMember, FakeNetwork
from semcast.wire.limits import Limits

BRIEF = ProtocolScenario(
    members=3,
    duration_s=1.0,
    warm_up_s=0.1,
    traffic=Overwrites(r=0.5, d=3, size_bytes=8),
    protocol=Protocol(f=1),
    detection_ms=50.0,
)


def counted(journal: Journal | None) -> Counter[tuple[str, str]]:
    assert journal is not None
    return Counter((event.node, event.event) for event in journal.events)


def flooded(scenario: ProtocolScenario, seed: int = 1) -> Run:
    return run(scenario, seed, make=Flood)


def test_in_the_simulator_everybody_gets_what_was_sent() -> None:
    outcome = flooded(BRIEF)
    events = counted(outcome.journal)
    sent = events["p0.1", "multicast"]
    assert sent > 10
    assert outcome.quiescent
    for node in ("p1.1", "p2.1"):
        assert events[node, "receive"] == events[node, "deliver"] == sent
    assert sum(count for (_, event), count in events.items() if event in ("stable", "purge")) == 0


def test_what_is_lost_it_does_not_send_again() -> None:
    """So it is this machine that runs, and not a member after all."""
    lossy = ProtocolScenario(
        members=3,
        duration_s=1.0,
        warm_up_s=0.1,
        traffic=BRIEF.traffic,
        faults=Faults(loss=0.3),
    )
    events = counted(flooded(lossy).journal)
    assert 0 < events["p1.1", "deliver"] < events["p0.1", "multicast"]


def test_it_hears_of_those_who_are_gone_and_may_leave() -> None:
    scenario = ProtocolScenario(
        members=3,
        duration_s=1.0,
        warm_up_s=0.1,
        traffic=BRIEF.traffic,
        processes=(Crash(1, 0.3), Leave(2, 0.5)),
        detection_ms=50.0,
    )
    outcome = flooded(scenario)
    assert outcome.journal is not None
    assert {1, 2, 3} <= {event.view for event in outcome.journal.events}
    assert counted(outcome.journal)["p2.1", "settled"] == 1


def test_every_order_of_its_datagrams_is_searched() -> None:
    """All states of a sender and a reader: two messages, in any order, any of them lost."""
    datagrams = Datagrams()
    config = MemberConfig(limits=Limits(path_mtu_bytes=576))
    plan: list[Replaces] = [None, None]
    sender = Automaton(config, 0, 2, plan, datagrams, True, b"m", make=Flood)
    reader = Automaton(config, 1, 2, [], datagrams, True, b"m", make=Flood)
    first = sender.step(0, (MULTICAST, 1, 0))
    assert first is not None
    second = sender.step(first.state, (MULTICAST, 1, 0))
    assert second is not None
    ((to, one),), ((also, two),) = first.sent, second.sent
    assert to == also == 1
    seen, ends = {0}, []
    flying = [(0, (*one, *two))]
    while flying:
        state, left = flying.pop()
        ends.append(state)
        for number in left:
            step = reader.step(state, (RECEIVE, 0, number))
            assert step is not None
            assert [event.event for event in step.events] == ["receive", "deliver"]
            seen.add(step.state)
            flying.append((step.state, tuple(other for other in left if other != number)))
    # Nothing, one of them, and both in either order: who has both journals two different runs.
    assert len(seen) == 5
    assert len({reader.journals[state] for state in seen}) == 5
    again = reader.step(max(seen), (RECEIVE, 0, one[0]))
    assert again is not None
    assert again.events == ()
    quiet = reader.step(0, (TICK, 0, 0))
    assert quiet is not None
    assert quiet.state == reader.step(quiet.state, (TICK, 0, 0)).state  # type: ignore[union-attr]
    gone = reader.step(0, (REMOVE, 0, 0))
    assert gone is not None
    deaf = reader.step(gone.state, (RECEIVE, 0, one[0]))
    assert deaf is not None
    assert deaf.events == ()


def join(network: FakeNetwork, name: str, journal: Journal) -> FakeMember:
    """A session on a fake network, with another kind of member in it."""
    config = configure({"group": "quotes", "name": name, "members": ("a", "b"), "secret": SECRET})
    session = Session(
        config,
        network.transport(),
        [],
        network.now_ns,
        random.Random(name),
        lambda me: JournalObserver(journal, node_name(me), lambda: network.now_ns),
        Flood,
    )
    member = FakeMember(network, session)
    network.members.append(member)
    return member


def test_live_sessions_run_it() -> None:
    network = FakeNetwork(seed=1)
    journal = Journal(Header(run="flood", members=("p1.1",)))
    a, b = (join(network, name, journal) for name in "ab")
    assert network.run(lambda: a.complete and b.complete)
    assert isinstance(a.session.member, Flood)
    a.send(b"one")
    a.send(b"two")
    assert network.run(lambda: b.waiting == 2)
    assert sorted(message.payload for message in b.receive_many()) == [b"one", b"two"]
    events = counted(journal)
    me, other = node_name(a.session.me), node_name(b.session.me)
    assert events[me, "multicast"] == 2
    assert events[other, "receive"] == events[other, "deliver"] == 2
    assert {event.view for event in journal.events} == {1}
    b.leave()
    assert network.run(lambda: not a.session.member.view.is_present(b.session.me.sender))  # type: ignore[union-attr]
