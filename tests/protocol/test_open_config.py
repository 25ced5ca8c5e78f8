"""What is kept in open groups, whose members are not counted beforehand."""

import random

import pytest

from semcast.errors import ConfigError
from semcast.ids import Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.member import Member
from semcast.protocol.membership.view import View
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.queue.verdict import Verdict
from semcast.wire.message import Message
from semcast.wire.sources import Sources


def test_a_total_is_refused_and_says_what_to_do() -> None:
    me = Source(5, 1)
    with pytest.raises(ConfigError, match=r"total_messages is 100.*window_messages.*members="):
        Member(MemberConfig(total_messages=100), me, View.alone(me, "", 7), random.Random(0))


@pytest.mark.parametrize("policy", ["eager", "lazy", "watermark"])
def test_what_is_kept_is_bounded_by_source_however_many_come(policy: str) -> None:
    config = MemberConfig(window_messages=4, purge_policy=policy)
    kept = PurgingBuffer(config.retained_config(1, True), "retransmit")
    for sender in range(50):
        for seq in range(1, 5):
            assert kept.insert(Message(Source(sender, 1), seq, b"m")) is Verdict.STORED
        assert kept.insert(Message(Source(sender, 1), 5, b"m")) is Verdict.FULL
    assert kept.held == 200


def test_many_names_are_given_at_once() -> None:
    sources = Sources(100)
    known = sources.intern(Source(1, 1))
    sources.name_all({1: "one", 2: "two"})
    assert known.name == "one"
    assert sources.intern(Source(2, 1)).name == "two"
