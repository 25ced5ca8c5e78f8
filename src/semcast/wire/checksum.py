"""What a plain datagram ends with: it finds accidents, and stops nobody."""

import zlib
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from semcast.wire.header import CHECK_BYTES

# Up to this size: CRC-32. Beyond it the first bytes of AES-256-GMAC under a key that everybody
# knows: it finds accidents as a CRC does, but takes a sixth of the time for 64 KB. For small ones,
# and above all now and then, calling OpenSSL takes longer.
CRC_BYTES_MAX: Final = 2048
_CHECKER: Final = AESGCM(bytes(32))
_CHECK_NONCE: Final = bytes(12)


def checksum(body: bytes | memoryview) -> bytes:
    """The checksum of all that comes before it."""
    if len(body) <= CRC_BYTES_MAX:
        return zlib.crc32(body).to_bytes(CHECK_BYTES, "little")
    return _CHECKER.encrypt(_CHECK_NONCE, b"", body)[:CHECK_BYTES]
