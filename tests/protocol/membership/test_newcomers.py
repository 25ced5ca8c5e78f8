"""Whatever is sent, replaced and lost, and whoever comes back when: newcomers get what stands."""

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.protocol.membership.newcomers import NewcomerGroup

from semcast.obsolescence.tagger import Keys, Predecessors, Ranked, Replaces
from semcast.protocol.config import MemberConfig
from semcast.protocol.member import Member

CONFIGS = st.builds(
    MemberConfig,
    f=st.sampled_from([0, 1]),
    reliability=st.sampled_from(["group", "sender"]),
    order=st.sampled_from(["fifo", "key"]),
    replacement=st.sampled_from(["key", "bitmap"]),
    k=st.just(16),
    stability=st.sampled_from(["gossip", "gossip", "coordp", "train"]),
    window_messages=st.sampled_from([16, 256]),
    delivery_messages=st.sampled_from([16, 256]),
)
NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
REPLACES: st.SearchStrategy[Replaces] = (
    NAMES
    | st.none()
    | st.lists(NAMES, min_size=1, max_size=3).map(lambda names: Keys(tuple(names)))
    | st.builds(Ranked, NAMES, st.integers(0, 5))
    | st.just(Predecessors((1,)))
)
SENDS = st.tuples(st.just("send"), st.integers(0, 2), REPLACES)
RESTS = st.tuples(st.just("rest"), st.sampled_from([1, 10, 100]), st.none())
RETURNS = st.tuples(st.just("return"), st.integers(0, 2), st.none())
STEPS = st.lists(SENDS | SENDS | SENDS | RESTS | RETURNS, min_size=5, max_size=60)


def send(group: NewcomerGroup, sender: int, replaces: Replaces) -> None:
    sent = len(group.history[group.members[sender].me])
    if isinstance(replaces, Predecessors):
        # A newcomer that did not get this one cannot be told that it is replaced.
        if sent == 0:
            return
        replaces = Predecessors((sent,))
    group.put(sender, b"%d" % sent, replaces)


# An example takes long to run, so failures are shown as they are found.
@settings(
    max_examples=60,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(CONFIGS, STEPS, st.integers(0, 1 << 16), st.sampled_from([0.0, 0.1]))
def test_newcomers_get_exactly_what_stands(
    config: MemberConfig, steps: list[tuple[str, int, Replaces]], seed: int, loss: float
) -> None:
    group = NewcomerGroup(config, 3, seed)
    newcomers: list[Member] = []
    for sender in range(3):
        group.put(sender, b"hello", None)
    for step, number, replaces in steps:
        group.loss = loss
        if step == "send":
            send(group, number, replaces)
        elif step == "rest":
            group.run(number)
        else:
            # What a member sent and nobody got goes with it; that is no matter of state.
            group.settle()
            group.loss = loss
            newcomers.append(group.come_back(number))
            # Rounds of votes need something to vote on.
            group.put(number, b"back", None)
    group.loss = 0.0
    for newcomer in newcomers:
        if group.members.get(int(newcomer.me.sender)) is newcomer:
            group.until_whole(newcomer)
    group.settle()
    for newcomer in newcomers:
        present = group.members.get(int(newcomer.me.sender)) is newcomer
        if present and newcomer.stats()["state_incomplete"] == 0:
            group.check(newcomer)
