"""Settings in, all messages of a run out: when, from whom, and which of them replace which."""

from dataclasses import dataclass
from typing import final

import numpy as np

from semcast.model.epidemic.settings import Epidemic


@final
@dataclass(frozen=True)
class Multicast:
    """One message. It replaces every earlier one of its chain, whoever sent that."""

    number: int
    born: int  # the round
    source: int
    chain: int | None  # None: it replaces nothing and nothing replaces it
    never_obsolete: bool  # nothing in this run replaces it


def multicasts(settings: Epidemic, first_live: int, rng: np.random.Generator) -> list[Multicast]:
    """All messages in order. Sources are members from `first_live` on: those before are dead.

    Messages are evenly spaced. One that is related goes to one of `diversity` chains at random; a
    chain that has its length ends, and another takes its place (PSRM §4.2).
    """
    births = _births(settings)
    count = len(births)
    sources = rng.integers(first_live, settings.members, count).tolist()
    related = (rng.random(count) < settings.related_ratio).tolist()
    places = rng.integers(0, settings.diversity, count).tolist()
    chains = _chains(related, places, settings.chain_length)
    last_of = {chain: number for number, chain in enumerate(chains) if chain is not None}
    return [
        Multicast(number, born, source, chain, chain is None or last_of[chain] == number)
        for number, (born, source, chain) in enumerate(zip(births, sources, chains, strict=True))
    ]


def _births(settings: Epidemic) -> list[int]:
    """The round of each message, so that after n rounds there have been n times the rate."""
    edges = np.floor(np.arange(settings.rounds + 1) * settings.rate_msg_round).astype(np.int64)
    births: list[int] = np.repeat(np.arange(settings.rounds), np.diff(edges)).tolist()
    return births


def _chains(related: list[bool], places: list[int], length: int) -> list[int | None]:
    """The number of each message's chain. Numbers are not used again."""
    chains: list[int | None] = []
    open_chain: dict[int, tuple[int, int]] = {}  # by place: the chain's number, and what it lacks
    numbers = 0
    for is_related, place in zip(related, places, strict=True):
        if not is_related:
            chains.append(None)
            continue
        if place not in open_chain:
            open_chain[place] = (numbers, length)
            numbers += 1
        chain, lacking = open_chain.pop(place)
        if lacking > 1:
            open_chain[place] = (chain, lacking - 1)
        chains.append(chain)
    return chains
