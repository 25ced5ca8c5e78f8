"""For your own tests: Hypothesis strategies that make messages which replace each other, and a
network in memory, with loss, on which groups run in virtual time.

    from semcast.testing import FakeNetwork, streams

    @given(streams())
    def test_my_cache_ends_up_the_same_whatever_was_purged(stream): ...

Needs Hypothesis, which semcast itself never imports.
"""

from semcast.testing.network import FakeMember, FakeNetwork, FakeTransport
from semcast.testing.strategies import (
    K_EDGES,
    arrivals,
    bitmaps,
    buffer_configs,
    key_names,
    ks,
    messages,
    replacements,
    sources,
    streams,
    tagged,
)

__all__ = [
    "K_EDGES",
    "FakeMember",
    "FakeNetwork",
    "FakeTransport",
    "arrivals",
    "bitmaps",
    "buffer_configs",
    "key_names",
    "ks",
    "messages",
    "replacements",
    "sources",
    "streams",
    "tagged",
]
