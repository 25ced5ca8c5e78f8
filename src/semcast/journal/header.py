"""The header of a journal: which run, of whom, and what had been promised.

The checkers read from it what to hold the log against. Goes into files as JSON.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Final

from semcast.errors import InputError
from semcast.journal.names import parse_node
from semcast.protocol.config import MemberConfig
from semcast.settings import Place, at, named

MEMBERSHIPS: Final = ("closed", "open")
# Beside what a `Member` promises: gossip promises nothing of a single message but integrity.
GOSSIP: Final = "gossip"
# A federation promises one order over all of its groups, and delivery to their members.
FEDERATION: Final = "federation"
# What a federation does about a site that crashes (PROP §5.2); nothing is said of other groups.
RECOVERIES: Final = ("", "atomic", "non-atomic")


@dataclass(frozen=True)
class Header:
    """What is known of a whole run."""

    run: str
    # The nodes that were there from the start, as names; whoever else shows up joined later. Nobody
    # in an open group, where all come one after the other.
    members: tuple[str, ...]
    group: str = ""
    # What replays the run, if anything does.
    seed: str = ""
    # The rest as in MemberConfig; a bound of 0 is none, and none is checked.
    reliability: str = "group"
    purging: bool = True
    # Journals that do not say so are of the time when there was only this one.
    order: str = "fifo"
    deliver_own: bool = True
    replacement: str = "bitmap"
    k: int = 64
    f: int = 1
    delivery_messages: int = 0
    delivery_bytes: int = 0
    window_messages: int = 0
    window_bytes: int = 0
    total_messages: int = 0
    # "open": processes come and go, and views say who is there. Journals that do not say so are
    # of the time when members were always counted.
    membership: str = "closed"
    # Those that only receive, as nodes, or as senders in whatever life, such as p3.
    readers: tuple[str, ...] = ()
    # What whoever comes later gets first: "keys", of each key the value that stands.
    state: str = "none"
    # Of a federation: "atomic", where all wait for a site that crashed and it goes on when it comes
    # back, or "non-atomic", where the others go on and it is told what to roll back.
    recovery: str = ""
    # Whether the order of the events is one in which they happened, for all nodes together. A
    # simulated world knows it. The clocks of several machines do not: there it is known for each
    # node by itself only.
    one_order: bool = True
    # In the file of one life of a live member: which node it is, what people call it, and whether
    # it came when the group ran already. A run's own header, when such files are read as one
    # journal, has all of their names instead, each as "node name".
    node: str = ""
    name: str = ""
    joined: bool = False
    names: tuple[str, ...] = ()
    # Events that could not be written down, because disk or queue could not follow. What a node
    # did after such a gap is not judged; see lives.py.
    left_out: int = 0

    def __post_init__(self) -> None:
        if not self.run:
            raise InputError("the journal's run has no name; give it one")
        if self.membership not in MEMBERSHIPS:
            raise InputError(
                f"membership {self.membership!r} in the journal's header; "
                f"it is {' or '.join(map(repr, MEMBERSHIPS))}"
            )
        if not self.members and not self.open:
            raise InputError("the journal's header names no members; name who was there at first")
        for name in ("reliability", "order", "replacement"):
            choices = named(name).choices
            if name == "reliability":
                choices = tuple(dict.fromkeys((*choices, GOSSIP, FEDERATION)))
            if getattr(self, name) not in choices:
                raise InputError(
                    f"{name} {getattr(self, name)!r} in the journal's header; "
                    f"it is {' or '.join(map(repr, choices))}"
                )
        if self.recovery not in RECOVERIES:
            raise InputError(
                f"recovery {self.recovery!r} in the journal's header; "
                f"it is {' or '.join(map(repr, RECOVERIES))}"
            )
        for name in self.members:
            parse_node(name)
            if self.members.count(name) > 1:
                raise InputError(f"the journal's header names {name} twice among its members")

    @property
    def open(self) -> bool:
        """Whether processes come and go."""
        return self.membership == "open"

    @property
    def federated(self) -> bool:
        """Whether this is a federation, whose rows say which group a message goes to."""
        return self.reliability == FEDERATION

    @staticmethod
    def of(
        config: MemberConfig,
        members: Sequence[str],
        run: str,
        group: str = "",
        seed: str = "",
        one_order: bool = True,
        membership: str = "closed",
        readers: Sequence[str] = (),
    ) -> "Header":
        """The header of a run whose members all have this configuration."""
        promised = {name: getattr(config, name) for name in _PROMISED}
        return Header(
            run=run,
            members=tuple(members),
            group=group,
            seed=seed,
            membership=membership,
            readers=tuple(readers),
            one_order=one_order,
            **promised,
        )

    def to_json(self) -> str:
        """One line of JSON. What only federations have is left out of others, so that their files
        are as those of older versions.
        """
        found = asdict(self)
        if not self.recovery:
            del found["recovery"]
        return json.dumps(found)

    @staticmethod
    def from_json(text: str) -> "Header":
        """Back from JSON; anything else than a header is an InputError."""
        try:
            found = json.loads(text)
        except ValueError as error:
            raise InputError(f"the journal's header is not JSON: {error}") from error
        if not isinstance(found, dict):
            raise InputError("the journal's header is not a JSON object")
        known = {field.name for field in fields(Header)}
        values: dict[str, object] = {}
        for name, value in found.items():
            if name not in known:
                raise InputError(f"the journal's header has {name!r}, which this version lacks")
            # Exactly this type: True is an int to Python, and no number here.
            kind = list if name in _LISTS else type(getattr(_EXAMPLE, name))
            if type(value) is not kind:
                raise InputError(
                    f"the journal's header has {name} = {value!r}, "
                    f"and should have a {kind.__name__} there"
                )
            values[name] = tuple(map(str, value)) if isinstance(value, list) else value
        missing = {"run", "members"} - values.keys()
        if missing:
            raise InputError(f"the journal's header lacks {' and '.join(sorted(missing))}")
        return Header(**values)  # type: ignore[arg-type]  # each was checked above


_LISTS = ("members", "names", "readers")
# What a header has of a member's configuration.
_PROMISED = [one.name for one in at(Place.MEMBER) if one.name in Header.__dataclass_fields__]
_EXAMPLE = Header(run="any", members=("p1.1",))
