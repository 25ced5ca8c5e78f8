"""Views, the interface: what is heard of members in; the view that counts here out.

A group has one of several kinds: members that are counted beforehand (`static`), members that agree
on each view (`agreed`), processes of which each keeps its own readers (`feed`). The member installs
`view` in all its parts whenever it is another one than before.
"""

from abc import abstractmethod

from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.membership.view import View
from semcast.protocol.part import Part
from semcast.wire.decode import Decoded


class Views(Part):
    """The views of one member: `view` is the latest that it knows."""

    def __init__(self, view: View) -> None:
        self.view = view

    def install(self, view: View, now_ns: i64) -> None:
        """Does nothing: views are made here."""

    @abstractmethod
    def reborn(self, source: Source, now_ns: i64) -> None:
        """A datagram came from a source that the view does not hold, perhaps a later life."""

    @abstractmethod
    def gone(self, sender: int, now_ns: i64) -> None:
        """The world knows that this member is gone for good, in the life that is known."""

    @abstractmethod
    def stranger(self, source: Source, now_ns: i64) -> None:
        """A member spoke of another view than this one."""

    def heard_number(self, number: i64) -> None:
        """Another member with the same view gives it this number, which is larger."""

    def joined(self) -> None:
        """The member has a vote on everything by now."""

    def outsider(self, source: Source, decoded: Decoded, now_ns: i64) -> None:
        """A datagram came from a source that the view does not hold, with nothing in it that
        strangers may say.
        """

    def inside(self) -> bool:
        """Whether this process is in the group, and has its beginning with everybody."""
        return True

    def is_out(self) -> bool:
        """Whether this process was put out, and must join again to go on."""
        return False

    def met(self, source: Source, now_ns: i64) -> None:
        """The world says that another process of the group is there now."""

    def refused(self, sender: int, now_ns: i64) -> None:
        """The world says that nobody listens any more where that process was. It may be wrong."""

    def was_put_out(self, source: Source) -> bool:  # noqa: ARG002
        """Whether this life went because of others, as far as that is known and remembered."""
        return False

    def suspects(self) -> list[int]:
        """The members that may be dead."""
        return []

    def is_minority(self) -> bool:
        """Whether the members cannot agree on another view, since too few of them answer."""
        return False

    def source_ended(self, source: Source, now_ns: i64) -> None:
        """Everybody has all that there is of a source that sends no more."""

    def sent_to_all(self, now_ns: i64) -> None:
        """A datagram goes to everybody, who take it for a sign of life."""

    def leave(self, now_ns: i64) -> None:
        """Tell the others that this process goes now."""

    def heard(self, source: Source, now_ns: i64) -> None:
        """A datagram came from a source that the view holds."""
