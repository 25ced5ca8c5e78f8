"""The whole state of an object as one short value: an object in, 16 bytes out.

Two members with the same digest behave alike from then on: the digest is made from everything that
can be reached from the object, attribute by attribute, with dictionaries in their own order and
with what is shared marked as shared. So equal digests mean equal object graphs, which deterministic
code cannot tell apart. A kind of value that is not known here is refused, never passed over.

`pickle` walks the graph. It cannot read compiled objects, so these are read by their descriptors.
Observers and counters for people are left out, because no member ever reads them.
"""

import enum
import pickle
from collections.abc import Callable
from dataclasses import is_dataclass
from hashlib import blake2b
from io import BytesIO
from operator import attrgetter, methodcaller
from types import GetSetDescriptorType
from typing import Any, Final

from librt.strings import BytesWriter
from librt.vecs import vec
from mypy_extensions import i64

from semcast.protocol.figures import Figures, Transit
from semcast.protocol.observer import Observer

_VEC: Final = type(vec[i64]([]))
# By class: how to read all that an object holds.
_READERS: Final[dict[type, Callable[[Any], object]]] = {}
# Settings and their text, by address. Settings never change, and are kept here so that no other
# object ever gets the address of one.
_SETTINGS: Final[dict[int, tuple[object, str]]] = {}


def digest(root: object) -> bytes:
    """A value that two objects share only if they, and all that they hold, are alike."""
    out = BytesIO()
    _Walker(out, 5).dump(root)
    return blake2b(out.getbuffer(), digest_size=16).digest()


def same(*parts: object) -> None:
    """Stands for an object in what is digested; nothing is ever built from it."""
    raise TypeError(f"a digest is not read back: {parts!r}")


class _Walker(pickle.Pickler):
    def reducer_override(self, value: Any, /) -> Any:
        """What stands for an object that is not a number, a text, a list and the like."""
        if value is same:
            return NotImplemented
        kind = type(value)
        reader = _READERS.get(kind)
        if reader is None:
            reader = _READERS[kind] = _reader(value, kind)
        return same, (kind.__name__,), reader(value)


def _reader(value: object, kind: type) -> Callable[[Any], object]:
    """How to read what an object of this class holds."""
    if kind in (_VEC, range):
        return repr
    if issubclass(kind, BytesWriter):
        return BytesWriter.getvalue
    if issubclass(kind, enum.Enum):
        return attrgetter("name")
    if (kind.__module__, kind.__name__) == ("numpy", "ndarray"):
        # An array of numbers. It is recognised by name, so that numpy need not be imported.
        return methodcaller("tolist")
    if issubclass(kind, (Observer, Figures, Transit)):
        return lambda _: None
    if is_dataclass(kind) and kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return _said
    if issubclass(kind, dict):
        # A subclass of dict, such as an OrderedDict.
        return lambda held: list(held.items())
    if hasattr(value, "__dict__") and not issubclass(kind, (list, tuple, set, frozenset)):
        return vars
    return _native_reader(value, kind)


def _said(settings: object) -> str:
    """The text of settings, which has all that they hold."""
    known = _SETTINGS.get(id(settings))
    if known is None:
        known = _SETTINGS[id(settings)] = (settings, repr(settings))
    return known[1]


def _native_reader(value: object, kind: type) -> Callable[[object], object]:
    """Reads a compiled object, in the order of its declarations."""
    names = [
        name
        for cls in kind.__mro__
        if cls is not object
        for name, entry in vars(cls).items()
        if isinstance(entry, GetSetDescriptorType) and not _made_anew(value, name)
    ]
    if not names:
        raise TypeError(f"cannot look into a {kind.__name__}; teach {__name__} how to")
    return attrgetter(*names)


def _made_anew(value: object, name: str) -> bool:
    """Whether this is a property that puts together what other attributes hold."""
    first, second = getattr(value, name), getattr(value, name)
    return isinstance(first, dict) and first is not second
