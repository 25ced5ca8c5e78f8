"""Sets of overlapping groups, drawn, and named as the paper names its sites."""

import random

from hypothesis import strategies as st

FIGURE_3 = {
    "α1": "cd",
    "α2": "abc",
    "α3": "bcde",
    "α4": "def",
    "α5": "ef",
    "α6": "bg",
    "α7": "ch",
    "α8": "dj",
}
FIGURE_5 = {"α": "abcde", "β": "bfgh", "γ": "ab"}

Groups = dict[str, set[int]]


def lettered(groups: dict[str, str]) -> Groups:
    """Sites by the code of their letter."""
    return {name: {ord(site) for site in sites} for name, sites in groups.items()}


def letters(sites: dict[int, int]) -> dict[str, str | None]:
    """Site and parent, as letters."""
    return {chr(site): None if other < 0 else chr(other) for site, other in sites.items()}


def drawn(
    sites_max: int = 14, groups_max: int = 12, size_max: int = 5
) -> st.SearchStrategy[Groups]:
    """Groups that overlap much or little, in one piece or in several."""
    members = st.sets(st.integers(0, sites_max - 1), min_size=1, max_size=size_max)
    return st.lists(members, max_size=groups_max).map(
        lambda found: {f"g{at}": one for at, one in enumerate(found)}
    )


def uniform(sites: int, groups: int, size: int, seed: int) -> Groups:
    """Groups of one size, as PROP §4.1 draws them."""
    stream = random.Random(seed)
    return {f"g{at}": set(stream.sample(range(sites), size)) for at in range(groups)}
