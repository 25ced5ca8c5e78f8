"""How nodes and keys are written in a journal. Sources and bytes in, text out, and back.

A node is named `p3.2`: sender 3 in its second life. Another life is another node.
"""

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from semcast.errors import InputError
from semcast.ids import Source

_NODE: Final = re.compile(r"p([0-9]+)\.([0-9]+)")
# Begins the names of keys that are not text. A text key that begins so is written in hex as well,
# so that two keys never get one name.
_HEX: Final = "0x:"
# Begins what is written of several keys; it is kept apart from keys of one message in the same way.
_SEVERAL: Final = "keys:"


def node_name(source: Source) -> str:
    """The name of a source, as node and as sender: p3.2. All streams of a site have its name.

    >>> node_name(Source(3, 2))
    'p3.2'
    """
    return f"p{source.site}.{source.incarnation}"


def origin_name(origin: int) -> str:
    """The name of a sequence of views: its origin, in a life that no process has: p77.0.

    >>> origin_name(77)
    'p77.0'
    """
    return f"p{origin}.0"


@lru_cache(maxsize=1 << 12)
def parse_node(name: str) -> tuple[int, int]:
    """Sender and incarnation of a node's name, which order as sources do.

    >>> parse_node("p3.2")
    (3, 2)
    """
    found = _NODE.fullmatch(name)
    if found is None:
        raise InputError(
            f"node {name!r} in the journal is not named as nodes are; "
            "write p<sender>.<incarnation>, for instance p3.1"
        )
    return int(found[1]), int(found[2])


def key_text(key: bytes) -> str:
    """The key as text; other bytes than UTF-8 in hex.

    >>> key_text(b"AAPL"), key_text(bytes([255, 0]))
    ('AAPL', '0x:ff00')
    """
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return _HEX + key.hex()
    return _HEX + key.hex() if text.startswith((_HEX, _SEVERAL)) else text


def keys_text(keys: Sequence[bytes]) -> str | None:
    """What a message is about as one text: its key, or all of its keys; None if it has none.

    >>> keys_text([b"AAPL"]), keys_text([b"AAPL", b"MSFT"])
    ('AAPL', 'keys:["AAPL", "MSFT"]')
    """
    if len(keys) < 2:
        return key_text(keys[0]) if keys else None
    return _SEVERAL + json.dumps([key_text(key) for key in keys], ensure_ascii=False)


def keys_in(text: str) -> list[str]:
    """The keys of such a text, each as `key_text` writes it.

    >>> keys_in("AAPL"), keys_in('keys:["AAPL", "MSFT"]')
    (['AAPL'], ['AAPL', 'MSFT'])
    """
    if not text.startswith(_SEVERAL):
        return [text]
    try:
        found = json.loads(text[len(_SEVERAL) :])
    except ValueError:
        return [text]
    whole = isinstance(found, list) and all(isinstance(key, str) for key in found)
    return found if whole and found else [text]
