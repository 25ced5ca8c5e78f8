"""Opening: datagrams of a group in; frames out, or the reason why one is refused.

An `Opener` takes whatever the network brings. What can be refused without cryptography is refused
first, since anybody may send anything. Knows nothing of what the frames say, reads no clock. Not
safe to call from two threads. `seal` says what a datagram is; see also docs/design/sealing.md.
"""

from typing import Final, final

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm

from semcast.errors import RemoteProtocolError, SealError
from semcast.ids import Source
from semcast.wire.checksum import checksum
from semcast.wire.header import (
    CHECK_BYTES,
    DATAGRAM_BYTES_MAX,
    HEADER_BYTES,
    PLAIN,
    SOURCE_BYTES,
    VERSION,
    Header,
    decode_header,
    read_header,
    trailer_bytes,
)
from semcast.wire.keys import Keyring, Unsealed, require_keys
from semcast.wire.newcomers import Newcomers
from semcast.wire.replay import (
    FRESH,
    NO_ROOM,
    OLD_INCARNATION,
    SEEN,
    SOURCES_MAX,
    TOO_OLD,
    WINDOW_SIZE,
    ReplayGuard,
)
from semcast.wire.seal import NONCE_PAD, Cipher, make_cipher, require_id

# Parts of a datagram that is larger than this are viewed rather than copied, which is faster.
COPIED_BYTES_MAX: Final = 4096

# Why datagrams are refused: the keys of `Opener.refused`.
LENGTH: Final = "length"
VERSION_OTHER: Final = "version"
MALFORMED: Final = "malformed"
SUITE: Final = "suite"
GROUP: Final = "group"
KEY: Final = "key"
UNKNOWN: Final = "unknown"
TAG: Final = "tag"
REFUSALS: Final = (
    LENGTH,
    VERSION_OTHER,
    MALFORMED,
    SUITE,
    GROUP,
    KEY,
    SEEN,
    TOO_OLD,
    OLD_INCARNATION,
    NO_ROOM,
    UNKNOWN,
    TAG,
)
# Those refusals that mean: the datagram came before, or its sender has a newer life.
REPLAYS: Final = (SEEN, TOO_OLD, OLD_INCARNATION, NO_ROOM)


def _part(datagram: bytes, start: int, end: int) -> bytes | memoryview:
    if len(datagram) <= COPIED_BYTES_MAX:
        return datagram[start:end]
    return memoryview(datagram)[start:end]


def _decrypt(cipher: Cipher, datagram: bytes) -> bytes:
    nonce = NONCE_PAD + datagram[SOURCE_BYTES:HEADER_BYTES]
    sealed = _part(datagram, HEADER_BYTES, len(datagram))
    return cipher.decrypt(nonce, sealed, datagram[:HEADER_BYTES])


@final
class Opened:
    """An authentic, fresh datagram: whose it is, and its frames."""

    __slots__ = ("frames", "header")

    def __init__(self, header: Header, frames: bytes) -> None:
        self.header: Final = header
        self.frames: Final = frames


@final
class _Known:
    """What is known of all datagrams that have the same first SOURCE_BYTES."""

    def __init__(self, header: Header, cipher: Cipher | None) -> None:
        self.header: Final = header
        self.cipher: Final = cipher


@final
class Opener:
    """Opens the datagrams of one group. Both suites open: each sender chooses its own."""

    def __init__(
        self,
        group_id: int,
        keys: Keyring | Unsealed,
        window_size: int = WINDOW_SIZE,
        sources_max: int = SOURCES_MAX,
        proving: bool = False,
        newcomers: Newcomers | None = None,
    ) -> None:
        """With `proving`, lives of senders count for good only once they are proved. Without
        `newcomers`, a key is derived for every source, even if an attacker made it up.
        """
        require_keys(keys)
        require_id(group_id, "group id")
        self._group = group_id
        self._ring = keys if isinstance(keys, Keyring) else None
        self._ring_version = 0
        self._guard = ReplayGuard(sources_max, window_size, proving)
        self._newcomers: Final = newcomers
        # INV-CACHE: by the first bytes of a datagram, what is known of all that begin so. Only
        # lives that the guard knows are here, under the present keys. Such a life has at most two
        # beginnings for each key, so a forgery can neither make this grow beyond that nor push
        # anything out; and each beginning costs one derivation, once.
        self._known: dict[bytes, _Known] = {}
        self._prefixes: dict[int, list[bytes]] = {}
        self.opened = 0
        # How many keys were derived, which is most of what forgeries cost.
        self.derived = 0
        self.refused: Final = dict.fromkeys(REFUSALS, 0)
        # Why the last refused datagram was refused: one of REFUSALS.
        self.why = ""

    def open(self, datagram: bytes) -> Opened:
        """The header and frames of an authentic datagram that was not opened before.

        Anything else raises RemoteProtocolError, SealError or ReplayError, is counted in
        `refused`, and changes nothing besides.
        """
        opened = self.try_open(datagram)
        if opened is None:
            raise self._error(datagram)
        return opened

    def try_open(self, datagram: bytes) -> Opened | None:
        """As `open`, but None in place of an error, and `why` is the reason.

        A flood brings many datagrams that do not open, so refusing one makes no error and no text.
        """
        ring = self._ring
        if ring is not None and ring.version != self._ring_version:
            self._ring_version = ring.version
            self._known.clear()
            self._prefixes.clear()
        known = self._known.get(datagram[:SOURCE_BYTES])
        header = read_header(datagram) if known is None else known.header.of(datagram)
        why = self._fault(datagram, header, known is None)
        if why:
            return self._refuse(why)
        assert header is not None
        why = self._guard.verdict(header.source, header.packet)
        if why != FRESH:
            return self._refuse(why)
        if ring is None:
            if checksum(_part(datagram, 0, len(datagram) - CHECK_BYTES)) != datagram[-CHECK_BYTES:]:
                return self._refuse(TAG)
            frames = datagram[HEADER_BYTES:-CHECK_BYTES]
            found = known or _Known(header, None)
        else:
            if known is None:
                made = self._cipher_of(ring, header, datagram)
                if made is None:
                    return None
                found = made
            else:
                found = known
            assert found.cipher is not None
            try:
                frames = _decrypt(found.cipher, datagram)
            except InvalidTag:
                return self._refuse(TAG)
        lasts = self._guard.commit(header.source, header.packet)
        # In a group without a secret anybody can make up lives, and remembering one saves little.
        if known is None and (lasts or ring is not None):
            self._remember(datagram[:SOURCE_BYTES], found)
        self.opened += 1
        return Opened(header, frames)

    def prove(self, source: Source, packet: int) -> bool:
        """Count a life that answered a challenge in this packet; see `ReplayGuard.prove`."""
        return self._guard.prove(source, packet)

    def forget(self, sender: int) -> None:
        """Remember nothing of a sender; see `ReplayGuard.forget`."""
        self._guard.forget(sender)

    def authentic(self, datagram: bytes) -> bool:
        """Whether a datagram that was refused as a replay has the right tag. Counts nothing.

        Replays are refused before the tag is checked, so a caller that answers one has to check.
        """
        try:
            if self._ring is None:
                return checksum(_part(datagram, 0, -CHECK_BYTES)) == datagram[-CHECK_BYTES:]
            known = self._known.get(datagram[:SOURCE_BYTES])
            cipher = known.cipher if known is not None else None
            if cipher is None:
                header = decode_header(datagram)
                self.derived += 1
                cipher = make_cipher(self._ring, header.key_id, header.suite, datagram)
            _decrypt(cipher, datagram)
        except (InvalidTag, UnsupportedAlgorithm):
            return False
        return True

    def _remember(self, prefix: bytes, known: _Known) -> None:
        sender = known.header.source.sender
        former = self._prefixes.get(sender, [])
        if not former and len(self._prefixes) >= self._guard.sources_max:
            # The guard has forgotten some of these; those that are still heard come back.
            self._known.clear()
            self._prefixes.clear()
        kept = []
        for one in former:
            if one == prefix or not self._guard.knows(self._known[one].header.source):
                del self._known[one]
            else:
                kept.append(one)
        self._prefixes[sender] = [*kept, prefix]
        self._known[prefix] = known

    def _fault(self, datagram: bytes, header: Header | None, unknown: bool) -> str:
        """Why a datagram is refused, as far as that takes no cipher, or "". This is cheap, and so
        comes before any cryptography.
        """
        size = len(datagram)
        if header is None:
            if size < HEADER_BYTES:
                return LENGTH
            return MALFORMED if datagram[0] == VERSION else VERSION_OTHER
        if not HEADER_BYTES + trailer_bytes(header.suite) <= size <= DATAGRAM_BYTES_MAX:
            return LENGTH
        if not unknown:
            return ""
        if (header.suite == PLAIN) != (self._ring is None):
            return SUITE
        if header.group != self._group:
            return GROUP
        if self._ring is not None and header.key_id not in self._ring:
            return KEY
        return ""

    def _cipher_of(self, ring: Keyring, header: Header, datagram: bytes) -> _Known | None:
        """The cipher for datagrams of a source; None if making it would cost too much."""
        heard = self._guard.knows(header.source)
        newcomers = self._newcomers
        if not heard and newcomers is not None and not newcomers.may_cost(header.source.sender):
            return self._refuse_cipher(UNKNOWN)
        self.derived += 1
        try:
            known = _Known(header, make_cipher(ring, header.key_id, header.suite, datagram))
        except UnsupportedAlgorithm:
            return self._refuse_cipher(TAG)
        if heard:
            # Whether or not this datagram opens, the next one that begins so needs no derivation.
            self._remember(datagram[:SOURCE_BYTES], known)
        return known

    def _refuse(self, why: str) -> Opened | None:
        self.refused[why] += 1
        self.why = why
        return None

    def _refuse_cipher(self, why: str) -> _Known | None:
        self._refuse(why)
        return None

    def _error(self, datagram: bytes) -> RemoteProtocolError:
        """The error that says why the datagram was just refused."""
        try:
            header = decode_header(datagram)
        except RemoteProtocolError as error:
            return error
        why, source = self.why, header.source
        if why == LENGTH:
            return RemoteProtocolError(
                f"datagram of {len(datagram)} bytes; one of suite {header.suite} has "
                f"{HEADER_BYTES + trailer_bytes(header.suite)} to {DATAGRAM_BYTES_MAX}"
            )
        if why == SUITE:
            kinds = ("sealed", "an unsealed") if self._ring is None else ("plain", "a sealed")
            return SealError(
                f"{kinds[0]} datagram from {source!r} in {kinds[1]} group; "
                "give every member the same secret"
            )
        if why == GROUP:
            return RemoteProtocolError(
                f"datagram of group {header.group:x} reached group {self._group:x}; "
                "give each group an address or port of its own"
            )
        if why == KEY:
            return SealError(
                f"datagram from {source!r} under key {header.key_id}, which is not installed "
                "here; install it on every member before any uses it"
            )
        if why == UNKNOWN:
            return SealError(
                f"datagram from {source!r}, who was never heard; more such came than are looked at"
            )
        if why != TAG:
            return self._guard.refusal(why, source, header.packet)
        if self._ring is None:
            return SealError(f"plain datagram of {len(datagram)} bytes altered on the way")
        return SealError(
            f"datagram claiming to be packet {header.packet} of {source!r} does not open with key "
            f"{header.key_id}: altered, forged, or another secret; compare fingerprints on both "
            "members"
        )
