"""Many datagrams in one system call, where the kernel can: GSO to send, GRO to receive (Linux).

Datagrams go in, and the lengths of runs that can go together come out; a received batch goes in,
and its datagrams come out. What the kernel cannot do, the caller does with plain calls.
"""

import errno
import socket
import struct
from typing import Final

from semcast.live.sockets.address import Address

SOL_UDP: Final = 17
UDP_SEGMENT: Final = 103
UDP_GRO: Final = 104
# Older kernels stop at 64 segments; 65,507 is the largest payload of one IPv4 datagram, which is
# what a batch is until it is cut up.
SEGMENTS_MAX: Final = 64
BATCH_BYTES_MAX: Final = 65_507
# Room for the one integer that says how long the segments of a received batch are.
ANCILLARY_BYTES: Final = socket.CMSG_SPACE(4) if hasattr(socket, "CMSG_SPACE") else 0
# The kernel has no GSO, or the interface cannot checksum: do not ask again.
REFUSED: Final = frozenset({errno.EIO, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOPROTOOPT})

Ancillary = list[tuple[int, int, bytes]]


def can_segment(sock: socket.socket) -> bool:
    try:
        sock.getsockopt(SOL_UDP, UDP_SEGMENT)
    except OSError:
        return False
    return ANCILLARY_BYTES > 0


def receive_batches(sock: socket.socket) -> bool:
    """Ask for batches; whether the kernel will give them."""
    if ANCILLARY_BYTES == 0:
        return False
    try:
        sock.setsockopt(SOL_UDP, UDP_GRO, 1)
    except OSError:
        return False
    return True


def run_length(datagrams: list[bytes], start: int, segment_bytes_max: int) -> int:
    """How many datagrams from `start` on fit one call: equal sizes, the last may be smaller."""
    size = len(datagrams[start])
    if not 0 < size <= segment_bytes_max:
        return 1
    end = min(len(datagrams), start + min(SEGMENTS_MAX, BATCH_BYTES_MAX // size))
    for at in range(start + 1, end):
        other = len(datagrams[at])
        if other != size:
            return at - start + (1 if 0 < other < size else 0)
    return max(1, end - start)


def segment_request(segment_bytes: int) -> Ancillary:
    """What tells the kernel where to cut a batch."""
    return [(SOL_UDP, UDP_SEGMENT, struct.pack("=H", segment_bytes))]


def split(data: bytes, ancillary: Ancillary, source: Address) -> list[tuple[bytes, Address]]:
    """The datagrams of a received batch."""
    step = len(data)
    for level, kind, value in ancillary:
        if level == SOL_UDP and kind == UDP_GRO and len(value) >= 4:
            step = struct.unpack_from("=i", value)[0]
    if not 0 < step < len(data):
        return [(data, source)]
    return [(data[at : at + step], source) for at in range(0, len(data), step)]
