"""A link that takes long: whatever enters a network device at one end leaves the other one later.

Run as `python -m tests.live.slow_link <ms> <namespace> <device> <namespace> <device>`; makes both
devices (TAP), says "ready", and forwards frames until it is killed. Not every kernel can delay
packets by itself (netem). A TAP device offers no offloads, so frames are whole as on a wire.
"""

import ctypes
import fcntl
import os
import select
import struct
import sys
import time
from collections import deque

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TAP_WITHOUT_HEADER = 0x0002 | 0x1000
FRAME_BYTES_MAX = 65_536
# As much as an interface's own queue holds by default; what does not fit is lost.
FRAMES_MAX = 1000


def open_end(netns: str, device: str) -> int:
    """A TAP device is in the namespace that its file was opened in."""
    inside = os.open(f"/var/run/netns/{netns}", os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(inside, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter {netns}")
    finally:
        os.close(inside)
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TAP_WITHOUT_HEADER))
    return end


def forward(ends: tuple[int, int], delay_s: float) -> None:
    """All are delayed alike, so the first that came is the first that is due."""
    waiting: deque[tuple[float, int, bytes]] = deque()
    while True:
        left_s = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for end in select.select(ends, [], [], left_s)[0]:
            frame = os.read(end, FRAME_BYTES_MAX)
            if len(waiting) < FRAMES_MAX:
                other = ends[1] if end == ends[0] else ends[0]
                waiting.append((time.monotonic() + delay_s, other, frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _, end, frame = waiting.popleft()
            try:
                os.write(end, frame)
            except OSError:
                continue  # down, or not up yet: as if nothing were plugged in


def main() -> None:
    delay_ms, netns, device, other_netns, other_device = sys.argv[1:]
    ends = open_end(netns, device), open_end(other_netns, other_device)
    print("ready", flush=True)
    forward(ends, float(delay_ms) / 1000)


if __name__ == "__main__":
    main()
