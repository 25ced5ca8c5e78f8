"""The membership of an open group: agreement on views, and the watch whose word it goes by.

Frames of both go in; the view that counts comes out. What the watch says of members is passed on to
the agreement, and each view that is agreed on to the watch. Nothing is decided here.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.membership.agreed import AgreedViews
from semcast.protocol.membership.view import View
from semcast.protocol.membership.views import Views
from semcast.protocol.membership.watch import Watch
from semcast.protocol.outbox import Outbox
from semcast.wire.frames import ControlFrame


@final
class OpenViews(Views):
    """The views of one member that agrees on them with the others."""

    def __init__(self, me: Source, agreed: AgreedViews, watch: Watch) -> None:
        super().__init__(agreed.view)
        self._me: Final = me
        self._agreed: Final = agreed
        self._watch: Final = watch
        self._of_watch: Final = frozenset(watch.kinds())

    # -- what is heard -----------------------------------------------------------------------------

    def kinds(self) -> tuple[int, ...]:
        return (*self._agreed.kinds(), *self._watch.kinds())

    def strangers_kinds(self) -> tuple[int, ...]:
        return (*self._agreed.strangers_kinds(), *self._watch.strangers_kinds())

    def install(self, view: View, now_ns: i64) -> None:
        self._watch.install(view, now_ns)

    def heard(self, source: Source, now_ns: i64) -> None:
        self._watch.heard(int(source.sender), now_ns)
        self._agreed.heard(source, now_ns)

    def reborn(self, source: Source, now_ns: i64) -> None:
        self._agreed.reborn(source, now_ns)
        self._follow()

    def gone(self, sender: int, now_ns: i64) -> None:
        self._agreed.gone(sender, now_ns)

    def refused(self, sender: int, now_ns: i64) -> None:
        self._watch.refused(sender, now_ns)

    def stranger(self, source: Source, now_ns: i64) -> None:
        self._agreed.stranger(source, now_ns)

    def on_frame(self, frame: ControlFrame, source: Source, now_ns: i64) -> None:
        if int(frame.frame_kind()) in self._of_watch:
            self._watch.on_frame(frame, source, now_ns)
            self._pass_on()
        else:
            self._agreed.on_frame(frame, source, now_ns)
        self._follow()

    def source_ended(self, source: Source, now_ns: i64) -> None:  # noqa: ARG002
        if self.view.is_over(source) and self.view.life(source.sender) == source.incarnation:
            self._agreed.ended(int(source.sender))

    def _pass_on(self) -> None:
        """Tell the agreement whom the watch accuses, and who was heard of again."""
        for sender, accused in self._watch.take_changes():
            if accused:
                self._agreed.accuse(sender)
            else:
                self._agreed.clear(sender)

    def _follow(self) -> None:
        if self._agreed.view is not self.view:
            self.view = self._agreed.view

    # -- timers ------------------------------------------------------------------------------------

    def on_timer(self, now_ns: i64) -> None:
        if self._watch.next_deadline_ns() <= now_ns:
            self._watch.on_timer(now_ns)
            self._pass_on()
        if self._agreed.next_deadline_ns() <= now_ns:
            self._agreed.on_timer(now_ns)
            self._follow()

    def next_deadline_ns(self) -> i64:
        return min(self._watch.next_deadline_ns(), self._agreed.next_deadline_ns())

    def pack(self, outbox: Outbox, now_ns: i64) -> None:
        self._agreed.pack(outbox, now_ns)
        self._watch.pack(outbox, now_ns)

    def sent_to_all(self, now_ns: i64) -> None:
        self._watch.sent_to_all(now_ns)

    # -- this member -------------------------------------------------------------------------------

    def is_out(self) -> bool:
        return self._agreed.out

    def is_minority(self) -> bool:
        return self._agreed.minority

    def was_put_out(self, source: Source) -> bool:
        return self._agreed.wishes.was_put_out(source)

    def suspects(self) -> list[int]:
        return sorted({*self._watch.suspected(), *self._watch.accused()})

    def leave(self, now_ns: i64) -> None:
        self._agreed.leave(now_ns)
