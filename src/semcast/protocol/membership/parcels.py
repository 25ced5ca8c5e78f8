"""Parcels: a view or a change in, bytes in parts out; and back.

The number of a parcel is made from its bytes. Whoever has put all parts together sees by it that
they are the right ones, and whoever is offered a parcel sees whether it has it already.

Thousands of simulated members are told the same views. What they make of equal bytes is shared, as
views never change; only a few are remembered for that.
"""

from hashlib import blake2b
from typing import Final, final

from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i64_le
from mypy_extensions import i64, u8

from semcast.errors import ConfigError, RemoteProtocolError
from semcast.ids import ID_MAX
from semcast.protocol.membership.view import Change, View
from semcast.wire.families.agreement import (
    CHANGE_PARCEL,
    NAME_BYTES_MAX,
    PART_BYTES_MAX,
    VIEW_PARCEL,
    PartOf,
    read_name,
)
from semcast.wire.fields import write_u32

# No group is larger. (`settings.table.GROUP_SIZE_MAX` is the same for those who set one up.)
MEMBERS_MAX: Final = 4096
# Views and changes that were made lately.
_KEPT_MAX: Final = 16
_NUMBER_MAX: Final = (1 << 32) - 1


@final
class Parcel:
    """Bytes that travel in parts."""

    def __init__(self, what: i64, number: i64, data: bytes) -> None:
        assert data, "there is always something to say"
        self.what: Final[i64] = what
        # Of the view that it is, or that it changes.
        self.number: Final[i64] = number
        self.data: Final = data
        self.name: Final[i64] = parcel_name(data)
        self.count: Final[i64] = (len(data) + PART_BYTES_MAX - 1) // PART_BYTES_MAX

    def part(self, index: i64) -> PartOf:
        """One part of it."""
        data = self.data[index * PART_BYTES_MAX : (index + 1) * PART_BYTES_MAX]
        return PartOf(self.name, self.what, self.number, index, self.count, data)


def parcel_name(data: bytes) -> int:
    """The number that bytes have; never 0."""
    return (int.from_bytes(blake2b(data, digest_size=8).digest(), "little") & ID_MAX) or 1


# -- changes ---------------------------------------------------------------------------------------


def change_parcel(change: Change, number: int) -> Parcel:
    """A change of the view with this number."""
    out = BytesWriter()
    write_u32(out, number)
    write_u32(out, len(change.joins))
    write_u32(out, len(change.gone))
    write_u32(out, len(change.dropped))
    for sender, life, name in change.joins:
        write_i64_le(out, sender)
        write_i64_le(out, life)
        _write_name(out, name)
    for sender in (*change.gone, *change.dropped):
        write_i64_le(out, sender)
    return Parcel(CHANGE_PARCEL, number, out.getvalue())


def read_change(data: bytes) -> Change:
    """The change that these bytes are."""
    read = _Reading(data, "a change")
    read.u32()
    joins_many, gone_many, dropped_many = read.many(), read.many(), read.many()
    joins = tuple((read.id(), read.id(), read.text()) for _ in range(joins_many))
    gone = tuple(read.id() for _ in range(gone_many))
    dropped = tuple(read.id() for _ in range(dropped_many))
    read.end()
    for ids in ([sender for sender, _, _ in joins], list(gone), list(dropped)):
        if ids != sorted(set(ids)):
            raise RemoteProtocolError(f"a change names {len(ids)} members, not each once in order")
    return Change(joins, gone, dropped)


# -- views -----------------------------------------------------------------------------------------


def view_parcel(view: View) -> Parcel:
    """A whole view."""
    name = (int(view.digest), view.number)
    known = _PARCELS.get(name)
    if known is not None and known[0] is view:
        return known[1]
    out = BytesWriter()
    write_u32(out, view.number)
    write_u32(out, len(view.members))
    write_u32(out, view.f)
    write_i64_le(out, view.origin)
    for at, sender in enumerate(view.members):
        write_i64_le(out, sender)
        write_i64_le(out, view.lives[at])
        write_u32(out, view.since[at])
        out.append(u8(view.gone >> at & 1))
        _write_name(out, view.names[at])
    made = Parcel(VIEW_PARCEL, view.number, out.getvalue())
    if len(_PARCELS) >= _KEPT_MAX:
        _PARCELS.clear()
    _PARCELS[name] = (view, made)
    return made


def read_view(data: bytes, name: int) -> View:
    """The view that these bytes are, whose number as a parcel is `name`."""
    known = _VIEWS.get(name)
    if known is not None:
        return known
    made = _read_view(data)
    if len(_VIEWS) >= _KEPT_MAX:
        _VIEWS.clear()
    _VIEWS[name] = made
    return made


def _read_view(data: bytes) -> View:
    read = _Reading(data, "a view")
    number, many, f = read.u32(), read.many(), read.many()
    origin = read.id()
    members, lives, since, names = [], [], [], []
    gone = 0
    for at in range(many):
        members.append(read.id())
        lives.append(read.id())
        since.append(read.u32())
        gone |= read.bit() << at
        names.append(read.text())
    read.end()
    if origin == 0 or number == 0:
        raise RemoteProtocolError(f"a view with number {number} and origin {origin}")
    try:
        return View(
            number, tuple(members), tuple(lives), f, tuple(names), gone, tuple(since), origin
        )
    except ConfigError as error:
        raise RemoteProtocolError(f"a view of {many} members that are not in order") from error


def view_after(view: View, change: Change, f_max: int) -> View:
    """The view that a change makes of one."""
    name = (int(view.digest), view.number, f_max)
    known = _NEXT.get(name)
    if known is not None and known[0] is view and (known[1] is change or known[1] == change):
        return known[2]
    made = view.changed(change, f_max)
    if len(_NEXT) >= _KEPT_MAX:
        _NEXT.clear()
    _NEXT[name] = (view, change, made)
    return made


def intern_change(data: bytes, name: int) -> Change:
    """The change that these bytes are, whose number as a parcel is `name`."""
    known = _CHANGES.get(name)
    if known is not None:
        return known
    made = read_change(data)
    if len(_CHANGES) >= _KEPT_MAX:
        _CHANGES.clear()
    _CHANGES[name] = made
    return made


_PARCELS: Final[dict[tuple[int, int], tuple[View, Parcel]]] = {}
_VIEWS: Final[dict[int, View]] = {}
_CHANGES: Final[dict[int, Change]] = {}
_NEXT: Final[dict[tuple[int, int, int], tuple[View, Change, View]]] = {}


# -- bytes -----------------------------------------------------------------------------------------


def _write_name(out: BytesWriter, name: str) -> None:
    data = name.encode()
    if len(data) > NAME_BYTES_MAX:
        data = data[:NAME_BYTES_MAX].decode(errors="ignore").encode()
    out.append(u8(len(data)))
    out.write(data)


@final
class _Reading:
    """Bytes of others, from the first to the last; nothing is read that is not there."""

    def __init__(self, data: bytes, what: str) -> None:
        self._data: Final = data
        self._what: Final = what
        self._at: i64 = 0

    def _next(self, size: i64) -> i64:
        at = self._at
        if at + size > len(self._data):
            raise RemoteProtocolError(f"{self._what} of {len(self._data)} bytes is cut short")
        self._at = at + size
        return at

    def id(self) -> int:
        value = read_i64_le(self._data, self._next(8))
        if value < 0 or value > ID_MAX:
            raise RemoteProtocolError(f"{self._what} has the id {value}")
        return value

    def u32(self) -> int:
        return i64(read_i32_le(self._data, self._next(4))) & _NUMBER_MAX

    def many(self) -> int:
        found = self.u32()
        if found > MEMBERS_MAX:
            raise RemoteProtocolError(f"{self._what} speaks of {found} members")
        return found

    def bit(self) -> int:
        value = self._data[self._next(1)]
        if value > 1:
            raise RemoteProtocolError(f"{self._what} has {value} for yes or no")
        return value

    def text(self) -> str:
        size = self._data[self._next(1)]
        at = self._next(size)
        return read_name(self._data[at : at + size], self._what)

    def end(self) -> None:
        if self._at != len(self._data):
            raise RemoteProtocolError(f"{self._what} has {len(self._data) - self._at} bytes more")
