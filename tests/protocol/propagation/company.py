"""A few sites on a small network of their own: datagrams are late or lost, as a seed says."""

import random
from collections.abc import Callable
from heapq import heappop, heappush

from semcast.ids import Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.outbox import Outgoing
from semcast.protocol.propagation.config import Charter, FederationConfig, Seat
from semcast.protocol.propagation.site import Site
from semcast.sim.propagation.making import ListStore
from semcast.wire.message import Message

MS = 1_000_000


def charter_of(groups: dict[str, str]) -> Charter:
    """Sites are letters: a is 1. By group, its sites."""
    letters = sorted({letter for members in groups.values() for letter in members})
    return Charter(
        tuple(
            Seat(
                ord(letter) - 96,
                1,
                letter,
                tuple(sorted(name for name, members in groups.items() if letter in members)),
            )
            for letter in letters
        )
    )


class Company:
    """Sites by their letters, and virtual time."""

    def __init__(
        self,
        groups: dict[str, str],
        seed: int = 0,
        loss: float = 0.0,
        delay_ms: tuple[float, float] = (0.1, 1.0),
        config: MemberConfig | None = None,
        federation: FederationConfig | None = None,
        keep: str = "",
    ) -> None:
        """`keep`: the sites that write down what they do."""
        self.rng = random.Random(f"{seed}/network")
        self.loss = loss
        self.delay_ms = delay_ms
        self.now_ns = 0
        self.config = MemberConfig() if config is None else config
        self.federation = FederationConfig() if federation is None else federation
        self.sites: dict[str, Site] = {}
        self.taken: dict[str, list[Message]] = {}
        self.undone: dict[str, list[Message]] = {}
        self.slow: dict[str, int] = {}
        self.lives: dict[str, int] = {}
        self.cut: Callable[[str, str], bool] = lambda _from, _to: False
        self._events: list[tuple[int, int, str, Source, bytes]] = []
        self._count = 0
        # What sites have written down, of those that keep it.
        self.stores: dict[str, ListStore] = {}
        self._due: dict[str, int] = {}
        self.stores.update((letter, ListStore()) for letter in keep)
        charter = charter_of(groups)
        for seat in charter.seats:
            self._start(seat.name, seat.groups, charter)

    def _start(self, letter: str, groups: tuple[str, ...], charter: Charter | None) -> Site:
        life = self.lives.get(letter, 0) + 1
        self.lives[letter] = life
        me = Source(ord(letter) - 96, life)
        site = Site(
            self.config, me, letter, groups, random.Random(letter), None, self.federation, charter,
            self.stores.get(letter),
        )  # fmt: skip
        self.sites[letter] = site
        self.taken.setdefault(letter, [])
        return site

    def again(self, letter: str, groups: tuple[str, ...], contact: str) -> Site:
        """A site that crashed comes back with what it had written down, knowing one other."""
        site = self._start(letter, groups, None)
        site.met(self.sites[contact].me, self.now_ns)
        return site

    def join(self, letter: str, groups: tuple[str, ...], contact: str) -> Site:
        """A site comes later, knowing one other."""
        former = self.sites.get(letter)
        site = self._start(letter, groups, None)
        if former is not None:
            site.follow_up(former, self.now_ns)
        site.met(self.sites[contact].me, self.now_ns)
        return site

    def crash(self, letter: str) -> None:
        del self.sites[letter]

    def send(self, letter: str, group: str, text: str, key: str | None = None) -> None:
        self.sites[letter].multicast_to(group, text.encode(), key, self.now_ns)

    def texts(self, letter: str) -> list[str]:
        return [message.payload.decode() for message in self.taken[letter]]

    def run(self, ms: float) -> None:
        """Let time pass."""
        end_ns = self.now_ns + round(ms * MS)
        self._serve(set(self.sites))
        rounds = 0
        while True:
            next_ns = min((self._due[letter] for letter in self.sites), default=end_ns)
            if self._events:
                next_ns = min(next_ns, self._events[0][0])
            if next_ns > end_ns:
                break
            rounds = rounds + 1 if next_ns <= self.now_ns else 0
            assert rounds < 1_000, "a deadline that stays due, whatever is done"
            self.now_ns = max(self.now_ns, next_ns)
            touched: set[str] = set()
            while self._events and self._events[0][0] <= self.now_ns:
                letter, source, frames = heappop(self._events)[2:]
                if letter in self.sites:
                    touched.add(letter)
                    self.sites[letter].receive(frames, source, self.now_ns)
            for letter, site in self.sites.items():
                if self._due[letter] <= self.now_ns:
                    touched.add(letter)
                    site.on_timer(self.now_ns)
            self._serve(touched)
        self.now_ns = end_ns

    def _serve(self, letters: set[str]) -> None:
        for letter in sorted(letters):
            site = self.sites[letter]
            going = True
            while going:
                going = False
                if letter not in self.slow:
                    for message in site.to_undo():
                        site.undid(message)
                        self.undone.setdefault(letter, []).append(message)
                    taken = site.take(1 << 20, self.now_ns)
                    self.taken[letter].extend(taken)
                    going = bool(taken)
                for outgoing in site.datagrams(self.now_ns):
                    going = True
                    self._send(letter, site, outgoing)
            self._due[letter] = site.next_deadline_ns()

    def _send(self, letter: str, site: Site, outgoing: Outgoing) -> None:
        to = chr(96 + outgoing.to)
        if self.rng.random() < self.loss or self.cut(letter, to):
            return
        delay_ns = round(self.rng.uniform(*self.delay_ms) * MS)
        self._count += 1
        event = (self.now_ns + delay_ns, self._count, to, site.me, outgoing.frames)
        heappush(self._events, event)
