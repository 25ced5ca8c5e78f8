"""Trees that a user gives: names go in; what the protocol needs comes out, or a ConfigError.

How members are numbered is not decided here: callers pass their order in.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from semcast.errors import ConfigError
from semcast.protocol.config import NO_PARENT
from semcast.wire.families.measures import TREE_MEMBERS_MAX

# "filled", "measured", or pairs: a member, and the one that it hangs on. The root is in no pair's
# first place.
Tree: TypeAlias = str | tuple[tuple[str, str], ...]


def as_tree(value: Any) -> Tree:
    """What a user gave as a tree: a word, or a table of names; raises if it is neither."""
    if isinstance(value, str):
        return value
    pairs = value.items() if isinstance(value, Mapping) else value
    with suppress(TypeError, ValueError):
        named = tuple((child, parent) for child, parent in pairs)
        if all(isinstance(name, str) for pair in named for name in pair):
            return named
    raise ConfigError(
        f"stability_tree is {value!r}; it must be 'filled', 'measured', or say for each member but "
        "one on whom it hangs"
    )


def check_tree(tree: Tree, ring: Sequence[str], members: Sequence[str], size: int) -> None:
    """Raises unless these can be the tree and the ring of a group; what needs numbers comes later.

    `members` are empty where a group is the first `size` that meet.
    """
    if tree == "measured" and size > TREE_MEMBERS_MAX:
        raise ConfigError(
            f"a measured stability_tree for {size} members; the most is {TREE_MEMBERS_MAX}: use "
            "'filled', or say who hangs on whom"
        )
    named = [] if isinstance(tree, str) else [name for pair in tree for name in pair]
    if (named or ring) and not members:
        raise ConfigError("a stability_tree or stability_ring of names needs members, all names")
    for name in [*named, *ring]:
        if name not in members:
            raise ConfigError(f"stability_tree or stability_ring names {name!r}, who is no member")
    if not isinstance(tree, str):
        _check_pairs(tree, members)
    if ring and sorted(ring) != sorted(members):
        raise ConfigError(
            f"stability_ring has {len(ring)} names; it must have each of the {len(members)} "
            "members once"
        )


def _check_pairs(tree: tuple[tuple[str, str], ...], members: Sequence[str]) -> None:
    children = [child for child, _ in tree]
    if len(set(children)) != len(children):
        twice = next(name for name in children if children.count(name) > 1)
        raise ConfigError(f"stability_tree says twice on whom {twice!r} hangs")
    roots = [name for name in members if name not in children]
    if len(roots) != 1:
        shown = ", ".join(roots[:4]) or "nobody"
        raise ConfigError(
            f"stability_tree leaves {len(roots)} members without a parent ({shown}); all but one, "
            "the root, must have one"
        )


def numbered_tree(tree: Tree, order: Sequence[str]) -> str | tuple[int, ...]:
    """The same by index: the parent of each member in this order."""
    if isinstance(tree, str):
        return tree
    index = {name: at for at, name in enumerate(order)}
    parents = {index[child]: index[parent] for child, parent in tree}
    return tuple(parents.get(at, NO_PARENT) for at in range(len(order)))


def numbered_ring(ring: Sequence[str], order: Sequence[str]) -> tuple[int, ...]:
    """The same for a ring."""
    index = {name: at for at, name in enumerate(order)}
    return tuple(index[name] for name in ring)
