"""Gossip in rounds: against closed forms, and against a simulation that moves each copy alone."""

import math
from dataclasses import asdict, replace

import pytest
from tests.model.naive_gossip import summary

from semcast.errors import ConfigError
from semcast.model.epidemic import POLICIES, Epidemic, Outcome, relays_for, run, share_reached
from semcast.model.epidemic import rounds as rounds_module

# Nobody sends often enough for buffers to matter.
CALM = Epidemic(5_000, rate_msg_round=0.25, related_ratio=0.0, settle_rounds=30, measured_rounds=40)
# Twice what links carry if nothing is purged.
BUSY = Epidemic(
    40, links=10, fanout=4, rate_msg_round=5.0, diversity=2, chain_length=5,
    settle_rounds=20, measured_rounds=40,
)  # fmt: skip


def present(value: float | None) -> float:
    assert value is not None
    return value


@pytest.mark.parametrize("copies", [1.2, 2.0, 4.75, 10.0])
def test_the_closed_form_solves_its_equation(copies: float) -> None:
    reached = share_reached(copies)
    assert 0 < reached < 1
    assert math.isclose(reached, 1 - math.exp(-copies * reached), rel_tol=1e-9)


@pytest.mark.parametrize("copies", [0.0, 0.5, 1.0])
def test_a_rumour_that_each_tells_once_at_most_dies_out(copies: float) -> None:
    assert share_reached(copies) == 0


@pytest.mark.parametrize("view", ["full", "partial"])
@pytest.mark.parametrize(
    ("fanout", "loss", "crashed"), [(3, 0.0, 0.0), (5, 0.05, 0.0), (4, 0.2, 0.3), (5, 0.0, 0.6)]
)
def test_without_overload_the_share_reached_is_the_closed_form(
    view: str, fanout: int, loss: float, crashed: float
) -> None:
    """Over 10 messages at 5,000 members; some die out at once, and do not count."""
    settings = replace(CALM, view=view, fanout=fanout, loss=loss, crashed=crashed, relays=60)
    outcome = run(settings)
    expected = share_reached(fanout * (1 - loss) * (1 - crashed))
    assert outcome.messages == outcome.never_obsolete == 10
    died_out = round((1 - present(outcome.receivers_share_mean) / expected) * 10)
    found = present(outcome.receivers_share_mean) * 10 / (10 - died_out)
    assert found == pytest.approx(expected, abs=0.015)
    assert died_out <= (0 if expected > 0.9 else 4)
    assert outcome.dropped_copies == outcome.purged_copies == 0


def test_who_tells_everybody_is_done_in_one_round() -> None:
    settings = Epidemic(
        20, links=19, fanout=19, relays=0, loss=0.0, rate_msg_round=1.0, related_ratio=0.0,
        settle_rounds=5, measured_rounds=10,
    )  # fmt: skip
    outcome = run(settings)
    assert outcome.atomic_share == outcome.receivers_share_mean == 1.0
    assert outcome.receivers_cv == 0.0
    assert outcome.latency_mean_rounds == outcome.latency_p99_rounds == 1
    assert outcome.load_mean_copies_round == pytest.approx(19 / 20)
    assert outcome.redundancy == 1.0


def test_without_relays_only_the_source_sends() -> None:
    outcome = run(replace(CALM, members=60, links=59, relays=0, loss=0.0))
    assert outcome.receivers_share_mean == pytest.approx(6 / 60)
    assert outcome.atomic_share == 0.0
    assert outcome.latency_mean_rounds == 1.0


def test_if_all_copies_are_lost_nobody_gets_anything() -> None:
    outcome = run(replace(CALM, members=50, loss=1.0))
    assert outcome.receivers_share_mean == pytest.approx(1 / 50)
    assert outcome.latency_mean_rounds is outcome.latency_p99_rounds is outcome.redundancy is None


def test_relays_that_are_too_few_for_the_size_show() -> None:
    """PSRM's 4 are enough for 50 members and reach few of 20,000."""
    large = replace(CALM, members=20_000, measured_rounds=20)
    assert present(run(replace(large, relays=4)).receivers_share_mean) < 0.2
    assert run(large).atomic_share == 1.0
    assert relays_for(1_000_000, 5) == 20


@pytest.mark.parametrize(
    ("policy", "view"), [*((policy, "partial") for policy in POLICIES), ("eager", "full")]
)
def test_an_overloaded_group_does_as_one_that_is_simulated_copy_by_copy(
    policy: str, view: str
) -> None:
    """Means of two seeds each. Apart by at most 0.06 in the mean share of members that get a
    message, 0.15 in the share of messages that is atomic, 10% in latency and 4% in load.
    """
    settings = [replace(BUSY, policy=policy, view=view, seed=seed) for seed in (1, 2)]
    ours = [run(one) for one in settings]
    theirs = [summary(one) for one in settings]
    for name, apart, share in (
        ("receivers_share_mean", 0.06, 0.0),
        ("atomic_share", 0.15, 0.0),
        ("latency_mean_rounds", 0.0, 0.1),
        ("load_mean_copies_round", 0.0, 0.04),
    ):
        found, expected = (sum(getattr(one, name) for one in them) / 2 for them in (ours, theirs))
        assert found == pytest.approx(expected, abs=apart, rel=share), name


def test_eager_purging_keeps_what_matters_and_random_dropping_does_not() -> None:
    settings = Epidemic(300, settle_rounds=20, measured_rounds=30)
    eager, random = (run(replace(settings, policy=one)) for one in ("eager", "random"))
    assert present(eager.atomic_share) > 0.95
    assert present(random.atomic_share) < 0.5
    assert present(eager.latency_mean_rounds) < present(random.latency_mean_rounds)


def test_the_same_seed_gives_the_same_figures_and_another_one_others() -> None:
    settings = replace(BUSY, policy="random", view="partial", settle_rounds=5, measured_rounds=10)
    assert run(settings) == run(settings)
    assert run(settings) != run(replace(settings, seed=2))


def test_policies_are_compared_on_the_same_messages() -> None:
    settings = replace(BUSY, settle_rounds=2, measured_rounds=10)
    outcomes = [run(replace(settings, policy=policy)) for policy in POLICIES]
    assert len({(one.messages, one.never_obsolete) for one in outcomes}) == 1


def test_progress_is_told_round_by_round() -> None:
    told: list[tuple[int, int]] = []
    settings = replace(BUSY, settle_rounds=2, measured_rounds=3)
    run(settings, lambda done, rounds: told.append((done, rounds)))
    assert told == [(done, 7) for done in range(1, 8)]


def test_nothing_measured_is_none_and_no_division_by_zero() -> None:
    outcome = run(replace(BUSY, rate_msg_round=0.01, settle_rounds=0, measured_rounds=1))
    assert outcome.messages == 0
    missing = [name for name, value in asdict(outcome).items() if value is None]
    assert set(missing) == {
        name for name, kind in Outcome.__annotations__.items() if "None" in str(kind)
    }


def test_more_than_fits_into_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds_module, "BYTES_MAX", 40 * 3 * 20)
    with pytest.raises(ConfigError, match="21 messages that wait somewhere take"):
        run(replace(BUSY, policy="random"))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"members": 1}, "members is 1; it must be from 2"),
        ({"members": 10_000_001}, "members is 10000001; it must be from 2 to 10000000"),
        ({"fanout": 0}, "fanout is 0; it must be from 1 to 10"),
        ({"fanout": 11}, "fanout is 11; it must be from 1 to 10"),
        ({"members": 4}, "fanout is 4; it must be from 1 to 3"),
        ({"links": 65}, "links is 65"),
        ({"relays": 201}, "relays is 201"),
        ({"buffer_messages": 0}, "buffer_messages is 0"),
        ({"policy": "clever"}, "policy is 'clever'; it must be one of eager, lazy"),
        ({"view": "none"}, "view is 'none'; it must be one of full, partial"),
        ({"rate_msg_round": 0.0}, "rate_msg_round is 0"),
        ({"rate_msg_round": float("nan")}, "rate_msg_round is nan"),
        ({"related_ratio": 1.1}, "related_ratio is 1.1"),
        ({"diversity": 0}, "diversity is 0"),
        ({"chain_length": 0}, "chain_length is 0"),
        ({"loss": -0.1}, "loss is -0.1"),
        ({"crashed": 1.0}, "crashed is 1; it must be from 0 to 0.99"),
        ({"measured_rounds": 0}, "measured_rounds is 0"),
        ({"settle_rounds": -1}, "settle_rounds is -1"),
        ({"seed": -1}, "seed is -1"),
        ({"rate_msg_round": 10_000.0, "measured_rounds": 100_000}, "are more than 1000000"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        replace(BUSY, **changes)  # type: ignore[arg-type]
