"""One process's part in a federation, without its threads: how a site finds the others.

Who is in, and what the propagation graph is, is decided by the protocol (`protocol/propagation`).
As in an open group, a newcomer proves itself to a few sites only; once it is let in, its life is in
the view of all others, and those who have met it say where it is. A site also talks with others
that no view names yet, such as one that has just come back. Before it sends anything but a
challenge there, and before it believes anything that comes from there, both prove to be there.

A site that the others went on without comes back by itself in another life, which has what waited
for the application. That one is told what of all it took to undo, and then goes on with the rest.
"""

from collections.abc import Mapping
from typing import Any, Final

from semcast.ids import NEVER, Source
from semcast.live.federation_settings import awaited, own_groups
from semcast.live.history_file import HistoryFile
from semcast.live.meeting.door import Came, next_life
from semcast.live.meeting.open_session import OpenSession
from semcast.live.meeting.rivals import NOBODY, Rivals
from semcast.live.meeting.roster import member_id
from semcast.live.meeting.site_facts import SiteNews, facts_of, named_view
from semcast.live.meeting.sites import TWO_PHASE, charter_of, new_site, undone
from semcast.live.meeting.why_not import stay_out
from semcast.protocol.membership.view import View
from semcast.protocol.outbox import Outgoing
from semcast.protocol.propagation.federated import Federated
from semcast.protocol.propagation.graph import Graph
from semcast.wire.message import Message

ATOMIC: Final = "atomic"
_MS: Final = 1_000_000
# Who has heard nobody for so long begins the federation by itself. Of two that were begun apart the
# sites of one have to come anew, so this is long.
_ALONE_NS: Final = 1_000 * _MS
# Who was put out looks for the others for so long.
_BACK_NS: Final = 10_000 * _MS
# If it was woken later than this to do so, it could hear nobody meanwhile, and waits for as much
# longer; but no more than so often.
_LATE_NS: Final = 50 * _MS
_PUT_OFF_MAX: Final = 8
# Whoever is in, or looks for longer, and was heard within this time will let this one in.
_WAIT_NS: Final = 1_500 * _MS
# So many sites are asked for that no view names.
_WANTED_MAX: Final = 64


class FederationSession(OpenSession):
    """A site of a federation, or on its way into one."""

    def _prepare(self) -> None:
        super()._prepare()
        # What this site remembers if it is restarted.
        config = self.config
        self.store: HistoryFile | None = None
        if config.history:
            self.store = HistoryFile(config.history, config.group, config.name)
        self.site: Federated | None = None
        self._awaited = awaited(self.config)
        self._awaited_ids = frozenset(map(member_id, self._awaited))
        self._gathered = False
        self._groups = own_groups(self.config)
        self._site_news = SiteNews()
        # When somebody was last heard who will let this one in; whether this site has begun.
        self._heard_ns = -_WAIT_NS
        self._begun = False
        # How often it has put that off.
        self._put_off = 0
        self._came_back = False
        self._sought = False
        self._rivals = Rivals()
        # The graph that this session has acted on.
        self._graph: Graph | None = None

    # -- getting in --------------------------------------------------------------------------------

    def _seek(self, now_ns: int) -> None:
        """Begin to look for the federation, as a site that is in no graph yet."""
        self._look_around(now_ns)
        self._sought = True
        self._take_seat(now_ns)

    def _take_seat(self, now_ns: int) -> None:
        """Make the site of this life, as soon as all is known that it needs."""
        if self.member is None:
            self.site = None
        charter = None
        if self.config.protocol == TWO_PHASE:
            lives = {**self.door.proved, int(self.me.sender): int(self.me.incarnation)}
            charter = charter_of(self.config, lives)
            if charter is None:
                return
        # What waits for the application of a former life, the new one has.
        former, observer = self.site, self._observer(self.me)
        site = new_site(
            self.config, self.transport, self.me, self._groups, self._stream, observer,
            self.store, charter,
        )  # fmt: skip
        if former is not None:
            site.follow_up(former, now_ns)
        self.member = self.site = site
        for sender, life in self.door.proved.items():
            peer = self._open.peers.get(sender)
            known = peer is not None and peer.incarnation == life and self._is_member(peer.source)
            if known and peer is not None and self._rivals.left == NOBODY:
                site.met(peer.source, now_ns)

    def _follow(self, now_ns: int) -> None:
        """Act on what the protocol has decided."""
        if self.ended is not None:
            return
        if not self._sought:
            self._seek(now_ns)
        elif self.member is None:
            self._take_seat(now_ns)
        site = self.site
        if site is None:
            return
        if (self._seen is None and site.inside) or site.graph() is not self._graph:
            self._graph = site.graph()
            self._on_view(named_view(site.view, self._open, self._awaited), now_ns)
        if site.out:
            self._rejoin(now_ns, "the others have gone on without this life")
            return
        self._take_rollback(site, now_ns)
        if not self._open.inside:
            self._get_in(site, now_ns)
        for kind, member, text in self._site_news.of(site, self._open):
            self._tell(kind, member, text, now_ns)

    def _get_in(self, site: Federated, now_ns: int) -> None:
        if site.resumes:
            return  # it is in a graph, whose other sites have to be found
        if site.inside:
            self._open.inside = True
            self._rivals.left = NOBODY
            self.say_hello(now_ns)
            if self._came_back:
                self._came_back = False
                self._say_that("rejoined", "the others had gone on without it; it is back", now_ns)
        elif not self._begun and site.graph() is None and now_ns >= self._alone_ns():
            if self._puts_off(now_ns):
                return
            why_not = self._why_not_alone()
            if why_not:
                stay_out(self, self._open, why_not)
            else:
                self._begun = True
                site.begin(now_ns)
                self._follow(now_ns)

    def _alone_ns(self) -> int:
        """When to begin alone, if nothing is heard until then."""
        if self._awaited and self._awaited[0] != self.config.name:
            return NEVER
        if self.config.recovery == ATOMIC and self.site is not None and self.site.has_asked:
            # Those whom it has asked may let this life in at any time, and would wait for it then.
            return NEVER
        return max(self._seek_ns + self._patience_ns(), self._heard_ns + _WAIT_NS)

    def _patience_ns(self) -> int:
        """For how long it looks for others at least. If it was put out, these were there a moment
        ago, and have to say what is to be rolled back.
        """
        return _BACK_NS if self._came_back else _ALONE_NS

    def _puts_off(self, now_ns: int) -> bool:
        """Whether to wait for longer before it begins alone, since it was woken late to do so."""
        late_ns = now_ns - self._alone_ns()
        if late_ns <= _LATE_NS or self._put_off == _PUT_OFF_MAX:
            return False
        self._put_off += 1
        self._seek_ns = now_ns + min(late_ns, _ALONE_NS) - self._patience_ns()
        return True

    def _rejoin(self, now_ns: int, why: str = "") -> None:
        """The others have gone on without this life, or it goes over to others: come back."""
        life = next_life(int(self.me.incarnation), now_ns, self._stream.getrandbits(62))
        if not self._begin_life(life):
            return
        if self.store is not None and self.config.recovery == ATOMIC:
            # Others went on without it, or it goes over to others: it comes as a newcomer.
            self.store.replace([])
        self._say_that("out", why, now_ns)
        self.rejoined += 1
        self._came_back = True
        self._begun = False
        self._put_off = 0
        self._seen = self._graph = None
        self._heard_ns = now_ns
        self._open.minority = False
        self._seek(now_ns)

    def _take_rollback(self, site: Federated, now_ns: int) -> None:
        count = undone(site)
        if count:
            text = f"{count} messages that it delivered are to be undone"
            self._say_that("rolled-back", text, now_ns)
            if not self.wants_undo:
                self.undid(self.to_undo())

    def to_undo(self) -> list[Message]:
        return [] if self.site is None else self.site.to_undo()

    def undid(self, messages: list[Message]) -> None:
        for message in messages:
            if self.site is not None:
                self.site.undid(message)

    def say_hello(self, now_ns: int) -> None:
        roster, site = self._open, self.site
        if site is not None:
            roster.begun = site.begun
            minority = roster.inside and site.is_minority(now_ns)
            if minority != roster.minority:
                roster.minority = roster.news = minority
                if minority:
                    text = "too few sites are heard to go on without the others"
                    self._say_that("minority", text, now_ns)
        super().say_hello(now_ns)

    def _shows_itself(self) -> bool:
        # The first of all may be away, if others wait for it.
        decides = self.site is not None and self.site.manager() == self.me.sender
        return super()._shows_itself() or decides or self._open.minority

    def _is_named(self) -> bool:
        """A view names lives that are over until all have heard of those that came back."""
        return False

    @property
    def inside(self) -> bool:
        if self.ended is not None or not self._open.inside:
            return False
        if not self._gathered:
            self._gathered = self._awaited_ids <= {self._open.me, *self._open.members}
        return self._gathered

    def why_not_in(self) -> str:
        """Why this process is not in after all that time."""
        there = {self._open.me, *self._open.members, *self.door.proved}
        missing = [name for name in self._awaited if member_id(name) not in there]
        if missing and not self._why_not_alone():
            return (
                f"federation {self.config.group!r} is not complete after "
                f"{self.config.join_timeout_s:g} s: {', '.join(missing[:8])} "
                f"{'is' if len(missing) == 1 else 'are'} not there; start every site that sites "
                "names, or leave out sites"
            )
        return super().why_not_in()

    def change(self, groups: tuple[str, ...], now_ns: int) -> None:
        """Be a member of these groups from now on, in later lives, too."""
        assert self.site is not None
        self.site.want(groups, now_ns)
        self._groups = groups

    def _tell(self, kind: str, member: str, text: str, now_ns: int) -> None:
        if self.on_neighbour is not None:
            self.on_neighbour(kind, member, text, now_ns)

    # -- turns -------------------------------------------------------------------------------------

    def next_deadline_ns(self) -> int:
        soonest = super().next_deadline_ns()
        if self.site is None:
            return soonest if self._sought or self.ended is not None else 0
        if not self._open.inside and not self._begun and self.site.graph() is None:
            soonest = min(soonest, self._alone_ns())
        return soonest

    def _in_after_ns(self) -> int:
        return NEVER  # whether it is in, the protocol knows

    # -- others ------------------------------------------------------------------------------------

    def _greets(self, said: Mapping[str, Any], came: Came) -> bool:
        if came.source.sender in self._awaited_ids:
            return True
        if self._is_member(came.source) and self._is_news(came.source):
            return True
        if self._open.inside and self._comes_first(said):
            return True
        if not self._open.inside:
            sender, life = int(came.source.sender), int(came.source.incarnation)
            own = (int(self.me.incarnation), int(self.me.sender))
            if said.get("in") is True:
                # Those who cannot go on without others let nobody in.
                waits = said.get("minority") is not True and not self._rivals.is_left(said)
            else:
                waits = self._crowd.is_eldest(life, sender, own, came.now_ns)
            if waits:
                self._heard_ns = came.now_ns
            if not self.transport.multicast:
                # The other may have been told of this site, and not this one of the other: unless
                # it is answered it hears nobody, and begins a federation of its own.
                return True
        return super()._greets(said, came)

    def _is_news(self, source: Source) -> bool:
        """Whether a site that this one deals with may be in a life that has not been met. It came
        back while this site, or the way to it, was away.
        """
        resumes = self.site is not None and self.site.resumes
        return resumes or self.door.proved.get(int(source.sender), -1) < source.incarnation

    def _vouch(self, view: View) -> None:
        """A graph that a former life was in proves nothing: what its sites said may be replayed."""
        if self.site is None or not self.site.resumes:
            super()._vouch(view)

    def _is_member(self, source: Source) -> bool:
        return int(source.sender) in self._open.members

    def _meet(self, said: Mapping[str, Any], came: Came) -> None:
        """Only who is in can let others in, and says so to those who are not."""
        sender = int(came.source.sender)
        if said.get("in") is True:
            if not self._rivals.is_left(said):
                super()._meet(said, came)
            if self._open.inside and self._comes_first(said) and self._rivals.last(came.now_ns):
                self._go_over(came.now_ns)
        elif self._open.inside and self.door.has_place(sender):
            self.transport.send(self.door.place_of(sender), [self._hello()])

    def _comes_first(self, said: Mapping[str, Any]) -> bool:
        """Whether a hello is of another federation of this name, to which this site goes over."""
        if self.site is None:
            return False
        stuck, sites = self.site.cannot_lose(self._lost()), len(self._open.members)
        return self._rivals.come_first(said, self.site.begun, stuck, sites)

    def _lost(self) -> set[int]:
        """The sites of this federation whose lives are over, since they are there in another."""
        view, proved = self._seen, self.door.proved
        if view is None:
            return set()
        return {one for one in view.present if proved.get(one, -1) > view.life(one)}

    def _go_over(self, now_ns: int) -> None:
        assert self.site is not None
        self._rivals.go_over(self.site.begun)
        self._rejoin(now_ns, "it goes over to another federation of this name")

    def _send_some(self, datagrams: list[Outgoing], now_ns: int) -> None:
        for outgoing in datagrams:
            if self.door.has_place(outgoing.to):
                sealed = self._sealer.seal(outgoing.frames)
                self._send(self.door.place_of(outgoing.to), [sealed], now_ns)
            else:
                self._look_for(outgoing.to, now_ns)

    def _look_for(self, sender: int, now_ns: int) -> None:
        """Have a site prove that it is there; what is for it will be sent again."""
        peer = self._open.peers.get(sender)
        if peer is not None and peer.address[1] > 0:
            there = Came(peer.source, peer.address, 0, self.transport.path_mtu_bytes, now_ns)
            challenge = self.door.challenge(there)
            if challenge is not None:
                self.answer(challenge, there)
        elif sender not in self._open.wanted and len(self._open.wanted) < _WANTED_MAX:
            self._open.wanted[sender] = None
            self._seek_places(now_ns)

    def _on_unproved(self, frames: bytes, came: Came) -> None:  # noqa: ARG002
        """A life speaks that has proved nothing, or was forgotten: ask it to."""
        challenge = self.door.challenge(came)
        if challenge is not None:
            self.answer(challenge, came)

    def _let_in(self, came: Came) -> bool:
        if not super()._let_in(came):
            return False
        self._open.wanted.pop(int(came.source.sender), None)
        return True

    # -- what people want to know ------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        return {} if self.site is None else {"federation": facts_of(self.site, self._open)}

    def counters(self) -> dict[str, int]:
        found = {"rejoined": self.rejoined}
        graph = None if self.site is None else self.site.graph()
        if graph is not None:
            found |= {"graph": graph.number, "groups": len(graph.groups)}
        return found

    def leave(self, now_ns: int) -> None:
        super().leave(now_ns)
        gone = self.site is None or self.site.has_left
        if gone and self.settled and self.store is not None:
            self.store.replace([])  # there is nothing to go on with

    def close(self) -> None:
        super().close()
        if self.store is not None:
            self.store.close()
