"""Which message replaces which (SRM §3): the relation, its two encodings, the taggers, a profiler.

What an application says (`replaces=…`) goes in, an `Annotation` that fits on the wire comes out;
`obsoletes(newer, older)` reads it back anywhere. Knows nothing of payloads, buffers or networks.
"""

from semcast.obsolescence.bitmap import K_DEFAULT, K_MAX, Closure
from semcast.obsolescence.relation import Mark, obsoletes
from semcast.obsolescence.tagger import (
    EVERYTHING,
    AllButLast,
    Annotation,
    Keys,
    Predecessors,
    Ranked,
    Replaces,
    Tagger,
)

__all__ = [
    "EVERYTHING",
    "K_DEFAULT",
    "K_MAX",
    "AllButLast",
    "Annotation",
    "Closure",
    "Keys",
    "Mark",
    "Predecessors",
    "Ranked",
    "Replaces",
    "Tagger",
    "obsoletes",
]
