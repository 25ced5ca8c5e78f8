"""The history of a site on disk: a folder goes in; a store that outlives the process comes out.

The folder has one file. It begins with a line that says what it is, and a record that says whose;
then come the site's records, each with its length and a checksum. A record is written at once, so
a process that is killed loses none. A machine that loses power may leave the last ones half
written: what follows the last whole record is cut off when the file is opened again. `replace`
writes another file and puts it in place of the first, so there is always one that is whole.
"""

import contextlib
import fcntl
import json
import logging
import os
import struct
import zlib
from pathlib import Path
from typing import Final, final

from semcast.errors import InputError
from semcast.protocol.propagation.store import Store

log: Final = logging.getLogger("semcast")

FILE: Final = "history.semcast"
_LOCK: Final = "lock"
_MAGIC: Final = b"semcast history 1\n"
_HEAD: Final = struct.Struct("<II")
# No record of a site is larger; a length beyond this was never written by a site.
RECORD_BYTES_MAX: Final = 1 << 28


@final
class HistoryFile(Store):
    """The memory of one site, in a folder of its own."""

    def __init__(self, folder: str | Path, federation: str, site: str) -> None:
        """Raises InputError if the folder cannot be used, or is another site's."""
        self._folder: Final = Path(folder)
        self._path: Final = self._folder / FILE
        self._whose: Final = {"federation": federation, "site": site}
        self._records: list[bytes] = []
        self._lock = -1
        self._file = -1
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._take_lock()
            self._open()
        except OSError as error:
            self.close()
            raise InputError(f"cannot use history {str(folder)!r}: {error.strerror}") from None
        except BaseException:
            self.close()
            raise

    def _take_lock(self) -> None:
        self._lock = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"history {str(self._folder)!r} is in use by another site; give each one a folder "
                "of its own"
            ) from None

    def _open(self) -> None:
        if not self._path.exists():
            self.replace([])
            return
        content = self._path.read_bytes()
        if not content.startswith(_MAGIC):
            raise InputError(f"{self._path} is no history of a site; choose another folder")
        records, whole_bytes = _read(content)
        if not records:
            raise InputError(f"{self._path} does not say whose it is; choose another folder")
        whose = _whose(records[0])
        if whose != self._whose:
            raise InputError(
                f"{self._path} is the history of site {whose.get('site')!r} of "
                f"{whose.get('federation')!r}, and this is site {self._whose['site']!r} of "
                f"{self._whose['federation']!r}; give each site a folder of its own"
            )
        self._records = records[1:]
        self._file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        if whole_bytes < len(content):
            lost = len(content) - whole_bytes
            os.ftruncate(self._file, whole_bytes)
            log.warning(
                "%s: the last %d bytes were half written; going on without", self._path, lost
            )

    def append(self, record: bytes) -> None:
        self._write(self._file, _framed(record))
        self._records.append(record)

    def records(self) -> list[bytes]:
        return list(self._records)

    def replace(self, records: list[bytes]) -> None:
        whose = json.dumps(self._whose, sort_keys=True).encode()
        content = _MAGIC + b"".join(map(_framed, [whose, *records]))
        new = self._path.with_suffix(".new")
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        file = os.open(new, flags, 0o600)
        self._write(file, content)
        os.fsync(file)
        new.replace(self._path)
        if self._file >= 0:
            os.close(self._file)
        self._file = file
        self._records = list(records)

    def _write(self, file: int, content: bytes) -> None:
        """A site that cannot remember what it has to must not go on, so the error ends it."""
        try:
            while content:
                content = content[os.write(file, content) :]
        except OSError as error:
            raise InputError(f"cannot write {self._path}: {error.strerror}") from None

    def close(self) -> None:
        """Let go of the folder. Harmless when repeated."""
        for opened in (self._file, self._lock):
            if opened >= 0:
                with contextlib.suppress(OSError):
                    os.close(opened)
        self._file = self._lock = -1


def _framed(record: bytes) -> bytes:
    return _HEAD.pack(len(record), zlib.crc32(record)) + record


def _read(content: bytes) -> tuple[list[bytes], int]:
    """All whole records, and where the last of them ends."""
    records: list[bytes] = []
    at = len(_MAGIC)
    while at + _HEAD.size <= len(content):
        size, checksum = _HEAD.unpack_from(content, at)
        end = at + _HEAD.size + size
        if size > RECORD_BYTES_MAX or end > len(content):
            break
        record = content[at + _HEAD.size : end]
        if zlib.crc32(record) != checksum:
            break
        records.append(record)
        at = end
    return records, at


def _whose(record: bytes) -> dict[str, str]:
    try:
        found = json.loads(record)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}
