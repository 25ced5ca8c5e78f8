"""Missing or old Java is one clear line, before Spark is started."""

from pathlib import Path

import pytest

from semcast.errors import PipelineError
from semcast.pipeline.spark.java import require_java

PACKAGE = "apt-get install openjdk-17-jre-headless"


def _java(home: Path, version: str) -> None:
    """A java that says of itself what real ones say, on stderr."""
    (home / "bin").mkdir()
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
    java.chmod(0o755)


@pytest.mark.parametrize(
    "says",
    [
        'openjdk version "17.0.15" 2025-04-15',
        'java version "21" 2023-09-19 LTS',
        'openjdk version "26-ea" 2026-03-17',
    ],
)
def test_java_17_and_newer_will_do_by_either_way_to_find_it(tmp_path: Path, says: str) -> None:
    _java(tmp_path, says)
    assert require_java({"JAVA_HOME": str(tmp_path)}) == says
    assert require_java({"PATH": str(tmp_path / "bin")}) == says


@pytest.mark.parametrize(
    ("says", "major"),
    [('openjdk version "11.0.20" 2023-07-18', 11), ('java version "1.8.0_392"', 8)],
)
def test_old_java_is_named_with_its_version_and_what_to_install(
    tmp_path: Path, says: str, major: int
) -> None:
    _java(tmp_path, says)
    with pytest.raises(PipelineError, match=rf"^Java {major} at .* too old") as told:
        require_java({"JAVA_HOME": str(tmp_path)})
    assert PACKAGE in str(told.value)


def test_missing_java_is_said_with_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"^Java not found") as told:
        require_java({"PATH": str(tmp_path)})
    assert PACKAGE in str(told.value)


def test_a_java_home_without_java_is_named_even_if_path_has_one(tmp_path: Path) -> None:
    _java(tmp_path, 'openjdk version "17.0.15"')
    wrong = tmp_path / "nowhere"
    with pytest.raises(PipelineError, match=f"^JAVA_HOME is {wrong}, but there is no"):
        require_java({"JAVA_HOME": str(wrong), "PATH": str(tmp_path / "bin")})


def test_something_else_called_java_is_not_taken_for_it(tmp_path: Path) -> None:
    _java(tmp_path, "coffee")
    with pytest.raises(PipelineError, match="does not say its version"):
        require_java({"JAVA_HOME": str(tmp_path)})
    (tmp_path / "bin" / "java").write_text("no program")
    with pytest.raises(PipelineError, match="does not start"):
        require_java({"JAVA_HOME": str(tmp_path)})
