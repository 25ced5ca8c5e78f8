"""Datagrams of others that really come to a group's ports: refused, counted, and without effect."""

import pytest
from tests.live.groups import (
    address_of,
    free_port,
    meeting,
    new_group,
    quiet,
    take,
    wait_until,
    way_settings,
)
from tests.live.material import Way

import semcast.blocking
from semcast.errors import GroupClosedError
from semcast.live.config import changed
from semcast.live.meeting import joining

OTHER = "another secret of tests........."
Members = list[semcast.blocking.Group]


def addresses(members: Members) -> list[str]:
    return [address_of(member) for member in members]


def wait_refused(members: Members, reason: str) -> None:
    """More than once: they keep coming."""
    for member in members:
        wait_until(
            lambda one=member: one.stats()[f"refused_{reason}"] > 2,  # type: ignore[misc]
            f"{member.name} refuses what others send: {reason}",
        )


def assert_among_themselves(members: Members) -> None:
    """Everybody gets what is sent, and nobody anything else."""
    text = [b"%s %d" % (members[0].config.group.encode(), number) for number in range(20)]
    members[0].send_many(text)
    for member in members:
        assert [message.payload for message in take(member, len(text))] == text
        assert quiet(member)
        assert sorted(view.name for view in member.view) == [one.name for one in members]
        assert not member._engine.session.roster.strangers


def test_groups_that_are_told_each_others_addresses_do_not_mix(unicast: Way) -> None:
    """The same names of members, the same group's name with another secret, and another name."""
    group = new_group()
    with (
        meeting(unicast, "ab", group=group) as ours,
        meeting(unicast, "ab", addresses(ours), group=group, secret=OTHER) as theirs,
        # With other buffers they are at ports of their own.
        meeting(
            unicast,
            "ab",
            addresses(ours + theirs),
            group=group + "-too",
            receive_buffer_bytes=1 << 20,
        ) as thirds,
    ):
        wait_refused(ours, "tag")
        wait_refused(ours + theirs, "group")
        for members in (ours, theirs, thirds):
            assert_among_themselves(members)


def test_a_member_without_a_secret_and_a_sealed_group_refuse_each_other(way: Way) -> None:
    """It comes by the name of one of them, to the group's own address."""
    host = way_settings(way).get("host", "")
    port = free_port(host) if host else 0
    also = [f"[{host}]:{port}" if way.ipv6 else f"{host}:{port}"] if host else []
    with meeting(way, also=also) as sealed:
        config = changed(
            sealed[2].config, secret=None, insecure=True, port=port, peers=addresses(sealed),
            join_timeout_s=0.5,
        )  # fmt: skip
        clear = semcast.blocking.Group(config)
        try:
            wait_refused([*sealed, clear], "suite")
            with pytest.raises(GroupClosedError, match=r"not heard of: .* the same secret"):
                joining.wait_complete(clear._engine)
        finally:
            clear.leave(0.0)
        assert not any(member.closed for member in sealed)
        assert_among_themselves(sealed)
