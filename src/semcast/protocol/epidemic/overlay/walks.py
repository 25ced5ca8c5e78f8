"""Walks: newcomers find neighbours, and members exchange entries, along random paths.

A newcomer's ENTER goes from its contact to all neighbours of that one, and from each of them a few
steps on; where a walk ends it gets a neighbour, and on the way a place in a passive view. A SHUFFLE
walks likewise, and the member where it ends exchanges entries with the one that began it. Walks are
taken from neighbours only, so that a stranger can make nobody walk.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import NEVER, Randomness, Source
from semcast.protocol.epidemic.overlay.config import OverlayConfig
from semcast.protocol.epidemic.overlay.entries import Entries, draw
from semcast.protocol.epidemic.overlay.post import Post
from semcast.protocol.epidemic.overlay.views import MAKES_ROOM, PartialViews
from semcast.wire.families.overlay import SHUFFLE_ENTRIES_MAX, Enter, Entry, Shuffle

_NUMBERS: Final = 1 << 32
# A newcomer that gets no neighbour asks again, ever later, up to so many times the first wait.
_PATIENCE_MAX: Final = 32


@final
class Walks:
    """Begins walks, and passes on those of others."""

    def __init__(
        self, me: Entry, config: OverlayConfig, random: Randomness, views: PartialViews, post: Post
    ) -> None:
        self._me: Final = me
        self._config: Final = config
        self._random: Final = random
        self._views: Final = views
        self._post: Final = post
        # Members that the world named: this one enters through them.
        self.contacts: Final = Entries(config.exiles_max, random)
        self._enter_ns: i64 = NEVER
        self._wait_ns: i64 = config.answer_ns
        self._enters: i64 = 0
        # The shuffle that is under way, and what it took along. Its number is drawn at random, so
        # that nobody can answer who did not get it; -1: none is.
        self._number: i64 = -1
        self._told: list[Entry] = []

    # -- entering ----------------------------------------------------------------------------------

    def enter(self, contact: Entry, now_ns: i64) -> None:
        """Enter through this member, if there is no neighbour yet."""
        if contact.source.sender == self._me.source.sender:
            return
        self.contacts.add(contact)
        if not self._views.active:
            self._knock(contact, now_ns)

    def due_ns(self) -> i64:
        """When to call `on_timer`."""
        return self._enter_ns

    def on_timer(self, now_ns: i64) -> None:
        """Without a neighbour, try another contact."""
        if self._enter_ns > now_ns:
            return
        self._enter_ns = NEVER
        contact = self.contacts.next()
        if not self._views.active and contact is not None:
            self._knock(contact, now_ns)

    def stranded(self, now_ns: i64) -> None:
        """There is neither a neighbour nor anybody to ask: enter again."""
        if self._enter_ns == NEVER and len(self.contacts) > 0:
            self._enter_ns = now_ns + self._wait_ns

    def arrived(self, neighbour: Entry) -> None:
        """There is a first neighbour. If that is not the contact, the contact was crowded, and this
        member enters once more, where its walk ended. In either case it has to get to know others.
        """
        self._enter_ns = NEVER
        self._wait_ns = self._config.answer_ns
        if self.contacts.get(int(neighbour.source.sender)) is None:
            self._post.send(neighbour, Enter(self._me))
        self.shuffle()

    def _knock(self, contact: Entry, now_ns: i64) -> None:
        self._post.send(contact, Enter(self._me))
        # Many may have begun at the same time, so each waits a little differently.
        wait_ns: i64 = self._wait_ns
        self._enter_ns = now_ns + wait_ns // 2 + self._random.randrange(int(wait_ns))
        self._wait_ns = min(2 * wait_ns, _PATIENCE_MAX * self._config.answer_ns)

    def on_enter(self, frame: Enter, source: Source, now_ns: i64) -> None:
        """A newcomer is at the door, or on its walk."""
        newcomer = frame.newcomer
        views = self._views
        if newcomer.source.sender == self._me.source.sender or views.is_former(newcomer.source):
            return
        if not frame.walks:
            if newcomer.source == source:
                self._admit(newcomer, now_ns)
        elif views.is_neighbour(source):
            self._walk(newcomer, min(frame.ttl, self._config.active_walk), source.sender, now_ns)

    def _admit(self, newcomer: Entry, now_ns: i64) -> None:
        """A newcomer that asked this member. In a crowd, each is only sent on its way."""
        self._enters += 1
        ttl: i64 = self._config.active_walk
        if self._enters > self._config.enters_per_round and len(self._views.active) > 1:
            self._walk(newcomer, ttl, newcomer.source.sender, now_ns)
            return
        for neighbour in self._views.others(newcomer.source.sender):
            self._post.send(neighbour.entry, Enter(newcomer, True, ttl))
        self._end(newcomer, now_ns)

    def _walk(self, newcomer: Entry, ttl: i64, came_from: i64, now_ns: i64) -> None:
        """One step of a newcomer's walk, or its end."""
        if ttl == self._config.passive_walk:
            self._views.know(newcomer)
        following = None
        if ttl > 0:
            following = self._views.another(came_from, newcomer.source.sender)
        if following is None:
            self._end(newcomer, now_ns)
        else:
            self._post.send(following.entry, Enter(newcomer, True, ttl - 1))

    def _end(self, newcomer: Entry, now_ns: i64) -> None:
        """The walk ends here, with an offer to the newcomer; it knows whether it has room."""
        if self._views.can_take():
            self._views.ask(newcomer, MAKES_ROOM, now_ns)
        else:
            self._views.know(newcomer)

    # -- shuffles ----------------------------------------------------------------------------------

    def on_round(self) -> None:
        """Another round begins: shuffle with somebody."""
        self._enters = 0
        self.shuffle()

    def shuffle(self) -> None:
        """Begin to exchange entries with a member some steps away."""
        views = self._views
        first = views.another(self._me.source.sender, self._me.source.sender)
        if first is None:
            return
        config = self._config
        near = [one.entry for one in views.others(first.entry.source.sender)]
        entries = draw(near, config.shuffle_active, self._random)
        self._told = views.passive.sample(config.shuffle_passive)
        entries.extend(self._told)
        self._number = self._random.randrange(_NUMBERS)
        ttl = config.active_walk
        self._post.send(first.entry, Shuffle(self._me, entries, self._number, ttl))

    def on_shuffle(self, frame: Shuffle, source: Source) -> None:
        """Entries of others: to be passed on, exchanged, or the answer to our own."""
        if frame.answers:
            if frame.number == self._number and frame.begun_by.source == self._me.source:
                self._number = -1
                self._learn(frame.entries, self._told)
            return
        views = self._views
        if not views.is_neighbour(source) or frame.begun_by.source.sender == self._me.source.sender:
            return
        following = None
        if frame.ttl > 0:
            ttl: i64 = min(frame.ttl, self._config.active_walk) - 1
            following = views.another(source.sender, frame.begun_by.source.sender)
            if following is not None:
                walk = Shuffle(frame.begun_by, frame.entries, frame.number, ttl)
                self._post.send(following.entry, walk)
                return
        back = views.passive.sample(min(len(frame.entries) + 1, SHUFFLE_ENTRIES_MAX))
        answer = Shuffle(frame.begun_by, back, frame.number, 0, answers=True)
        self._post.send(frame.begun_by, answer)
        self._learn([frame.begun_by, *frame.entries], back)

    def _learn(self, entries: list[Entry], told: list[Entry]) -> None:
        """Take these in. If there is no room, what the other end has got now goes first."""
        views = self._views
        passive = views.passive
        spare: i64 = 0
        for entry in entries:
            sender = int(entry.source.sender)
            if sender == self._me.source.sender or sender in views.active:
                continue
            if passive.get(sender) is None and len(passive) >= self._config.passive_max:
                while spare < len(told) and passive.get(int(told[spare].source.sender)) is None:
                    spare += 1
                if spare < len(told):
                    passive.discard(int(told[spare].source.sender))
            passive.add(entry)
