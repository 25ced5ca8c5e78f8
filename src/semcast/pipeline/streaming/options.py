"""Options of a stream in, its settings out: those of `GroupConfig` by name, and a few of our own.

What is not said is taken from SEMCAST_* variables of the driver, as everywhere. Secrets are read
where the member is, and nowhere else. Knows nothing of Spark.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlparse

from semcast.errors import ConfigError
from semcast.live.config import GroupConfig, from_environment
from semcast.live.federation_settings import FEDERATION
from semcast.live.secret_file import read_secret
from semcast.settings import Place, at

SECRET: Final = "secret"
_SECRET_FILE: Final = "secret_file"
_SPOOL_BYTES_MAX: Final = 1 << 30
_SPOOL_BYTES_MIN: Final = 64 << 10
_BATCH_BYTES_MAX: Final = 256 << 20
_LINGER_S: Final = 60
_CHECKPOINT: Final = "checkpointlocation"
_GROUP: Final = at(Place.GROUP)
_FIELDS: Final = frozenset(one.name for one in _GROUP) | {_SECRET_FILE}
_SOURCE: Final = frozenset(("spool", "spool_bytes_max", "maxrowsperbatch"))
_SINK: Final = frozenset(("sent", "batch_bytes_max", "linger_s"))
# What Spark itself adds to the options of a sink.
_OF_SPARK: Final = frozenset((_CHECKPOINT, "path", "queryname"))


@dataclass(frozen=True)
class SourceOptions:
    """The options of `readStream`."""

    config: GroupConfig
    spool: Path
    spool_bytes_max: int
    # 0: as many as there are.
    rows_per_batch_max: int

    @property
    def identity(self) -> dict[str, str]:
        """Whose spool it is."""
        return {"group": self.config.group, "name": self.config.name, "order": self.config.order}


@dataclass(frozen=True)
class SinkOptions:
    """The options of `writeStream`."""

    config: GroupConfig
    # The folder in which it is written down which batches were sent.
    sent: Path
    batch_bytes_max: int
    # How long the member stays after the last batch.
    linger_s: float
    # The id of the query, as its checkpoint has it; batches of another are numbered anew.
    query: str


def source_options(options: Mapping[str, str]) -> SourceOptions:
    """Raises ConfigError if something is unknown, missing or out of range."""
    given = _known(options, _SOURCE)
    if not given.get("spool"):
        raise ConfigError(
            "no spool: say option('spool', FOLDER), a folder of this query's own next to its "
            "checkpoint; what the member receives is kept there until Spark has dealt with it"
        )
    return SourceOptions(
        _config(given),
        _local(given["spool"], "spool"),
        _whole(given, "spool_bytes_max", _SPOOL_BYTES_MAX, _SPOOL_BYTES_MIN),
        _whole(given, "maxrowsperbatch", 0, 0),
    )


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """The same for a sink; its folder is by default within the checkpoint."""
    given = _known(options, _SINK | _OF_SPARK)
    if not given.get("sent") and not given.get(_CHECKPOINT):
        raise ConfigError(
            "no folder to note in what was sent: say option('checkpointLocation', FOLDER), or "
            "option('sent', FOLDER) for one on this machine"
        )
    return SinkOptions(
        _config(given),
        _local(given.get("sent") or f"{given[_CHECKPOINT]}/semcast", "sent"),
        _whole(given, "batch_bytes_max", _BATCH_BYTES_MAX, 1),
        float(_whole(given, "linger_s", _LINGER_S, 1)),
        _query_id(given.get(_CHECKPOINT, "")),
    )


def _query_id(checkpoint: str) -> str:
    """Of the query whose checkpoint this is; nothing if it cannot be read from here."""
    try:
        return str(json.loads((_local(checkpoint, _CHECKPOINT) / "metadata").read_text())["id"])
    except (ConfigError, OSError, ValueError, KeyError, TypeError):
        return ""


def _known(options: Mapping[str, str], own: frozenset[str]) -> dict[str, str]:
    given = {name.lower(): str(value) for name, value in options.items()}
    unknown = sorted(set(given) - _FIELDS - own)
    if unknown:
        known = ", ".join(sorted((_FIELDS | own) - _OF_SPARK))
        raise ConfigError(f"unknown option {unknown[0]!r}; known: {known}")
    if not given.get("group"):
        raise ConfigError("no group: say option('group', NAME)")
    return given


def _config(given: Mapping[str, str]) -> GroupConfig:
    found = {one.name: one.parsed(given[one.name], one.name) for one in _GROUP if one.name in given}
    if _SECRET_FILE in given:
        found[SECRET] = read_secret(Path(given[_SECRET_FILE]))
    elif found.get("insecure"):
        found.setdefault(SECRET, None)  # whatever the environment has
    config = from_environment(found)
    if config.reliability == FEDERATION:
        # A row has no group, and could not be taken back when a site has to roll back.
        raise ConfigError(
            f"{config.group!r} is to be a federation, and only groups can be streams; record it "
            "with `semcast record --groups`"
        )
    return config


def _local(text: str, option: str) -> Path:
    """A folder in the file system, also when it is written as file:///…"""
    address = urlparse(text)
    if address.scheme == "file":
        return Path(unquote(address.path))
    if "://" in text:
        raise ConfigError(
            f"{option} is {text}; it must be a folder in a file system of the driver's machine, "
            "shared with the executors if they are on others"
        )
    return Path(text).absolute()


def _whole(given: Mapping[str, str], name: str, default: int, low: int) -> int:
    text = given.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or int(text) < low:
        raise ConfigError(f"{name} is {text!r}; it must be a whole number of at least {low}")
    return int(text)
