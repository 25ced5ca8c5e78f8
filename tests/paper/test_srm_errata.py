"""Where SRM prints what its own model does not give; each shown by equation and by execution."""

import pytest
from tests.paper.slow_receiver import simulate

from semcast.model.purge import f_rd, from_table, purge_ratio, smallest_buffer, throughput


def test_a_quarter_of_overwrites_carries_67_messages_a_second_and_not_75() -> None:
    """Printed "75 msg/s versus 50 msg/s" for r = 0.25, 20 ms, d = 1, N = 20.

    75 is Ts(1 - r): what would be left of 100 msg/s after purging, which a receiver of 50 msg/s
    cannot take. What equation 1 and a simulation allow is Tr/(1 - r). SRM §6.2
    """
    by_equation = throughput(purge_ratio(f_rd(0.25, 1), 20), 100, 50).sender_rate_msg_s
    run = simulate(
        r=0.25,
        d=1,
        buffer_messages=20,
        sender_period_us=10_000,
        receiver_period_us=20_000,
        messages=60_000,
        seed=7,
    )
    assert by_equation == pytest.approx(66.6, abs=0.05)
    assert throughput(f_rd(0.25, 1).limit, 100, 50).sender_rate_msg_s == pytest.approx(200 / 3)
    assert run.sender_rate_msg_s == pytest.approx(by_equation, abs=0.5)
    # What enters and is not purged must leave at 50 msg/s: 75 would need a third purged.
    assert run.sender_rate_msg_s * (1 - run.purged_share) == pytest.approx(50, abs=0.1)
    assert f_rd(0.25, 1).limit < 1 - 50 / 75


def test_the_game_cannot_purge_60_percent_if_42_percent_never_become_obsolete() -> None:
    """§7.2 prints "up to 60% of traffic", §7.1 that 41.88% never became obsolete. SRM §7"""
    never_obsolete, printed = 0.4188, 0.60
    nearest_possible = from_table({0: never_obsolete, 1: 1 - never_obsolete})
    assert nearest_possible.limit == pytest.approx(0.5812)
    assert nearest_possible.limit < printed


def test_the_game_carries_30_ms_only_below_80_messages_a_second() -> None:
    """§7.2: delays "from 10 ms to 30 ms" leave the sender alone, which sends every 10 ms.

    At 100 msg/s that needs two thirds purged. It holds for the rate that the game itself makes,
    30 rounds of one reliable message and 1.39 updates a second. SRM §7.2
    """
    nearest_possible = from_table({0: 0.4188, 1: 0.5812})
    receiver_msg_s = 1000 / 30
    assert not smallest_buffer(nearest_possible, 100, receiver_msg_s).feasible
    bound = smallest_buffer(nearest_possible, 100, receiver_msg_s).sender_rate_bound_msg_s
    assert bound == pytest.approx(79.6, abs=0.1)
    assert smallest_buffer(nearest_possible, 30 * (1 + 1.39), receiver_msg_s).feasible


@pytest.mark.parametrize(
    ("r", "buffer", "optimistic"),
    [(0.5, 10, False), (0.5, 20, False), (0.75, 6, False), (0.75, 10, True)],
)
def test_the_model_is_optimistic_only_at_the_knee_where_independent_messages_limit(
    r: float, buffer: int, optimistic: bool
) -> None:
    """Printed: with d = 5 "the analytical model is somewhat optimistic". SRM §6.2

    It is where it says that the sender is just no longer disturbed; below that it is pessimistic
    here too, for the reason that the paper gives for large d.
    """
    by_equation = throughput(purge_ratio(f_rd(r, 5), buffer), 100, 40).sender_rate_msg_s
    run = simulate(
        r=r,
        d=5,
        buffer_messages=buffer,
        sender_period_us=10_000,
        receiver_period_us=25_000,
        messages=30_000,
        seed=8,
    )
    assert abs(by_equation - run.sender_rate_msg_s) > 1
    assert (by_equation > run.sender_rate_msg_s) == optimistic
