"""Stability by gossip as one page of arrays, for groups far beyond a live one.

The rules are those of `protocol.stability.gossip`, and a test compares both: votes of a round are
merged by minimum, together with who has voted; when all have, what they all have is agreed and the
next round begins. There, sources are rows of a dictionary and come in pages of four; here they are
columns of one array, so that 100,000 members fit into memory. Every period a member sends what it
knows to a few others, drawn at random.
"""

from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from semcast.ids import Randomness

GOSSIP: Final = 5  # the kind of message, beside those of the round protocols


@final
class Rumour:
    """One vector: a round, who voted in it, the lowest that they have, and what is agreed."""

    __slots__ = ("agreed", "lowest", "round", "voters")
    kind: Final = GOSSIP

    def __init__(
        self,
        round: int,  # noqa: A002
        voters: int,
        lowest: NDArray[np.int64],
        agreed: NDArray[np.int64],
    ) -> None:
        self.round = round
        self.voters = voters  # bit i: member i
        self.lowest = lowest
        self.agreed = agreed


@final
class GossipPage:
    """One member. Arrays are shared with the vectors it sends and never written to."""

    __slots__ = (
        "_due",
        "_everybody",
        "_fanout",
        "_lowest",
        "_me",
        "_next_ns",
        "_period_ns",
        "_random",
        "_round",
        "_voters",
        "agreed",
        "own",
    )  # fmt: skip

    def __init__(
        self,
        members: int,
        me: int,
        own: NDArray[np.int64],
        agreed: NDArray[np.int64],
        period_ns: int,
        fanout: int,
        random: Randomness,
        everybody: int,  # the votes of all: one number that all members share
    ) -> None:
        self.own = own
        self.agreed = agreed
        self._me = me
        self._fanout = min(fanout, members - 1)
        self._period_ns = period_ns
        self._random = random
        self._everybody = everybody
        self._round = 1
        self._voters = 1 << me
        self._lowest = own
        # Periods of different members begin at different times.
        self._next_ns = random.randrange(period_ns)
        self._due = False

    def start(self, now_ns: int) -> None:
        """Does nothing: all members gossip all the time, so nobody starts a round."""

    def next_deadline_ns(self) -> int:
        return self._next_ns

    def on_timer(self, now_ns: int) -> bool:
        """A period is over. Returns as `on_round_message` does: one alone has all votes."""
        self._next_ns = now_ns + self._period_ns
        self._due = True
        before = self.agreed
        self._finish()
        return self.agreed is not before

    def take_out(self) -> list[tuple[int, Rumour]]:
        """To whom to send what."""
        if not self._due:
            return []
        self._due = False
        if self._voters == 1 << self._me:
            self._vote()  # no other vote is merged yet, so this one may still rise
        rumour = Rumour(self._round, self._voters, self._lowest, self.agreed)
        chosen: list[int] = []
        members = self._everybody.bit_length()
        while len(chosen) < self._fanout:
            peer = self._random.randrange(members)
            if peer != self._me and peer not in chosen:
                chosen.append(peer)
        return [(peer, rumour) for peer in chosen]

    def on_round_message(self, rumour: Rumour, sender: int, now_ns: int) -> bool:  # noqa: ARG002
        """Take the vector of another member. Returns whether `agreed` has grown."""
        before = self.agreed
        if rumour.agreed is not before and bool((rumour.agreed > before).any()):
            self.agreed = np.maximum(before, rumour.agreed)
            if np.array_equal(self.agreed, rumour.agreed):
                self.agreed = rumour.agreed  # one array for all who agree
        if rumour.round > self._round:
            self._round = rumour.round
            self._vote()
        if rumour.round == self._round:
            self._voters |= rumour.voters
            if self._lowest is not rumour.lowest:
                self._lowest = np.minimum(self._lowest, rumour.lowest)
            self._finish()
        return self.agreed is not before and bool((self.agreed > before).any())

    def _vote(self) -> None:
        self._voters = 1 << self._me
        self._lowest = self.own

    def _finish(self) -> None:
        if self._voters == self._everybody:
            if bool((self._lowest > self.agreed).any()):
                self.agreed = np.maximum(self.agreed, self._lowest)
            self._round += 1
            self._vote()
