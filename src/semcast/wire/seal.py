"""Sealing: frames in, datagrams out, and back only if they are authentic and fresh.

A `Sealer` belongs to one source and numbers its packets. An `Opener` takes whatever the network
brings and gives frames or one of three errors. Knows nothing of what the frames say; does no
input or output, draws no randomness and reads no clock. Not safe to call from two threads.

Each source seals with a key of its own:

    key   = HKDF-SHA256(secret, salt = "semcast datagram" | version,
                        info = suite | key id | group | sender | incarnation)
    nonce = 4 zero bytes | packet number

The info is the header's own bytes 1 to 27, so what a key is for is exactly what its datagrams
claim. The whole header is associated data. See docs/design/sealing.md.
"""

from typing import Final, TypeAlias, final

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from semcast.errors import ConfigError, LocalProtocolError, RemoteProtocolError, SealError
from semcast.ids import ID_MAX, Source
from semcast.wire.checksum import checksum
from semcast.wire.header import (
    AES_256_GCM,
    CHACHA20_POLY1305,
    CHECK_BYTES,
    DATAGRAM_BYTES_MAX,
    HEADER_BYTES,
    PACKET_MAX,
    PLAIN,
    SOURCE_BYTES,
    VERSION,
    Header,
    decode_header,
    trailer_bytes,
)
from semcast.wire.keys import Keyring, Unsealed, require_keys
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

Cipher: TypeAlias = AESGCM | ChaCha20Poly1305

_CIPHERS: Final[dict[int, type[Cipher]]] = {
    AES_256_GCM: AESGCM,
    CHACHA20_POLY1305: ChaCha20Poly1305,
}
_NONCE_PAD: Final = bytes(4)
# Datagrams may be large: beyond this size it pays to look and not to copy.
COPIED_BYTES_MAX: Final = 4096

# What one key may seal, in 16-byte blocks: 4 PiB, more than a year at 1 Gbit/s. An attacker's
# advantage against AES-GCM is about blocks²/2^129, here 2^-33; for comparison, SP 800-38D §8
# tolerates a repeated nonce with probability 2^-32. The way out is to rotate the key.
KEY_BLOCKS_MAX: Final = 1 << 48

# Why datagrams are refused: the keys of `Opener.refused`.
LENGTH: Final = "length"
VERSION_OTHER: Final = "version"
MALFORMED: Final = "malformed"
SUITE: Final = "suite"
GROUP: Final = "group"
KEY: Final = "key"
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
    TAG,
)


def _cipher(keys: Keyring, key_id: int, suite: int, header: bytes) -> Cipher:
    """The cipher of the source that `header` names. INV-NONCE rests on every byte of the info."""
    return _CIPHERS[suite](keys.secret(key_id).derive(header[1:SOURCE_BYTES]))


def _part(datagram: bytes, start: int, end: int) -> bytes | memoryview:
    if len(datagram) <= COPIED_BYTES_MAX:
        return datagram[start:end]
    return memoryview(datagram)[start:end]


def _decrypt(cipher: Cipher, datagram: bytes) -> bytes:
    nonce = _NONCE_PAD + datagram[SOURCE_BYTES:HEADER_BYTES]
    sealed = _part(datagram, HEADER_BYTES, len(datagram))
    return cipher.decrypt(nonce, sealed, datagram[:HEADER_BYTES])


@final
class Sealer:
    """Seals the datagrams of one source, under whichever key the keyring has in use."""

    def __init__(
        self,
        group_id: int,
        source: Source,
        keys: Keyring | Unsealed,
        suite: int = AES_256_GCM,
        *,
        packets_max: int = PACKET_MAX,
        key_blocks_max: int = KEY_BLOCKS_MAX,
    ) -> None:
        """`suite` is for sealed groups; an unsealed one has no choice to make."""
        require_keys(keys)
        _require_id(group_id, "group id")
        _require_id(source.sender, "sender id")
        _require_id(source.incarnation, "incarnation")
        _require_at_most(packets_max, PACKET_MAX, "packets_max")
        _require_at_most(key_blocks_max, KEY_BLOCKS_MAX, "key_blocks_max")
        if suite not in _CIPHERS:
            raise ConfigError(
                f"suite {suite} does not seal; use {AES_256_GCM} (AES-256-GCM) or "
                f"{CHACHA20_POLY1305} (ChaCha20-Poly1305), or pass UNSEALED for a plain group"
            )
        self._ring = keys if isinstance(keys, Keyring) else None
        self._group = group_id
        self._source = source
        self.suite: Final = PLAIN if self._ring is None else suite
        self.frames_bytes_max: Final = DATAGRAM_BYTES_MAX - HEADER_BYTES - trailer_bytes(self.suite)
        self._packets_max = packets_max
        self._key_blocks_max = key_blocks_max
        # INV-NONCE: no key ever seals two datagrams under one packet number. The key belongs to
        # this incarnation alone, so it holds as long as an incarnation has one Sealer per group,
        # never copied or forked, and no incarnation is used twice; and the number only grows,
        # across changes of key too. Checked by tests/wire/test_seal.py
        self._packet = 0
        self._cipher: Cipher | None = None
        self._key = (0, "")
        self._key_blocks = 0
        self._ring_version = 0
        self._prefix = Header(PLAIN, 0, group_id, source, 1).encode()[:SOURCE_BYTES]
        self._take_key()

    @property
    def packet(self) -> int:
        """The number of the last packet sealed; 0 if none."""
        return self._packet

    def seal(self, frames: bytes) -> bytes:
        """One datagram with these frames, under the next packet number."""
        if self._ring is not None and self._ring.version != self._ring_version:
            self._take_key()
        packet = self._packet + 1
        # A block more for what is left over, and one for the tag.
        key_blocks = self._key_blocks + len(frames) // 16 + 2
        if packet > self._packets_max or key_blocks > self._key_blocks_max:
            raise self._exhausted(packet)
        if len(frames) > self.frames_bytes_max:
            raise LocalProtocolError(
                f"frames of {len(frames)} bytes do not fit a datagram; "
                f"the most is {self.frames_bytes_max}"
            )
        # The number is spent before the cipher sees it: whatever interrupts, it is never reused.
        self._packet = packet
        number = packet.to_bytes(8, "little")
        header = self._prefix + number
        if self._cipher is None:
            body = header + frames
            return body + checksum(body)
        self._key_blocks = key_blocks
        return header + self._cipher.encrypt(_NONCE_PAD + number, frames, header)

    def _take_key(self) -> None:
        """Derive this source's key from the secret in use, if that has changed."""
        if self._ring is None:
            return
        key_id = self._ring.in_use
        key = (key_id, self._ring.secret(key_id).fingerprint)
        if key != self._key:
            header = Header(self.suite, key_id, self._group, self._source, 1).encode()
            try:
                self._cipher = _cipher(self._ring, key_id, self.suite, header)
            except UnsupportedAlgorithm:
                raise ConfigError(
                    f"this OpenSSL has no cipher for suite {self.suite}; use the other suite"
                ) from None
            self._prefix = header[:SOURCE_BYTES]
            self._key = key
            self._key_blocks = 0
        self._ring_version = self._ring.version

    def _exhausted(self, packet: int) -> LocalProtocolError:
        if packet > self._packets_max:
            return LocalProtocolError(
                f"{self._source!r} has sealed {self._packet} packets, the most an incarnation "
                "may; leave the group and join again"
            )
        return LocalProtocolError(
            f"key {self._key[0]} has sealed {self._key_blocks} blocks of 16 bytes, and may seal "
            f"{self._key_blocks_max}; rotate the group's key (install, use, remove)"
        )


@final
class Opened:
    """An authentic, fresh datagram: whose it is, and its frames."""

    __slots__ = ("frames", "header")

    def __init__(self, header: Header, frames: bytes) -> None:
        self.header: Final = header
        self.frames: Final = frames


@final
class _Known:
    """What all datagrams that begin as this header does have in common."""

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
    ) -> None:
        """With `proving`, lives of senders count for good only once they are proved."""
        require_keys(keys)
        _require_id(group_id, "group id")
        self._group = group_id
        self._ring = keys if isinstance(keys, Keyring) else None
        self._ring_version = 0
        self._guard = ReplayGuard(sources_max, window_size, proving)
        # INV-CACHE: the first bytes of the last datagram that opened, of each sender, and what is
        # known of datagrams that begin so under the keys of now. Only what the guard has committed
        # gets in, so it is no larger than the guard and a forgery neither grows it nor pushes
        # anything out.
        self._known: dict[bytes, _Known] = {}
        self._prefixes: dict[int, bytes] = {}
        self.opened = 0
        self.refused: Final = dict.fromkeys(REFUSALS, 0)

    def open(self, datagram: bytes) -> Opened:
        """The header and frames of an authentic datagram that was not opened before.

        Anything else raises RemoteProtocolError, SealError or ReplayError, is counted in
        `refused`, and changes nothing besides.
        """
        ring = self._ring
        if ring is not None and ring.version != self._ring_version:
            self._ring_version = ring.version
            self._known.clear()
        known = self._known.get(datagram[:SOURCE_BYTES])
        header = self._decode(datagram, known)
        if known is None:
            self._admit(header)
        self._require_fresh(header)
        cipher = known.cipher if known is not None else None
        if ring is None:
            frames = self._open_plain(datagram)
        else:
            if cipher is None:
                cipher = self._cipher_of(ring, header, datagram)
            frames = self._open_sealed(cipher, header, datagram)
        if self._guard.commit(header.source, header.packet) and known is None:
            self._remember(datagram[:SOURCE_BYTES], _Known(header, cipher))
        self.opened += 1
        return Opened(header, frames)

    def prove(self, source: Source, packet: int) -> bool:
        """Count a life that answered a challenge in this packet; see `ReplayGuard.prove`."""
        return self._guard.prove(source, packet)

    def authentic(self, datagram: bytes) -> bool:
        """Whether a datagram that was refused as a replay has the right tag; it is counted already.

        Replays are refused before the tag is looked at. Whoever answers one has to look.
        """
        try:
            if self._ring is None:
                return checksum(_part(datagram, 0, -CHECK_BYTES)) == datagram[-CHECK_BYTES:]
            header = decode_header(datagram)
            _decrypt(_cipher(self._ring, header.key_id, header.suite, datagram), datagram)
        except (InvalidTag, UnsupportedAlgorithm):
            return False
        return True

    def _remember(self, prefix: bytes, known: _Known) -> None:
        sender = known.header.source.sender
        self._known.pop(self._prefixes.get(sender, prefix), None)
        self._prefixes[sender] = prefix
        self._known[prefix] = known

    def _decode(self, datagram: bytes, known: _Known | None) -> Header:
        size = len(datagram)
        try:
            header = decode_header(datagram) if known is None else known.header.of(datagram)
        except RemoteProtocolError:
            if size < HEADER_BYTES:
                self.refused[LENGTH] += 1
            else:
                self.refused[MALFORMED if datagram[0] == VERSION else VERSION_OTHER] += 1
            raise
        size_min = HEADER_BYTES + trailer_bytes(header.suite)
        if not size_min <= size <= DATAGRAM_BYTES_MAX:
            raise self._refuse(
                LENGTH,
                RemoteProtocolError(
                    f"datagram of {size} bytes; one of suite {header.suite} has {size_min} to "
                    f"{DATAGRAM_BYTES_MAX}"
                ),
            )
        return header

    def _admit(self, header: Header) -> None:
        """Refuse what needs no cipher to refuse: cheap, and so before any cryptography."""
        if (header.suite == PLAIN) != (self._ring is None):
            text = (
                f"plain datagram from {header.source!r} in a sealed group"
                if header.suite == PLAIN
                else f"sealed datagram from {header.source!r} in an unsealed group"
            )
            raise self._refuse(SUITE, SealError(f"{text}; give every member the same secret"))
        if header.group != self._group:
            raise self._refuse(
                GROUP,
                RemoteProtocolError(
                    f"datagram of group {header.group:x} reached group {self._group:x}; "
                    "give each group an address or port of its own"
                ),
            )
        if self._ring is not None and header.key_id not in self._ring:
            raise self._refuse(
                KEY,
                SealError(
                    f"datagram from {header.source!r} under key {header.key_id}, which is not "
                    "installed here; install it on every member before any uses it"
                ),
            )

    def _require_fresh(self, header: Header) -> None:
        verdict = self._guard.verdict(header.source, header.packet)
        if verdict != FRESH:
            raise self._refuse(verdict, self._guard.refusal(verdict, header.source, header.packet))

    def _open_plain(self, datagram: bytes) -> bytes:
        body = _part(datagram, 0, len(datagram) - CHECK_BYTES)
        if checksum(body) != datagram[-CHECK_BYTES:]:
            raise self._refuse(
                TAG, SealError(f"plain datagram of {len(datagram)} bytes altered on the way")
            )
        return datagram[HEADER_BYTES:-CHECK_BYTES]

    def _cipher_of(self, ring: Keyring, header: Header, datagram: bytes) -> Cipher:
        try:
            return _cipher(ring, header.key_id, header.suite, datagram)
        except UnsupportedAlgorithm:
            raise self._unopened(header) from None

    def _open_sealed(self, cipher: Cipher, header: Header, datagram: bytes) -> bytes:
        try:
            return _decrypt(cipher, datagram)
        except InvalidTag:
            raise self._unopened(header) from None

    def _unopened(self, header: Header) -> RemoteProtocolError:
        return self._refuse(
            TAG,
            SealError(
                f"datagram claiming to be packet {header.packet} of {header.source!r} does "
                f"not open with key {header.key_id}: altered, forged, or another secret; "
                "compare fingerprints on both members"
            ),
        )

    def _refuse(self, reason: str, error: RemoteProtocolError) -> RemoteProtocolError:
        self.refused[reason] += 1
        return error


def _require_id(value: int, name: str) -> None:
    if not 0 <= value <= ID_MAX:
        raise ConfigError(f"{name} is {value}; it goes from 0 to {ID_MAX}")


def _require_at_most(value: int, limit: int, name: str) -> None:
    if not 1 <= value <= limit:
        raise ConfigError(f"{name} is {value}; it goes from 1 to {limit}")
