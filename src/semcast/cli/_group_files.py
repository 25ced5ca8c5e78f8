"""Files of overlapping groups in; groups of numbered sites, their names and their latencies out.

Groups are a JSON object, the name of a group → the names of its sites. Latencies are one too, the
name of a site → the name of another → milliseconds. Whatever is wrong gets one line.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from semcast.errors import InputError
from semcast.protocol.propagation.federated import GROUP_NAME_BYTES_MAX, GROUPS_MAX, SITES_MAX

FILE_BYTES_MAX: Final = 1 << 24
LATENCY_MS_MAX: Final = 1e6
_NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True)
class NamedGroups:
    """Groups whose sites are numbered in the order of their names."""

    groups: dict[str, tuple[int, ...]]
    labels: dict[int, str]


def read_groups(path: Path) -> NamedGroups:
    """The groups in a file."""
    table = _read_object(path, "the name of a group → a list of the names of its sites")
    if not table:
        raise InputError(f"{path}: there are no groups in it")
    if len(table) > GROUPS_MAX:
        raise InputError(f"{path}: {len(table)} groups; at most {GROUPS_MAX} are allowed")
    named = {}
    for group, sites in table.items():
        _require_name(path, "a group", group)
        named[group] = _sites_of(path, group, sites)
    names = sorted({site for sites in named.values() for site in sites})
    if len(names) > SITES_MAX:
        raise InputError(f"{path}: {len(names)} sites; at most {SITES_MAX} are allowed")
    numbers = {name: at for at, name in enumerate(names)}
    groups = {group: tuple(numbers[site] for site in sites) for group, sites in named.items()}
    return NamedGroups(groups, dict(enumerate(names)))


def _sites_of(path: Path, group: str, sites: object) -> list[str]:
    if not isinstance(sites, list) or not sites:
        shown = "empty" if sites == [] else repr(sites)[:40]
        raise InputError(
            f"{path}: group {group!r} is {shown}; it must be a list of the names of its sites"
        )
    for site in sites:
        _require_name(path, f"a site of group {group!r}", site)
    if len(set(sites)) < len(sites):
        twice = next(site for site in sites if sites.count(site) > 1)
        raise InputError(f"{path}: group {group!r} has site {twice!r} twice")
    return sites


@dataclass(frozen=True)
class Latencies:
    """How long a message takes from site to site. The way back takes as long, unless it is
    given too.
    """

    path: Path
    labels: dict[int, str]
    known_ns: dict[tuple[int, int], int]

    def ns(self, one: int, other: int) -> int:
        """What `rules.by_latency` asks for."""
        found = self.known_ns.get((one, other), self.known_ns.get((other, one)))
        if found is None:
            raise InputError(
                f"{self.path}: there is no latency between {self.labels[one]!r} and "
                f"{self.labels[other]!r}"
            )
        return found


def read_latencies(path: Path, labels: Mapping[int, str]) -> Latencies:
    """The latencies in a file, between sites that are there."""
    table = _read_object(path, "the name of a site → the name of another → milliseconds")
    numbers = {name: number for number, name in labels.items()}
    known: dict[tuple[int, int], int] = {}
    for one, row in table.items():
        if not isinstance(row, dict):
            raise InputError(f"{path}: {one!r} must have an object of sites and milliseconds")
        for other, latency_ms in row.items():
            for name in (one, other):
                if name not in numbers:
                    raise InputError(f"{path}: there is no site {name!r} in any group")
            number = isinstance(latency_ms, int | float) and not isinstance(latency_ms, bool)
            if not number or not 0 <= latency_ms <= LATENCY_MS_MAX:
                raise InputError(
                    f"{path}: {one!r} to {other!r} is {latency_ms!r}; it must be milliseconds, "
                    f"0 to {LATENCY_MS_MAX:g}"
                )
            known[numbers[one], numbers[other]] = round(latency_ms * _NS_PER_MS)
    return Latencies(path, dict(labels), known)


def _read_object(path: Path, wanted: str) -> dict[str, object]:
    with path.open("rb") as file:
        content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise InputError(f"{path}: more than {FILE_BYTES_MAX} bytes")
    try:
        found = json.loads(content.decode("utf-8-sig"), object_pairs_hook=_without_repeats)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file (byte {error.start} is not UTF-8)") from error
    except _RepeatedError as error:
        raise InputError(f"{path}: the name {error.name!r} is there twice") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON: {error}") from error
    if not isinstance(found, dict):
        raise InputError(f"{path}: it must be a JSON object, {wanted}")
    return found


class _RepeatedError(Exception):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object's table. Without this the last of two equal names would hide the first."""
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise _RepeatedError(name)
        found[name] = value
    return found


def _require_name(path: Path, what: str, name: object) -> None:
    if not isinstance(name, str) or not name:
        raise InputError(f"{path}: the name of {what} is {name!r}; it must be text, not empty")
    try:
        length = len(name.encode())
    except UnicodeEncodeError as error:
        raise InputError(f"{path}: the name of {what} is {name!r}; it is not UTF-8") from error
    if length > GROUP_NAME_BYTES_MAX or not name.isprintable():
        raise InputError(
            f"{path}: the name of {what} is {name[:40]!r}; it must be printable and of at most "
            f"{GROUP_NAME_BYTES_MAX} bytes"
        )
