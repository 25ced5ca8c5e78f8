"""Measuring: echoes and others' round-trip times in; now and then a better tree and ring out.

Every member asks one other after the other for an echo, a few a second at first and one a second
later on, and sends what it measured to the first member alive, the *maker*. When the maker knows
nearly all times, and whenever they have changed much, it makes a tree and a ring of them; if a
round would take markedly less time it announces them, with a number.

Why only votes of members that use the same tree are merged: tree, ring, number and maker
together have a name, and the name is part of the epoch (`roll.py`). Going over to another tree ends
the rounds under way like any change of the epoch. A member never goes back: of two trees the one
with the larger number counts, then that of the larger maker, then that of the larger name, so a
maker that came back without memory and uses a number again does no harm. A better tree is never
needed: a member that misses one is sent it when its votes arrive, by whoever knows the tree, and
when a maker is gone the next member alive takes its place.
"""

from typing import Final, final

import numpy as np
from mypy_extensions import i64

from semcast.ids import EVERYBODY, SEQ_MAX
from semcast.protocol.membership.view import View
from semcast.protocol.stability.rounds.roll import Roll, name_of
from semcast.protocol.stability.rounds.shape import (
    NOBODY,
    Shape,
    clean_times,
    given_tree,
    measured_tree,
)
from semcast.protocol.stability.rounds.shape import Times as Table
from semcast.wire.families.measures import (
    TIME_US_MAX,
    TREE_MEMBERS_MAX,
    Echo,
    MeasureFrame,
    Times,
    Tree,
)
from semcast.wire.frames import ControlFrame

_MS: Final = 1_000_000
# Between two echoes that a member asks for: while it gets to know the others, and afterwards.
SEEKING_NS: Final = 200 * _MS
CALM_NS: Final = 1000 * _MS
_SEEKING_PASSES: Final = 4
# A member reports what it measured after so many echoes, for so many members at a time that the
# smallest datagram has room for them.
_ECHOES_PER_REPORT: Final = 4
_TIMES_MAX: Final = 64
# A maker considers another tree no sooner than this after the last time; only if for this share of
# the pairs one of the two has measured; and only if some time has changed by this factor.
CONSIDER_NS: Final = 2000 * _MS
_KNOWN_SHARE: Final = 0.9
_CHANGE: Final = 1.25
# Another tree is worth the change if a round takes at most this share of the time, and at least
# this much less.
_BETTER: Final = 0.75
_GAIN_US: Final = 50.0
# A member is sent the tree no more often than this.
_TREE_AGAIN_NS: Final = 50 * _MS


@final
class Stopwatch:
    """Round-trip times of one member: echoes go in, times come out."""

    def __init__(self, members: int, me: int) -> None:
        # By index, in microseconds; 0: not known.
        self.times_us = [0] * members
        self._me = me
        self._asked: Final[dict[int, int]] = {}
        self._step = 0
        self.passes = 0

    def renumber(self, former: list[int], me: int) -> None:
        """Other members are there: `former` says where each stood before, or NOBODY."""
        times_us = self.times_us
        self.times_us = [0 if at == NOBODY else times_us[at] for at in former]
        self._me = me
        self._asked.clear()
        self._step = 0
        self.passes = 0

    def next_peer(self) -> int:
        """Whom to ask for an echo. Everybody begins with the next member after itself, so that
        nobody is asked by many at once.
        """
        self._step += 1
        if self._step >= len(self.times_us):
            self._step = 1
            self.passes += 1
        return (self._me + self._step) % len(self.times_us)

    def asked(self, peer: int, now_ns: i64) -> int:
        """A request leaves. Returns its token; an answer to an earlier one no longer counts."""
        self._asked[peer] = int(now_ns)
        return int(now_ns)

    def answered(self, peer: int, token: i64, now_ns: i64) -> None:
        """An answer has come. The shortest time counts, since anything on the way only adds delay;
        but it is forgotten slowly, since routes change.
        """
        if self._asked.get(peer) != token or now_ns < token:
            return
        del self._asked[peer]
        took_us = min(max(1, int(now_ns - token) // 1000), TIME_US_MAX)
        held_us = self.times_us[peer]
        if held_us:
            took_us = min(took_us, held_us + held_us // 4 + 1)
        self.times_us[peer] = took_us


@final
class Measuring:
    """One member's part in finding a good tree."""

    def __init__(
        self,
        protocol: str,
        branching: int,
        view: View,
        me: int,
        roll: Roll,
        members_max: int = TREE_MEMBERS_MAX,
    ) -> None:
        """`me`: this member's id. `members_max`: with more members than this, nobody measures."""
        self._id: Final = me
        self._members_max: Final = members_max
        self._out: list[tuple[int, MeasureFrame]] = []
        self._view = view
        self._protocol: Final = protocol
        self._branching: Final = branching
        self._members = view.members
        self._me = view.position(me)
        self._roll: Final = roll
        self._watch: Final = Stopwatch(len(view.members), self._me)
        # INV-TREE: the newest tree that this member knows, which the roll uses. None stands for the
        # first one. `_rank` orders trees.
        self._tree: Tree | None = None
        self._rank = (0, 0, 0)
        # At a maker: who measured what, and a copy from when it last considered a tree.
        self._table: Table | None = None
        self._considered: Table | None = None
        self._consider_ns: i64 = 0
        self._next_ns: i64 = 0 if self._measures() else SEQ_MAX
        self._echoes = 0
        self._report_from = 0
        # When each member was last sent the tree.
        self._tree_sent_ns: Final[dict[int, int]] = {}

    def _measures(self) -> bool:
        """Whether there is anybody to measure, and not too many for a tree."""
        return 1 < len(self._members) <= self._members_max

    def install(self, view: View, now_ns: i64 = 0) -> None:
        """Another view counts. If it has other members, all use the first tree of so many until
        the maker has made another. What was measured is kept.
        """
        self._view = view
        if view.members != self._members:
            self._renumber(view, now_ns)
        if self._tree is not None:
            tree = self._tree
            self._tree = Tree(view.digest, tree.number, tree.maker, tree.parents, tree.ring)

    def _renumber(self, view: View, now_ns: i64) -> None:
        former = {sender: at for at, sender in enumerate(self._members)}
        before = [former.get(sender, NOBODY) for sender in view.members]
        self._members = view.members
        self._me = view.position(self._id)
        self._watch.renumber(before, self._me)
        self._tree = None
        self._rank = (0, 0, 0)
        self._considered = None
        self._consider_ns = now_ns + CONSIDER_NS
        self._report_from = 0
        self._tree_sent_ns.clear()
        self._out.clear()
        if not self._measures():
            self._table = None
            self._next_ns = SEQ_MAX
            return
        self._next_ns = now_ns + SEEKING_NS if self._next_ns == SEQ_MAX else self._next_ns
        if self._table is not None:
            at = np.array(before, np.int64)
            table = self._table[np.ix_(at, at)]
            table[at == NOBODY, :] = table[:, at == NOBODY] = 0.0
            self._table = table

    def take_out(self) -> list[tuple[int, MeasureFrame]]:
        """What to send: to a sender id or EVERYBODY."""
        out, self._out = self._out, []
        return out

    @property
    def number(self) -> int:
        """The number of the tree in use; 0 for the first one."""
        return self._rank[0]

    def next_deadline_ns(self) -> int:
        """When to call on_timer."""
        return self._next_ns

    def on_timer(self, now_ns: i64) -> bool:
        """Ask for an echo; report, or make a tree. Returns whether another tree is used now."""
        if now_ns < self._next_ns:
            return False
        seeking = self._watch.passes < _SEEKING_PASSES
        self._next_ns = now_ns + (SEEKING_NS if seeking else CALM_NS)
        peer = self._watch.next_peer()
        if self._roll.alive(peer):
            echo = Echo(False, self._watch.asked(peer, now_ns))
            self._out.append((self._members[peer], echo))
        self._echoes += 1
        maker = self._roll.first_alive()
        if self._echoes % _ECHOES_PER_REPORT == 0 and maker != self._me:
            self._report(maker)
        return maker == self._me and self._consider(now_ns)

    def on_frame(self, frame: ControlFrame, sender: int, now_ns: i64) -> bool:
        """A frame of a member arrived. Returns as `on_timer` does."""
        if isinstance(frame, Echo):
            if frame.answer:
                self._watch.answered(sender, frame.token, now_ns)
            else:
                self._out.append((self._members[sender], Echo(True, frame.token)))
            return False
        if not self._measures():
            return False
        if isinstance(frame, Times):
            if self._roll.first_alive() == self._me:
                self._note_times(frame, sender)
            return False
        assert isinstance(frame, Tree)
        return self._on_tree(frame, sender, now_ns)

    def send_tree(self, sender: int, now_ns: i64) -> bool:
        """Send the tree to a member that may not know it. Returns whether this member has none, so
        that it should rather ask for the other's.
        """
        last_ns = self._tree_sent_ns.get(sender)
        if last_ns is not None and now_ns - last_ns < _TREE_AGAIN_NS:
            return False
        self._tree_sent_ns[sender] = int(now_ns)
        if self._tree is None:
            return True
        self._out.append((self._members[sender], self._tree))
        return False

    # -- trees -------------------------------------------------------------------------------------

    def _on_tree(self, tree: Tree, sender: int, now_ns: i64) -> bool:
        if len(tree.parents) != len(self._members):
            return False
        rank = _rank_of(tree)
        if rank < self._rank:
            self.send_tree(sender, now_ns)
        if rank <= self._rank:
            return False
        self._go_over_to(tree)
        return True

    def _go_over_to(self, tree: Tree) -> None:
        root = tree.ring[0]
        parents = list(tree.parents)
        parents[root] = NOBODY
        self._tree = tree
        self._rank = _rank_of(tree)
        self._roll.reshape(given_tree(parents, list(tree.ring), root), self._rank[2])

    # -- making them -------------------------------------------------------------------------------

    def _report(self, maker: int) -> None:
        """Send the maker a part of what was measured; the next time, the next part."""
        first = self._report_from
        times_us = self._watch.times_us[first : first + _TIMES_MAX]
        self._out.append((self._members[maker], Times(self._view.digest, first, times_us)))
        self._report_from = first + _TIMES_MAX if first + _TIMES_MAX < len(self._members) else 0

    def _note_times(self, times: Times, sender: int) -> None:
        table = self._whole_table()
        for at, time_us in enumerate(times.times_us, int(times.first)):
            if at < len(self._members):
                table[sender, at] = time_us

    def _whole_table(self) -> Table:
        if self._table is None:
            self._table = np.zeros((len(self._members), len(self._members)))
        return self._table

    def _consider(self, now_ns: i64) -> bool:
        """As the maker, look for a better tree, and announce it if there is one."""
        if now_ns < self._consider_ns:
            return False
        self._consider_ns = now_ns + CONSIDER_NS
        table = self._whole_table()
        table[self._me] = self._watch.times_us
        alive = self._roll.alive_mask()
        # Times of members that are gone are out of date. Without them, these come last in the tree.
        table[~alive, :] = table[:, ~alive] = 0.0
        if not _nearly_known(table[np.ix_(alive, alive)]) or not self._has_changed(table):
            return False
        self._considered = table.copy()
        shape = measured_tree(table, self._branching, self._me)
        costs = clean_times(table)
        before_us = round_us(self._protocol, self._roll.shape(self._me), costs)
        after_us = round_us(self._protocol, shape.without(alive), costs)
        if after_us > _BETTER * before_us or before_us - after_us < _GAIN_US:
            return False
        parents = shape.parents.tolist()
        parents[shape.root] = shape.root
        ring = bytes(shape.ring.tolist())
        tree = Tree(self._view.digest, self._rank[0] + 1, self._me, bytes(parents), ring)
        self._go_over_to(tree)
        self._out.append((EVERYBODY, tree))
        return True

    def _has_changed(self, table: Table) -> bool:
        """Whether any time has changed since a tree was last considered."""
        if self._considered is None:
            return True
        low, high = np.minimum(table, self._considered), np.maximum(table, self._considered)
        return bool((high > _CHANGE * low + _GAIN_US).any())


def round_us(protocol: str, shape: Shape, times_us: Table) -> float:
    """How long votes take to the root of this tree, or around this ring, if nobody is slow."""
    if protocol == "train":
        ring = shape.ring
        return float(times_us[ring, np.roll(ring, -1)].sum()) / 2
    done = np.zeros(shape.members)
    for level in reversed(shape.levels):
        for member in level.tolist():
            ready = 0.0
            for child in shape.children(member):
                link = times_us[child, member] / 2
                if protocol == "s_train":
                    # The train comes from the sibling before, and only the last goes up.
                    before = shape.sibling_before(child)
                    if before != NOBODY:
                        came = done[before] + times_us[before, child] / 2
                        done[child] = max(done[child], came)
                    ready = float(done[child] + link)
                else:
                    ready = max(ready, float(done[child] + link))
            done[member] = ready
    return float(done[shape.root])


def _rank_of(tree: Tree) -> tuple[int, int, int]:
    """Larger for a tree that counts more; different for different trees."""
    number, maker = int(tree.number), int(tree.maker)
    return number, maker, name_of([number, maker, *tree.parents, *tree.ring])


def _nearly_known(table: Table) -> bool:
    """Whether for nearly all pairs one of the two has measured, and every member is in one."""
    known = (table > 0) | (table.T > 0)
    np.fill_diagonal(known, True)
    pairs = known.sum(axis=1) - 1
    others = len(table) - 1
    return others > 0 and bool(
        (pairs > 0).all() and pairs.sum() >= _KNOWN_SHARE * others * len(table)
    )
