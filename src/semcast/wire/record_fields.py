"""Fields of records: integers, texts and bytes in, bytes out, and back with every step checked.

A record is what two sites of a federation tell each other on a link; unlike a frame it may be
larger than a datagram. Integers are little-endian. No read goes beyond the record's end.
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i32_le, write_i64_le
from mypy_extensions import i64

from semcast.errors import RemoteProtocolError
from semcast.ids import ID_MAX, SEQ_MAX, Source

# More of anything in one record makes no sense.
ITEMS_MAX: Final = 1 << 20


@final
class RecordWriter:
    """Writes one record."""

    def __init__(self, kind: int) -> None:
        self._out: Final = BytesWriter()
        self._out.append(kind)

    def number(self, value: i64) -> None:
        """Any signed integer of 64 bits."""
        write_i64_le(self._out, value)

    def count(self, value: int) -> None:
        """How many of something follow."""
        assert 0 <= value <= ITEMS_MAX
        write_i32_le(self._out, value)

    def source(self, source: Source) -> None:
        """A life of a site; a stream is written as the site that it is of."""
        write_i64_le(self._out, source.site)
        write_i64_le(self._out, source.incarnation)

    def data(self, value: bytes) -> None:
        """Bytes, with their length first."""
        write_i32_le(self._out, len(value))
        self._out.write(value)

    def text(self, value: str) -> None:
        """A text in UTF-8, with its length first."""
        self.data(value.encode())

    def take(self) -> bytes:
        """The whole record."""
        return self._out.getvalue()


@final
class RecordReader:
    """Reads one record from its second byte on; the first says what it is."""

    def __init__(self, record: bytes) -> None:
        self._record: Final = record
        self._at: i64 = 1
        self._end: Final[i64] = len(record)

    def _step(self, size: i64) -> i64:
        at = self._at
        if size < 0 or size > self._end - at:
            raise RemoteProtocolError(
                f"record of {self._end} bytes ends where {size} more were to be read"
            )
        self._at = at + size
        return at

    def number(self) -> int:
        """Any signed integer of 64 bits."""
        return read_i64_le(self._record, self._step(8))

    def seq(self) -> int:
        """A number from 1 on."""
        value = self.number()
        if not 1 <= value <= SEQ_MAX:
            raise RemoteProtocolError(f"number {value} in a record is out of range")
        return value

    def seq_or_none(self) -> int:
        """A number from 1 on, or 0 for none."""
        value = self.number()
        if not 0 <= value <= SEQ_MAX:
            raise RemoteProtocolError(f"number {value} in a record is out of range")
        return value

    def site(self) -> int:
        """The id of a site."""
        value = self.number()
        if not 0 <= value <= ID_MAX:
            raise RemoteProtocolError(f"site {value} in a record is out of range")
        return value

    def source(self) -> Source:
        """A life of a site."""
        sender = self.site()
        return Source(sender, self.site())

    def count(self, item_bytes: int) -> int:
        """How many follow, of at least so many bytes each: never more than there is room for."""
        count = int(read_i32_le(self._record, self._step(4)))
        if count < 0 or count * item_bytes > int(self._end - self._at):
            raise RemoteProtocolError(f"record promises {count} items, which do not fit it")
        return count

    def data(self) -> bytes:
        """Bytes with their length first."""
        size = i64(read_i32_le(self._record, self._step(4)))
        at = self._step(size)
        return self._record[at : at + size]

    def text(self, bytes_max: int) -> str:
        """A text of at most so many bytes."""
        data = self.data()
        if len(data) > bytes_max:
            raise RemoteProtocolError(f"text of {len(data)} bytes; {bytes_max} are the most")
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise RemoteProtocolError("a text that is not UTF-8") from error

    def end(self) -> None:
        """Nothing may be left."""
        if self._at != self._end:
            raise RemoteProtocolError(f"record has {self._end - self._at} bytes too many")
