"""How many members does a rumour reach? The closed form for gossip that nothing holds back."""

import math


def share_reached(copies: float) -> float:
    """The share r of a large group that gets a message: r = 1 - exp(-copies · r).

    `copies` is how many copies a member that has the message passes on and does not lose: the
    fan-out times the share that neither the network loses nor a crashed member gets. Each member
    relays once and as often as it takes (no bound on relays). Up to one copy, only a vanishing
    share of a large group is reached.
    """
    if copies <= 1.0:
        return 0.0
    reached, last = 1.0, 2.0
    # From above the sequence falls towards the largest solution and cannot pass it.
    while last - reached > 1e-15:
        last, reached = reached, -math.expm1(-copies * reached)
    return reached
