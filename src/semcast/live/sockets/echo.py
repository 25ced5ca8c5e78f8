"""Keeping a member's own multicasts from coming back to it: a filter in the kernel.

The kernel gives multicasts to every listening socket of the machine, the sender's own too, which
would have to receive and throw away all that it sends. A classic BPF program on that socket drops
what has the sender's address and port. Where that fails only time is lost: a session knows its own
datagrams.
"""

import ctypes
import socket
import struct
from contextlib import suppress
from typing import Final

_SO_ATTACH_FILTER: Final = 26  # Linux
# Operations: load a half word or a word at a constant place, jump if equal, return a constant.
_LOAD_HALF, _LOAD, _JUMP_EQUAL, _RETURN = 0x28, 0x20, 0x15, 0x06
# A filter of a UDP socket sees the UDP header first; this much below is where the IP header is.
_NETWORK: Final = 0xFFF00000
_SOURCE_AT: Final = {socket.AF_INET: 12, socket.AF_INET6: 8}
_WHOLE, _NOTHING = 0xFFFFFFFF, 0


def ignore_own(listening: socket.socket, sending: socket.socket) -> None:
    """`listening` gets nothing any more that `sending` sends; best effort."""
    host, port = sending.getsockname()[:2]
    if not hasattr(socket, "AF_NETLINK"):
        return
    with suppress(OSError):
        source = socket.inet_pton(sending.family, host.partition("%")[0])
        if any(source):  # bound to any address: there is no one source to look for
            _attach(listening, _program(sending.family, source, port))


def _program(family: int, source: bytes, port: int) -> list[tuple[int, int, int, int]]:
    """Instructions: what to do, where to go on if so and if not, and the constant."""
    words = struct.unpack(f"!{len(source) // 4}I", source)
    steps = [(_LOAD_HALF, 0, port)]
    at = _NETWORK + _SOURCE_AT[socket.AddressFamily(family)]
    steps += [(_LOAD, at + 4 * number, word) for number, word in enumerate(words)]
    program = []
    for number, (load, place, wanted) in enumerate(steps):
        # If it differs, over the other comparisons and the first return.
        others = 2 * (len(steps) - number - 1) + 1
        program += [(load, 0, 0, place), (_JUMP_EQUAL, 0, others, wanted)]
    return [*program, (_RETURN, 0, 0, _NOTHING), (_RETURN, 0, 0, _WHOLE)]


def _attach(sock: socket.socket, program: list[tuple[int, int, int, int]]) -> None:
    code = b"".join(struct.pack("=HBBI", *step) for step in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    pointer = struct.pack("HP", len(program), ctypes.addressof(buffer))
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, pointer)
