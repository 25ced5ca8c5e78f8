"""What a broken variant is: changes of text in the package, and how it is hunted."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

# How far a hunt goes: cases, runs of trackers, and states of each scope, nearly all of which have
# fewer. Every variant is caught long before.
BOUNDS: Final = {
    "trackers": 3_000,
    "exhaust": 3_000,
    "members": 200,
    "crowds": 200,
    "comebacks": 20,
    "agreement": 100_000,
    "gossip": 10,
    "relays": 100,
    "federations": 300,
    "votes": 100,
}
CASES: Final = 500


@dataclass(frozen=True)
class Patch:
    """One change in one file of the package."""

    file: str
    old: str
    new: str

    def apply(self, package: Path) -> None:
        """Change the file; the old text must be there exactly once."""
        path = package / self.file
        text = path.read_text()
        found = text.count(self.old)
        if found != 1:
            raise LookupError(f"{self.file} has {found} times, not once: {self.old!r}")
        path.write_text(text.replace(self.old, self.new))


@dataclass(frozen=True)
class Mutant:
    """A broken variant, and how it is hunted.

    `hunt`: "exhaust" small scopes, or those of the "agreement" on views; "explore" cases, or only
    those by "key", or of them those with a sender that is "reborn"; cases by "rounds", with each
    protocol of STAB in turn; cases in which members "leave"; "open" groups, or "visits" to such as
    gossip their votes, or "feeds"; "members" on a small lossy network, of whom two come back again
    and again, or "crowds" of them;
    "comebacks" of live members that were put out, in virtual time; a group that does "gossip", or
    "relays", the explorer's cases of such groups; "federations", the explorer's cases of those with
    the propagation graph, or "votes", the same in two phases; or "trackers" alone, of which many
    more runs fit into the time. `first`: the seed (or the number of the scope) to begin with: one
    that was seen to break in a fraction of a second. `bound`: how many to hunt through.
    `breaks`: the property that is to break, if it matters which.
    """

    name: str
    hunt: str
    patches: tuple[Patch, ...]
    first: int = 1
    bound: int = 0  # of all that are hunted in this way
    breaks: str = ""

    @property
    def hunt_max(self) -> int:
        return self.bound or BOUNDS.get(self.hunt, CASES)
