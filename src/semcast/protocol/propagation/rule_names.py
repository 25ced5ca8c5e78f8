"""How a graph is chosen, by name: what settings say in, a graph out."""

from collections.abc import Callable
from typing import Final

from semcast.errors import ConfigError
from semcast.protocol.propagation.generator import central, generate, regenerate
from semcast.protocol.propagation.graph import NO_SITE, Graph
from semcast.protocol.propagation.rules import FEWEST_EXTRA, GREEDY, Rule, spread

CENTRAL: Final = "central"
_RULES: Final[dict[str, Callable[[], Rule]]] = {
    "greedy": lambda: GREEDY,
    "fewest-extra": lambda: FEWEST_EXTRA,
    "spread": spread,
}
RULE_NAMES: Final = (*_RULES, CENTRAL)


def make_graph(
    rule: str,
    groups: dict[str, tuple[int, ...]],
    number: int,
    old: Graph | None,
    center: int,
) -> Graph:
    """The graph of these groups. `old`: the one before it, if there was one; `center`: the site
    that all messages go through, if the rule is "central" (PROP §4), NO_SITE if none is left.
    """
    if rule == CENTRAL and center != NO_SITE:
        return central(groups, center, number)
    found = _RULES["greedy"] if rule == CENTRAL else _RULES.get(rule)
    if found is None:
        raise ConfigError(f"rule {rule!r}; choose one of {', '.join(map(repr, RULE_NAMES))}")
    if old is None:
        return generate(groups, number, found())
    return regenerate(old, groups, number, found())
