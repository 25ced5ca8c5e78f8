"""Wishes: what members and newcomers want of the next view in; the change that fulfils them out.

A process wants to come in, a member wants to go, the world knows that one is gone, members accuse
one that is silent, and of one that is gone nothing is kept any more. Wishes that come together
share a view: a change is ripe a few milliseconds after the last wish, and later if there are many.

Slow is not dead. One accuser is not enough, unless nobody else could be a second one, or the
accused says nothing against it for a while. Whoever hears from the accused drops the accusation.

Knows nothing of frames, nor of who decides.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import NEVER, Source
from semcast.protocol.membership.parcels import MEMBERS_MAX
from semcast.protocol.membership.view import Change, View
from semcast.wire.families.agreement import ACCUSE, ENDED, GONE, LEAVE, WITHDRAW

_MS: Final = 1_000_000
# How long wishes wait for others, after the last one: so long, and longer for each.
BATCH_NS: Final = 3 * _MS
_BATCH_EACH_NS: Final = 1 * _MS
_BATCH_MAX_NS: Final = 400 * _MS
# A view costs everybody some work, and more of it the more come in. So after one that let a crowd
# in, those who come late wait for so long for each of the crowd, and share the next view.
_CROWD: Final = 4
_CROWD_EACH_NS: Final = 4 * _MS
_CROWD_MAX_NS: Final = 1_000 * _MS
# Members that are gone cost little, so that dropping them is in no hurry.
_DROP_NS: Final = 1_000 * _MS
# An accusation by one member counts if the accused says nothing against it for so long.
UNREFUTED_NS: Final = 500 * _MS
# A newcomer or an accuser that does not repeat its wish for so long has given it up.
_KEPT_NS: Final = 5_000 * _MS
# More accusers of one member need not be remembered, nor more members that are to be dropped.
_ACCUSERS_MAX: Final = 8
_ENDED_MAX: Final = 64
# So many that were put out are remembered.
_PUT_OUT_MAX: Final = 64


@final
class _Joiner:
    def __init__(self, life: int, name: str, heard_ns: i64) -> None:
        self.life: Final = life
        self.name: Final = name
        self.heard_ns: i64 = heard_ns


@final
class _Accusation:
    def __init__(self, life: int, now_ns: i64) -> None:
        self.life: Final = life
        # When each accuser last said so.
        self.accusers: Final[dict[int, int]] = {}
        self.first_ns: i64 = now_ns
        # When there were enough of them, and when the accused was last heard of.
        self.enough_ns: i64 = NEVER
        self.refuted_ns: i64 = -NEVER

    def ripe_ns(self) -> i64:
        """When the accusation counts, if nothing is said against it."""
        if not self.accusers:
            return NEVER
        if self.enough_ns < NEVER:
            return self.enough_ns
        return self.first_ns + UNREFUTED_NS

    def refute(self, now_ns: i64) -> None:
        """The accused was heard of."""
        self.accusers.clear()
        self.enough_ns = NEVER
        self.refuted_ns = now_ns


@final
class WishList:
    """The wishes that one member knows of."""

    def __init__(self, me: Source, view: View) -> None:
        self._me: Final = me
        self._view = view
        self._joins: Final[dict[int, _Joiner]] = {}
        # By sender: the life in which it wants to go, or is known to be gone.
        self._going: Final[dict[int, int]] = {}
        # Those of them who said so themselves; and the lives that went without having said it.
        self._leaving: Final[dict[int, int]] = {}
        self._put_out: Final[dict[int, int]] = {}
        self._accused: Final[dict[int, _Accusation]] = {}
        # By member that is gone: who keeps nothing of it any more.
        self._ended: Final[dict[int, dict[int, None]]] = {}
        self._drop_ns: i64 = NEVER
        # When the first of the wishes came that are not fulfilled, and the last.
        self._first_ns: i64 = NEVER
        self._last_ns: i64 = NEVER
        # Nobody else is let in before this time: a crowd has come in just now.
        self._crowd_ns: i64 = 0
        # This member's own, by kind and member; with the life that is meant.
        self.own: Final[dict[tuple[int, int], int]] = {}

    # -- what is wished ----------------------------------------------------------------------------

    def join(self, source: Source, name: str, now_ns: i64) -> bool:
        """A process wants to come in. Returns whether this is news."""
        sender, life = int(source.sender), int(source.incarnation)
        known = self._joins.get(sender)
        if self._view.life(sender) >= life or (known is not None and known.life > life):
            return False
        if known is not None and known.life == life:
            known.heard_ns = now_ns
            return False
        if known is None and len(self._view.members) + len(self._joins) >= MEMBERS_MAX:
            return False
        self._joins[sender] = _Joiner(life, name, now_ns)
        self._news(now_ns)
        return True

    def wish(self, what: i64, sender: int, life: int, now_ns: i64) -> bool:
        """Wish something. Returns whether this is news."""
        if self.own.get((int(what), sender)) == life:
            return False
        self.own[(int(what), sender)] = life
        self.hear(what, sender, life, int(self._me.sender), now_ns)
        return True

    def unwish(self, what: i64, sender: int) -> bool:
        """Wish it no longer. Returns whether this member did."""
        return self.own.pop((int(what), sender), None) is not None

    def repeat(self, now_ns: i64) -> None:
        """Renew this member's own accusations."""
        for (what, sender), life in self.own.items():
            if what == ACCUSE:
                self.hear(what, sender, life, int(self._me.sender), now_ns)

    def hear(self, what: i64, sender: int, life: int, by: int, now_ns: i64) -> None:
        """A member of the view wishes something about one in this life."""
        view = self._view
        if view.life(sender) != life:
            return
        if what == ENDED:
            self._on_ended(sender, by, now_ns)
            return
        if not view.is_present(sender):
            return
        if what == ACCUSE:
            self._on_accused(sender, life, by, now_ns)
        elif what == WITHDRAW:
            self._on_withdrawn(sender, by)
        elif what == GONE or (what == LEAVE and by == sender):
            if what == LEAVE:
                self._leaving[sender] = life
            if sender not in self._going:
                self._going[sender] = life
                self._news(now_ns)

    def was_put_out(self, source: Source) -> bool:
        """Whether this life went because of others, as far as that is known and remembered."""
        return self._put_out.get(int(source.sender), -1) == source.incarnation

    def _note_put_out(self, view: View) -> None:
        """Those whom this view lacks were put out, if others wished it and they did not."""
        for sender in {**self._going, **self._accused}:
            known = self._accused.get(sender)
            life = self._going[sender] if known is None else known.life
            wished = sender in self._going or (known is not None and len(known.accusers) > 0)
            if wished and not _there(view, sender, life) and self._leaving.get(sender) != life:
                if len(self._put_out) >= _PUT_OUT_MAX:
                    del self._put_out[next(iter(self._put_out))]
                self._put_out[sender] = life
        for sender in [s for s, life in self._leaving.items() if not _there(view, s, life)]:
            del self._leaving[sender]

    def _news(self, now_ns: i64) -> None:
        if self._first_ns == NEVER:
            self._first_ns = now_ns
        self._last_ns = now_ns

    def _on_accused(self, sender: int, life: int, by: int, now_ns: i64) -> None:
        if by == sender:
            return
        known = self._accused.get(sender)
        if known is None or known.life != life:
            known = self._accused[sender] = _Accusation(life, now_ns)
        if now_ns - known.refuted_ns < UNREFUTED_NS:
            return
        for one in [one for one, last in known.accusers.items() if now_ns - last > _KEPT_NS]:
            del known.accusers[one]
        if not known.accusers:
            known.first_ns = now_ns
            known.enough_ns = NEVER
        if by in known.accusers or len(known.accusers) < _ACCUSERS_MAX:
            known.accusers[by] = int(now_ns)
        enough = min(2, len(self._view.present) - 1)
        if len(known.accusers) >= enough and known.enough_ns == NEVER:
            known.enough_ns = now_ns

    def _on_withdrawn(self, sender: int, by: int) -> None:
        known = self._accused.get(sender)
        if known is not None and known.accusers.pop(by, None) is not None:
            known.enough_ns = NEVER

    def refuted(self, sender: int, heard: bool, now_ns: i64) -> list[int]:
        """A member that may be accused was heard, or somebody says so. Returns its accusers.

        What others say counts once. Were it passed on, each would go on saying it because of the
        others, long after the member died.
        """
        known = self._accused.get(sender)
        if known is None:
            return []
        accusers = list(known.accusers)
        known.refute(now_ns if heard else known.refuted_ns)
        return accusers

    def absolved(self, sender: int, now_ns: i64) -> bool:
        """Whether a member was heard of since it was accused, not long ago."""
        known = self._accused.get(sender)
        return known is not None and now_ns - known.refuted_ns < UNREFUTED_NS

    @property
    def accuses(self) -> bool:
        """Whether anybody is accused."""
        return len(self._accused) > 0

    def _on_ended(self, sender: int, by: int, now_ns: i64) -> None:
        if self._view.is_present(sender):
            return
        known = self._ended.get(sender)
        if known is None:
            if len(self._ended) >= _ENDED_MAX:
                return
            known = self._ended[sender] = {}
        known[by] = None
        if self._is_ended(known) and self._drop_ns == NEVER:
            self._drop_ns = now_ns + _DROP_NS

    def _is_ended(self, by: dict[int, None]) -> bool:
        """Whether all who are there keep nothing of it any more: then nobody misses it."""
        present = self._view.present
        return len(by) >= len(present) and all(sender in by for sender in present)

    # -- the change --------------------------------------------------------------------------------

    def ripe_ns(self) -> i64:
        """When there is a change to propose; NEVER if nothing is wished."""
        ripe = self._drop_ns
        wishes = len(self._joins) + len(self._going)
        if wishes > 0:
            quiet_ns = self._last_ns + BATCH_NS + _BATCH_EACH_NS * wishes
            ripe_ns = min(quiet_ns, self._first_ns + _BATCH_MAX_NS)
            if not self._going:
                ripe_ns = max(ripe_ns, self._crowd_ns)
            ripe = min(ripe, ripe_ns)
        for accusation in self._accused.values():
            at_ns = accusation.ripe_ns()
            if at_ns < NEVER:
                ripe = min(ripe, at_ns + BATCH_NS)
        return ripe

    def verdicts(self, now_ns: i64) -> list[int]:
        """Members that are to be removed because they are accused."""
        found = []
        for sender, accusation in self._accused.items():
            if accusation.ripe_ns() <= now_ns and sender not in self._going:
                found.append(sender)
        return found

    def goes(self, sender: int) -> bool:
        """Whether a member leaves, or is known to be gone."""
        return sender in self._going

    def suspects(self, sender: int, now_ns: i64) -> bool:
        """Whether this member should not be waited for."""
        if sender in self._going or (ACCUSE, sender) in self.own:
            return True
        known = self._accused.get(sender)
        return known is not None and known.ripe_ns() <= now_ns

    def change(self, now_ns: i64) -> Change:
        """What fulfils all wishes that are due."""
        view = self._view
        for sender in [s for s, one in self._joins.items() if now_ns - one.heard_ns > _KEPT_NS]:
            del self._joins[sender]
        joins = tuple(sorted((sender, one.life, one.name) for sender, one in self._joins.items()))
        going = [*self._going, *self.verdicts(now_ns)]
        gone = tuple(sorted({sender for sender in going if sender not in self._joins}))
        dropped = tuple(
            sorted(
                sender
                for sender, by in self._ended.items()
                if sender not in self._joins and self._is_ended(by)
            )
        )
        if not joins and not self._going:
            self._first_ns = self._last_ns = NEVER
        assert all(view.is_present(sender) for sender in gone)
        return Change(joins, gone, dropped)

    def follow(self, view: View, now_ns: i64) -> None:
        """Keep what this view does not fulfil."""
        self._note_put_out(view)
        self._view = view
        came = sum(since == view.number for since in view.since)
        if came >= _CROWD:
            self._crowd_ns = now_ns + min(came * _CROWD_EACH_NS, _CROWD_MAX_NS)
        for sender in [s for s, one in self._joins.items() if view.life(s) >= one.life]:
            del self._joins[sender]
        for sender in [s for s, life in self._going.items() if not _there(view, s, life)]:
            del self._going[sender]
        for sender in [s for s, one in self._accused.items() if not _there(view, s, one.life)]:
            del self._accused[sender]
        for sender in [s for s in self._ended if view.life(s) < 0 or view.is_present(s)]:
            del self._ended[sender]
        for what, sender in list(self.own):
            life = self.own[(what, sender)]
            kept = view.life(sender) == life and view.is_present(sender) != (what == ENDED)
            if not kept:
                del self.own[(what, sender)]
        complete = [by for by in self._ended.values() if self._is_ended(by)]
        self._drop_ns = now_ns + _DROP_NS if complete else NEVER
        waiting = len(self._joins) + len(self._going) > 0
        self._first_ns = self._last_ns = now_ns if waiting else NEVER


def _there(view: View, sender: int, life: int) -> bool:
    return view.is_present(sender) and view.life(sender) == life
