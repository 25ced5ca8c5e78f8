"""`semcast model propagation --groups`, and `sim run` of graphs: keys, words and mistakes."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from semcast.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
FIGURE_3 = EXAMPLES / "groups/figure3.json"
KEYS = [
    "rule", "parent", "primary", "depth", "depth_mean", "extra_nodes", "extra_nodes_mean",
    "forwarding_nodes", "load", "load_max", "two_phase_load_max", "centralized_load_max",
    "central_site",
]  # fmt: skip
SHORT = ["--set", "runs_min=5", "--set", "runs_max=5", "--set", "sites=20", "--set", "groups=6"]


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def graph(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> Any:
    line = ["model", "propagation", "--groups", str(path), *options, "--json"]
    return json.loads(output(capsys, *line))


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["model", "propagation", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("semcast: ")
    assert err.count("\n") == 1
    return err


def written(folder: Path, content: object) -> Path:
    path = folder / "groups.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_figure_3(capsys: pytest.CaptureFixture[str]) -> None:
    """PROP Figure 3, and the load of PROP §4.1."""
    found = graph(capsys, FIGURE_3)
    assert list(found) == KEYS
    assert found["parent"] == {
        "a": "c", "b": "c", "c": "d", "d": None, "e": "d", "f": "e", "g": "b", "h": "c", "j": "d",
    }  # fmt: skip
    assert found["primary"] == {
        "alpha1": "d", "alpha2": "c", "alpha3": "d", "alpha4": "d",
        "alpha5": "e", "alpha6": "b", "alpha7": "c", "alpha8": "d",
    }  # fmt: skip
    assert found["depth"]["alpha3"] == 2
    assert found["forwarding_nodes"]["alpha3"] == 2
    assert set(map(tuple, found["extra_nodes"].values())) == {()}
    assert found["load"]["d"] == found["load_max"] == 2 + 3 + 2 + 2
    assert found["two_phase_load_max"] == 3 * 4


def test_an_extra_node_is_reported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """With α9 = {d, a}, c is one. PROP §3.1"""
    groups = {**json.loads(FIGURE_3.read_text()), "alpha9": ["d", "a"]}
    found = graph(capsys, written(tmp_path, groups))
    assert found["extra_nodes"]["alpha9"] == ["c"]
    assert found["parent"] == graph(capsys, FIGURE_3)["parent"]


def test_figure_5_by_another_rule(capsys: pytest.CaptureFixture[str]) -> None:
    """Load for depth. PROP Figure 5"""
    path = EXAMPLES / "groups/figure5.json"
    flat, deep = graph(capsys, path), graph(capsys, path, "--rule", "spread")
    assert (flat["load_max"], deep["load_max"]) == (11, 6)
    assert deep["depth_mean"] > flat["depth_mean"]
    chain = graph(capsys, path, "--rule", "spread", "--children-max", "1")
    assert max(chain["depth"].values()) == 4
    assert graph(capsys, path, "--rule", "fewest-extra")["extra_nodes_mean"] == 0


def test_figure_6(capsys: pytest.CaptureFixture[str]) -> None:
    """PROP §5.2.1"""
    found = graph(capsys, EXAMPLES / "groups/figure6.json")
    assert list(found["parent"].values()).count(None) == 1


def test_measured_latencies_choose_the_sites(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = written(tmp_path, {"g": ["a", "b", "c"], "h": ["a", "b", "c"]})
    latencies = tmp_path / "latencies.json"
    latencies.write_text('{"a": {"b": 1, "c": 1.5}, "b": {"c": 9}, "c": {"b": 8}}')
    options = ["--latencies", str(latencies)]
    greedy = graph(capsys, path, *options)
    assert (greedy["primary"]["g"], greedy["delay_ms"]["g"]) == ("c", 8)
    found = graph(capsys, path, "--rule", "latency", *options)
    assert (found["primary"]["g"], found["delay_ms"]["g"]) == ("a", 1.5)


def test_costs_of_each_group(capsys: pytest.CaptureFixture[str]) -> None:
    """PROP Table 1"""
    line = ["--latency-ms", "10", "--processing-ms", "1"]
    found = graph(capsys, FIGURE_3, *line)["point_to_point"]["alpha3"]
    assert found["propagation"] == {"messages": 4, "delay_ms": 34}
    assert found["two_phase"] == {"messages": 12, "delay_ms": 39}
    said = output(capsys, "model", "propagation", "--groups", str(FIGURE_3), *line)
    assert "On average a multicast takes 2.5 messages" in said


def test_for_people_and_as_a_drawing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    svg = tmp_path / "graph.svg"
    said = output(capsys, "model", "propagation", "--groups", str(FIGURE_3), "--svg", str(svg))
    assert "d → c → b → g" in said
    assert "9 sites in 8 groups make 1 tree" in " ".join(said.split())
    tree = ElementTree.fromstring(svg.read_text())
    space = "{http://www.w3.org/2000/svg}"
    assert len(list(tree.iter(f"{space}circle"))) == 9
    assert len(list(tree.iter(f"{space}path"))) == 8
    texts = [one.text for one in tree.iter(f"{space}text")]
    assert set("abcdefghj") <= set(texts)
    assert "alpha1 alpha3 alpha4 alpha8" in texts


def test_sites_in_a_drawing_do_not_cover_each_other(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    svg = tmp_path / "graph.svg"
    groups = {f"group-{at}": [f"site-{at}", f"site-{at + 1}", f"<{at}>"] for at in range(12)}
    output(
        capsys, "model", "propagation", "--svg", str(svg),
        "--groups", str(written(tmp_path, groups)),
    )  # fmt: skip
    circles = [
        (float(one.get("cx", 0)), float(one.get("cy", 0)), float(one.get("r", 0)))
        for one in ElementTree.fromstring(svg.read_text()).iter(
            "{http://www.w3.org/2000/svg}circle"
        )
    ]
    for at, (x, y, r) in enumerate(circles):
        for other_x, other_y, _ in circles[:at]:
            assert abs(x - other_x) >= 2 * r or abs(y - other_y) >= 2 * r


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "must be a JSON object"),
        ("{}", "no groups"),
        ('{"g": []}', "group 'g' is empty"),
        ('{"g": "abc"}', "must be a list"),
        ('{"g": ["a", 3]}', "the name of a site of group 'g' is 3"),
        ('{"g": ["a", ""]}', "not empty"),
        ('{"g": ["a", "a"]}', "has site 'a' twice"),
        ('{"g": ["a"], "g": ["b"]}', "the name 'g' is there twice"),
        ('{"": ["a"]}', "the name of a group is ''"),
        ('{"g\\n": ["a"]}', "printable"),
        ('{"g": ["\\ud800"]}', "not UTF-8"),
        (json.dumps({"g" * 65: ["a"]}), "at most 64 bytes"),
        (json.dumps({f"g{at}": ["a"] for at in range(4097)}), "4097 groups; at most 4096"),
        (json.dumps({"g": [f"{at}" for at in range(4097)]}), "4097 sites; at most 4096"),
        (" " * ((1 << 24) + 1), "more than 16777216 bytes"),
    ],
    ids=range(17),
)
def test_a_bad_file_gets_one_line(
    content: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refusal(capsys, "--groups", str(written(tmp_path, content)))


def test_what_is_not_a_text_file_gets_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "Is a directory" in refusal(capsys, "--groups", str(tmp_path))
    assert "No such file" in refusal(capsys, "--groups", str(tmp_path / "none"))
    path = tmp_path / "bytes"
    path.write_bytes(b"\xff\xfe\x00")
    assert "not a text file" in refusal(capsys, "--groups", str(path))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"a": {"nobody": 1}}', "no site 'nobody'"),
        ('{"a": {"b": -1}}', "0 to 1e+06"),
        ('{"a": {"b": true}}', "must be milliseconds"),
        ('{"a": 3}', "must have an object"),
        ('{"a": {"b": 1}}', "there is no latency between"),
    ],
)
def test_bad_latencies_get_one_line(
    content: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, content)
    line = ["--groups", str(FIGURE_3), "--rule", "latency", "--latencies", str(path)]
    assert said in refusal(capsys, *line)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--rule best", "choose one of greedy"),
        ("--rule latency", "needs --latencies"),
        ("--children-max 3", "is for --rule spread"),
        ("--rule spread --children-max 0", "at least 1"),
        ("--members 3", "--members is for one group"),
        ("--latency-ms 3", "belong together"),
        ("--svg /dev/null/graph.svg", "Not a directory"),
    ],
)
def test_options_that_do_not_fit_get_one_line(
    options: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refusal(capsys, "--groups", str(FIGURE_3), *options.split())
    assert "is for --groups FILE" in refusal(capsys, "--members", "5", "--rule", "greedy")


# -- random groups ---------------------------------------------------------------------------------


def test_one_point_of_the_grids(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(EXAMPLES / "scenarios/prop-graphs.toml")
    found = json.loads(output(capsys, "sim", "run", path, *SHORT, "--json"))
    assert (found["model"], found["runs"]) == ("propagation-graph", 5)
    assert set(found["measures"]["depth"]) == {"mean", "ci95"}
    said = output(capsys, "sim", "run", path, *SHORT)
    assert "drawn 5 times" in said
    assert "two-phase" in said


def test_the_map(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = str(EXAMPLES / "scenarios/prop-map.toml")
    svg = tmp_path / "map.svg"
    line = ["sim", "run", path, *SHORT, "--set", "map.sites=[20]", "--set", "map.groups=[6]"]
    found = json.loads(output(capsys, *line, "--json", "--plot", str(svg)))
    assert [one["ratio"] for one in found["points"]] == [0.1, 1, 10, 100]
    assert found["points"][0]["least_delay"] == "centralized"
    ElementTree.fromstring(svg.read_text())
    assert "of the load of its central site" in " ".join(output(capsys, *line).split())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--plot", "x.svg"], "a table [map]"),
        (["--journal", "x"], "keeps no journal"),
        (["--protocol", "train"], "are for model = 'stability'"),
        (["--set", "rule=best"], "rule is 'best'"),
    ],
)
def test_options_of_other_models_get_one_line(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(EXAMPLES / "scenarios/prop-graphs.toml")
    assert main(["sim", "run", path, *options]) == 2
    assert said in capsys.readouterr().err
