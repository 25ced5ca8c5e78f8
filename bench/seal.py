"""What sealing costs: µs to seal and to open one datagram, in either suite and plain.

Run as `python -m bench.seal` with semcast compiled, or with PYTHONPATH=src interpreted. Prints
the best of many short rounds, the one that others on the machine disturbed least. The last lines
are what a forged datagram of an unknown sender costs whoever receives it.
"""

import time
from collections.abc import Callable
from typing import Final

from semcast.errors import SealError
from semcast.ids import Source
from semcast.wire import header
from semcast.wire.header import AES_256_GCM, CHACHA20_POLY1305, HEADER_BYTES, PLAIN, trailer_bytes
from semcast.wire.keys import UNSEALED, Keyring
from semcast.wire.opener import Opener
from semcast.wire.seal import Sealer

DATAGRAM_BYTES: Final = 1400
DATAGRAMS: Final = 2_000
ROUNDS: Final = 40
NAMES: Final = {PLAIN: "plain", AES_256_GCM: "AES-256-GCM", CHACHA20_POLY1305: "ChaCha20-Poly1305"}


def each_us(work: Callable[[bytes], object], items: list[bytes]) -> float:
    """The time that work takes for one of the items, in µs."""
    start_ns = time.perf_counter_ns()
    for item in items:
        work(item)
    return (time.perf_counter_ns() - start_ns) / len(items) / 1000


def measure_us(suite: int) -> tuple[float, float]:
    """The best times to seal and to open."""
    keys = UNSEALED if suite == PLAIN else Keyring(bytes(range(32)))
    frames = bytes(DATAGRAM_BYTES - HEADER_BYTES - trailer_bytes(suite))
    seal_us, open_us = [], []
    for incarnation in range(ROUNDS):
        timed, other = (
            Sealer(1, Source(sender, incarnation), keys, suite or AES_256_GCM) for sender in (1, 2)
        )
        seal_us.append(each_us(timed.seal, [frames] * DATAGRAMS))
        sealed = [other.seal(frames) for _ in range(DATAGRAMS)]
        open_us.append(each_us(Opener(1, keys).open, sealed))
    return min(seal_us), min(open_us)


def measure_forgery_us(suite: int) -> float:
    """The best time to refuse a datagram of a sender that is not cached and has the wrong key."""
    keys, opener = Keyring(bytes(range(32))), Opener(1, Keyring(bytes(32)))
    frames = bytes(DATAGRAM_BYTES - HEADER_BYTES - trailer_bytes(suite))
    forged = [Sealer(1, Source(sender, 1), keys, suite).seal(frames) for sender in range(DATAGRAMS)]

    def refuse(datagram: bytes) -> None:
        try:
            opener.open(datagram)
        except SealError:
            return
        raise AssertionError("a forged datagram was opened")

    return min(each_us(refuse, forged) for _ in range(ROUNDS))


def main() -> None:
    """Print the table."""
    interpreted = str(header.__file__).endswith(".py")
    build = "interpreted" if interpreted else "compiled"
    print(f"{DATAGRAM_BYTES}-byte datagrams, {build}, best of {ROUNDS} rounds of {DATAGRAMS}")
    print(f"{'suite':<20}{'seal µs':>10}{'open µs':>10}{'both µs':>10}")
    for suite, name in NAMES.items():
        seal_us, open_us = measure_us(suite)
        print(f"{name:<20}{seal_us:>10.2f}{open_us:>10.2f}{seal_us + open_us:>10.2f}")
    for suite in (AES_256_GCM, CHACHA20_POLY1305):
        print(f"{NAMES[suite] + ', forged':<30}{measure_forgery_us(suite):>10.2f}")


if __name__ == "__main__":
    main()
