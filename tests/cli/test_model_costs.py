"""`semcast model stability`, `trigger` and `propagation`: their keys and their figures."""

import json

import pytest

from semcast.cli import main


def run(capsys: pytest.CaptureFixture[str], line: str) -> str:
    assert main(["model", *line.split()]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def words(capsys: pytest.CaptureFixture[str], line: str) -> str:
    return " ".join(run(capsys, line).split())


STABILITY = "stability --branching 4 --height 5 --leaf-degree 3"
TRIGGER = "trigger --buffer 100 --rate 0.2 --rtt 50 --alpha 0.9"
PROPAGATION = "propagation --members 5 --latency-ms 10 --processing-ms 1 --depth 2 --extra-nodes 1"


def test_stability_costs_of_1109_members(capsys: pytest.CaptureFixture[str]) -> None:
    """STAB tables 1, 3 and 4."""
    found = json.loads(run(capsys, f"{STABILITY} --json"))
    assert list(found) == ["branching", "height", "leaf_degree", "group_size", "protocols"]
    assert found["group_size"] == 1109
    assert list(found["protocols"]) == ["CoordP", "FullDist", "Train", "S_CoordP", "S_Train"]
    for cost in found["protocols"].values():
        assert list(cost) == [
            "rounds",
            "messages_all_hops",
            "messages_all_hops_by_type",
            "messages_processed",
        ]
        assert sum(cost["messages_all_hops_by_type"].values()) == cost["messages_all_hops"]
    assert found["protocols"]["CoordP"]["messages_all_hops"] == 7308
    assert found["protocols"]["CoordP"]["messages_processed"] == {"coordinator": 1112, "other": 3}
    assert found["protocols"]["S_Train"]["rounds"] == 21


def test_stability_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    said = words(capsys, STABILITY)
    assert "1109 members" in said
    assert "CoordP 3 7308 1112" in said
    assert "2.2 times fewer messages" in said
    assert "8 instead of 1112" in said


def test_the_leaf_degree_defaults_to_the_branching(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, "stability --branching 4 --height 5 --json"))
    assert (found["leaf_degree"], found["group_size"]) == (4, 1365)


def test_the_trigger_and_what_binds_it(capsys: pytest.CaptureFixture[str]) -> None:
    """STAB §6"""
    found = json.loads(run(capsys, f"{TRIGGER} --json"))
    assert found == {
        "trigger_messages": 90,
        "trigger_exact_messages": 90.0,
        "round_messages": 10.0,
        "binding_constraint": "first_round",
        "alpha_crossover": pytest.approx(1 / 9),
        "sustainable": True,
        "stability_rounds": None,
    }
    tight = json.loads(run(capsys, "trigger --buffer 100 --rate 0.2 --rtt 50 --alpha 0 --json"))
    assert (tight["trigger_messages"], tight["binding_constraint"]) == (80, "second_round")
    assert tight["sustainable"] is False


def test_the_number_of_rounds_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, f"{TRIGGER} --messages 10000 --json"))
    assert found["stability_rounds"] == 124


def test_the_trigger_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    said = words(capsys, f"{TRIGGER} --messages 10000")
    assert "Start a round when 90 messages wait" in said
    assert "senders need never stop" in said
    assert "10000 messages take 124 rounds" in said
    never = words(capsys, "trigger --buffer 100 --rate 0.2 --rtt 50 --alpha 0 --messages 5")
    assert "two in a row are safe" in never
    assert "Nothing becomes stable" in never


def test_help_of_the_trigger_tells_the_units(capsys: pytest.CaptureFixture[str]) -> None:
    said = words(capsys, "trigger --help")
    assert "messages per millisecond" in said
    assert "in ms" in said


def test_propagation_over_links_and_on_a_broadcast_medium(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """PROP tables 1 and 2."""
    options = f"{PROPAGATION} --broadcast-ms 12 --forwarding-nodes 3"
    assert json.loads(run(capsys, f"{options} --json")) == {
        "members": 5,
        "point_to_point": {
            "two_phase": {"messages": 15, "delay_ms": 41},
            "centralized": {"messages": 5, "delay_ms": 25},
            "propagation": {"messages": 6, "delay_ms": 36},
        },
        "broadcast": {
            "two_phase": {"messages": 7, "delay_ms": 84},
            "centralized": {"messages": 2, "delay_ms": 24},
            "propagation": {"messages": 4, "delay_ms": 48},
        },
        "forwarding_nodes": 3,
        "forwarding_nodes_assumed": False,
    }


def test_propagation_without_a_broadcast_medium(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, f"{PROPAGATION} --json"))
    assert (found["broadcast"], found["forwarding_nodes"]) == (None, None)
    assert found["forwarding_nodes_assumed"] is False


def test_forwarding_nodes_that_are_not_given_are_said_to_be_assumed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = json.loads(run(capsys, f"{PROPAGATION} --broadcast-ms 12 --json"))
    assert found["broadcast"]["propagation"] == {"messages": 3, "delay_ms": 36}
    assert (found["forwarding_nodes"], found["forwarding_nodes_assumed"]) == (2, True)
    assert "as few as the depth allows" in words(capsys, f"{PROPAGATION} --broadcast-ms 12")


def test_propagation_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    said = words(capsys, f"{PROPAGATION} --broadcast-ms 12 --forwarding-nodes 3")
    assert "propagation 6 36" in said
    assert "propagation 4 48" in said
    assert "6 messages where two-phase takes 15" in said
