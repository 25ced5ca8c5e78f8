"""Sealing: frames of one source in, numbered and sealed datagrams out; `opener` is the way back.

A `Sealer` belongs to one source and numbers its packets. Knows nothing of what the frames say; does
no input or output, draws no randomness and reads no clock. Not safe to call from two threads.

Each source seals with a key of its own:

    key   = HKDF-SHA256(secret, salt = "semcast datagram" | version,
                        info = suite | key id | group | sender | incarnation)
    nonce = 4 zero bytes | packet number

The info is the header's own bytes 1 to 27, so what a key is for is exactly what its datagrams
claim. The whole header is associated data. See docs/design/sealing.md.
"""

from typing import Final, TypeAlias, final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from semcast.errors import ConfigError, LocalProtocolError
from semcast.ids import ID_MAX, Source
from semcast.wire.checksum import checksum
from semcast.wire.header import (
    AES_256_GCM,
    CHACHA20_POLY1305,
    DATAGRAM_BYTES_MAX,
    HEADER_BYTES,
    PACKET_MAX,
    PLAIN,
    SOURCE_BYTES,
    Header,
    trailer_bytes,
)
from semcast.wire.keys import Keyring, Unsealed, require_keys

Cipher: TypeAlias = AESGCM | ChaCha20Poly1305

_CIPHERS: Final[dict[int, type[Cipher]]] = {
    AES_256_GCM: AESGCM,
    CHACHA20_POLY1305: ChaCha20Poly1305,
}
NONCE_PAD: Final = bytes(4)
# What one key may seal, in 16-byte blocks: 4 PiB, more than a year at 1 Gbit/s. An attacker's
# advantage against AES-GCM is about blocks²/2^129, here 2^-33; for comparison, SP 800-38D §8
# tolerates a repeated nonce with probability 2^-32. The way out is to rotate the key.
KEY_BLOCKS_MAX: Final = 1 << 48


def make_cipher(keys: Keyring, key_id: int, suite: int, header: bytes) -> Cipher:
    """The cipher of the source that `header` names. INV-NONCE rests on every byte of the info."""
    return _CIPHERS[suite](keys.secret(key_id).derive(header[1:SOURCE_BYTES]))


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
        require_id(group_id, "group id")
        require_id(source.sender, "sender id")
        require_id(source.incarnation, "incarnation")
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
        return header + self._cipher.encrypt(NONCE_PAD + number, frames, header)

    def _take_key(self) -> None:
        """Derive this source's key from the secret in use, if that has changed."""
        if self._ring is None:
            return
        key_id = self._ring.in_use
        key = (key_id, self._ring.secret(key_id).fingerprint)
        if key != self._key:
            header = Header(self.suite, key_id, self._group, self._source, 1).encode()
            try:
                self._cipher = make_cipher(self._ring, key_id, self.suite, header)
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


def require_id(value: int, name: str) -> None:
    if not 0 <= value <= ID_MAX:
        raise ConfigError(f"{name} is {value}; it goes from 0 to {ID_MAX}")


def _require_at_most(value: int, limit: int, name: str) -> None:
    if not 1 <= value <= limit:
        raise ConfigError(f"{name} is {value}; it goes from 1 to {limit}")
