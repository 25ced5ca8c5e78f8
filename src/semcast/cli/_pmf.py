"""A file that tells how far apart related messages are in, a distance distribution out.

Two formats: lines of `distance,probability`, with or without a heading, or a JSON object such
as {"0": 0.5, "3": 0.5}. Distance 0 stands for messages that replace nothing.
"""

import json
from pathlib import Path
from typing import Final

from semcast.errors import ConfigError, InputError
from semcast.model.purge import DistancePmf, from_table

FILE_CHARS_MAX: Final = 1 << 26


def read_pmf(path: Path) -> DistancePmf:
    try:
        # "-sig": spreadsheets like to begin a file with a byte order mark.
        with path.open(encoding="utf-8-sig") as file:
            text = file.read(FILE_CHARS_MAX + 1)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file (byte {error.start} is not UTF-8)") from error
    if len(text) > FILE_CHARS_MAX:
        raise InputError(f"{path}: more than {FILE_CHARS_MAX} characters; give fewer distances")
    pairs = _json_pairs(path, text) if text.lstrip().startswith("{") else _csv_pairs(path, text)
    table: dict[int, float] = {}
    for where, distance, probability in pairs:
        if distance in table:
            raise InputError(f"{path}: {where}: distance {distance} was given before")
        table[distance] = probability
    if not table:
        raise InputError(f"{path}: empty; write lines of distance,probability")
    try:
        return from_table(table)
    except ConfigError as error:
        raise InputError(f"{path}: {error}") from error


def _csv_pairs(path: Path, text: str) -> list[tuple[str, int, float]]:
    pairs = []
    for number, line in enumerate(text.splitlines(), start=1):
        fields = [field.strip() for field in line.split(",")]
        heading = number == 1 and len(fields) == 2 and not any(map(_is_number, fields))
        if heading or fields == [""]:
            continue
        try:
            distance, probability = fields
            pairs.append((f"line {number}", int(distance), float(probability)))
        except ValueError:
            raise InputError(
                f"{path}: line {number} is {line[:40]!r}; "
                "write a whole distance, a comma and a probability"
            ) from None
    return pairs


def _json_pairs(path: Path, text: str) -> list[tuple[str, int, float]]:
    try:
        # As pairs, because a dictionary would hide that a distance was given twice.
        items = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON: {error}") from error
    pairs = []
    for key, value in items:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (number and key.isdecimal()):
            raise InputError(
                f"{path}: {key!r} has {str(value)[:40]!r}; "
                'write whole distances and probabilities, as in {"0": 0.5, "3": 0.5}'
            )
        pairs.append((repr(key), int(key), float(value)))
    return pairs


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
