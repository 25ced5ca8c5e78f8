"""Whatever readers' frames say, and whoever says it: members go on, and keep nothing of it."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocol.membership.network import MS, ORIGIN, S
from tests.wire.material import encoded, readers

from semcast.ids import Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.member import Member
from semcast.protocol.membership.view import View

ME = Source(1, 1)
FROM = [Source(2, 1), Source(2, 2), Source(3, 1), Source(1, 1), Source(0xA11CE, 3)]
KINDS = {
    "feed": MemberConfig(reliability="sender"),
    "reader of a feed": MemberConfig(reliability="sender", role="reader"),
    "group": MemberConfig(f=0),
    "reader of a group": MemberConfig(f=0, role="reader"),
}


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=60)
@given(said=st.lists(st.tuples(st.sampled_from(FROM), readers(), st.integers(0, 4)), max_size=12))
def test_any_frames_of_readers_do_no_harm(kind: str, said: list[tuple]) -> None:  # type: ignore[type-arg]
    view = View.alone(ME, "me", ORIGIN)
    member = Member(KINDS[kind], ME, view, random.Random(1))
    now_ns = 0
    for source, frame, pause in said:
        member.receive(encoded([frame], source), source, now_ns)
        member.datagrams(now_ns)
        now_ns += [0, MS, 100 * MS, S, 5 * S][pause]
        while member.next_deadline_ns() <= now_ns and pause:
            member.on_timer(now_ns)
            member.datagrams(now_ns)
    # Nobody answers: all of them are forgotten in the end.
    for _ in range(120):
        now_ns += 500 * MS
        member.on_timer(now_ns)
        member.datagrams(now_ns)
    assert member.stats().get("readers", 0) == 0
    assert member._readers is None or len(member._readers) == 0
    if kind == "feed":
        assert list(member.view.members) == [1]
        member.multicast(b"m", None, now_ns)
        member.datagrams(now_ns)
        assert member.all_stable()
