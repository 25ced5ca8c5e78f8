"""Masters and settings: what a user may say, and one clear line for the rest."""

from pathlib import Path

import pytest

from semcast.errors import ConfigError
from semcast.pipeline.spark.conf import (
    DEFAULTS,
    check_master,
    driver_memory_gb,
    is_connect,
    is_local,
    memory_bytes,
    parse_conf,
    session_settings,
)

LOCAL = ["local", "local[*]", "local[2]", "local[16,3]"]
CLUSTER = ["spark://host:7077", "spark://a:7077,b:7077", "k8s://https://host:443", "yarn"]
CONNECT = ["connect", "sc://host", "sc://host:15002", "sc://host:15002/;token=x"]
UNKNOWN = ["", "localhost", "local[]", "local[0]", "local[-1]", "spark://host", "spark:host:7077"]


@pytest.mark.parametrize("master", [*LOCAL, *CLUSTER, *CONNECT])
def test_every_master_is_of_one_kind(master: str) -> None:
    assert check_master(master) == master
    assert is_local(master) == (master in LOCAL)
    assert is_connect(master) == (master in CONNECT)


@pytest.mark.parametrize("master", [*UNKNOWN, "sc://", "local[2] ", "http://host:7077"])
def test_an_unknown_master_is_named_with_the_ones_that_are_known(master: str) -> None:
    with pytest.raises(ConfigError, match=r"is none that Spark knows; give local\[\*\]") as told:
        check_master(master)
    assert repr(master) in str(told.value)


def test_the_last_setting_of_a_key_counts_and_values_may_hold_equals_signs() -> None:
    pairs = ["spark.a=1", "spark.b= -Dx=y -Dz ", "spark.a=2"]
    assert parse_conf(pairs) == {"spark.a": "2", "spark.b": "-Dx=y -Dz"}


@pytest.mark.parametrize("pair", ["spark.a", "spark.a=", "a=1", "=1", "spark.=1", "spark.a b=1"])
def test_what_is_no_setting_is_refused(pair: str) -> None:
    with pytest.raises(ConfigError, match=r"is not a setting of Spark; write spark.some.key=value"):
        parse_conf([pair])


def test_the_master_is_not_set_behind_its_options_back() -> None:
    with pytest.raises(ConfigError, match="use --master instead"):
        parse_conf(["spark.master=local[2]"])


def test_a_users_settings_come_before_ours_and_java_gets_both() -> None:
    options = "spark.driver.extraJavaOptions"
    wishes = {"spark.sql.shuffle.partitions": "7", options: "-Xss2m"}
    settings = session_settings("local[2]", wishes, ["-XX:+UseParallelGC"])
    assert settings[options] == "-XX:+UseParallelGC -Xss2m"
    assert settings["spark.sql.shuffle.partitions"] == "7"
    assert settings["spark.driver.host"] == "127.0.0.1"
    others = DEFAULTS.keys() - wishes.keys()
    assert {key: settings[key] for key in others} == {key: DEFAULTS[key] for key in others}
    assert "spark.driver.host" not in session_settings("spark://host:7077", {})


def test_the_driver_takes_half_of_the_memory_and_no_more_than_its_container_has(
    tmp_path: Path,
) -> None:
    limit = tmp_path / "memory.max"
    machine = memory_bytes(limit)  # no such file: no limit
    assert 1 <= driver_memory_gb() <= max(1, machine // 2 // 2**30)
    limit.write_text("max\n")
    assert memory_bytes(limit) == machine
    limit.write_text("1048576\n")
    assert memory_bytes(limit) == 1048576
