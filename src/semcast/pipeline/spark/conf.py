"""A master and a user's wishes in; the settings of a Spark session out. Starts nothing.

Every default can be overruled by `--conf`; what each is for stands beside it.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from semcast.errors import ConfigError

MASTER_DEFAULT: Final = "local[*]"
CONNECT: Final = "connect"

_GIGABYTE: Final = 1 << 30
_DRIVER_MEMORY_GB_MAX: Final = 12
_LOCAL: Final = re.compile(r"local(\[(\*|[1-9]\d*)(\s*,\s*[1-9]\d*)?\])?")
_CLUSTER: Final = re.compile(r"spark://[^\s/]+:\d+(,[^\s/]+:\d+)*|k8s://\S+|yarn")
_REMOTE: Final = re.compile(r"sc://[^\s/:;]+(:\d+)?(/\S*)?")
_KEY: Final = re.compile(r"spark\.[A-Za-z0-9_.\-]+")

DEFAULTS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",  # `progress` draws its own
    "spark.python.unix.domain.socket.enabled": "true",  # a Python task: 8 ms instead of 25
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    # With a bound, Spark measures a batch after every row: that is quadratic for strings and lists.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.shuffle.partitions": "32",
    "spark.sql.adaptive.enabled": "true",
    # Make few large tasks, not one for each core: a task costs more here than its data.
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "64m",
    # Beyond so many, the first rows of an order are found by a sort, which spills: in memory, room
    # for twice as many is taken at once, whether they come or not.
    "spark.sql.execution.topKSortFallbackThreshold": "100000",
    # Adaptive execution writes a plan down whenever it changes. That of logs of many lives, which
    # shows all that is kept under it, does not fit into a gigabyte.
    "spark.sql.maxPlanStringLength": "100000",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.python.filterPushdown.enabled": "true",
}


def is_local(master: str) -> bool:
    """Whether tasks run inside the driver's own process."""
    return _LOCAL.fullmatch(master) is not None


def is_connect(master: str) -> bool:
    """Whether the session speaks Spark Connect, so that it has no `sparkContext`."""
    return master == CONNECT or master.startswith("sc://")


def check_master(master: str) -> str:
    """The master, if Spark can know what to do with it."""
    known = is_local(master) or master == CONNECT
    if known or _CLUSTER.fullmatch(master) or _REMOTE.fullmatch(master):
        return master
    raise ConfigError(
        f"master {master!r} is none that Spark knows; give local[*], local[N], "
        "spark://host:port, connect or sc://host:port"
    )


def parse_conf(pairs: Sequence[str]) -> dict[str, str]:
    """`key=value` each, as given with --conf; the last one of a key counts."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not value.strip() or _KEY.fullmatch(key.strip()) is None:
            raise ConfigError(
                f"--conf {pair!r} is not a setting of Spark; "
                "write spark.some.key=value, as in spark.sql.shuffle.partitions=64"
            )
        if key.strip() == "spark.master":
            raise ConfigError(f"--conf {pair!r}: use --master instead")
        found[key.strip()] = value.strip()
    return found


def session_settings(
    master: str, wishes: Mapping[str, str], java_options: Sequence[str] = ()
) -> dict[str, str]:
    """All settings of a session: our defaults, then the user's, Java's options joined."""
    settings = dict(DEFAULTS)
    settings["spark.driver.memory"] = f"{driver_memory_gb()}g"
    if is_local(master):
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    settings.update(wishes)
    key = "spark.driver.extraJavaOptions"
    # The user's options come last: the JVM takes the last of two that contradict each other.
    settings[key] = " ".join([*java_options, *filter(None, [wishes.get(key)])])
    return settings


def driver_memory_gb() -> int:
    """Half of this machine's memory, or of what its container may use; 12 GB at most."""
    half = memory_bytes() // 2 // _GIGABYTE
    return max(1, min(_DRIVER_MEMORY_GB_MAX, half))


def memory_bytes(limit: Path = Path("/sys/fs/cgroup/memory.max")) -> int:
    """The machine's memory, or the container's limit where that is lower."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        text = limit.read_text().strip()
    except OSError:
        return machine
    return min(machine, int(text)) if text.isdigit() else machine
