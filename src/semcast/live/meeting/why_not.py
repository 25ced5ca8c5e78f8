"""Why a process is not in an open group: what it has heard goes in, a text for people comes out."""

from semcast.errors import OtherKindError
from semcast.live.meeting.free_roster import FreeRoster
from semcast.live.meeting.session import Session


def stay_out(session: Session, roster: FreeRoster, why: str) -> None:
    """Give up, since a process cannot get in."""
    if session.ended is None and roster.other_kind:
        session.ended = OtherKindError(why, roster.other_reliability)
        if session.on_ended is not None:
            session.on_ended()
    else:
        session.end(why)


def why_not_alone(session: Session, other_kind: str) -> str:
    """Why a process should not begin the group by itself, though nobody has let it in; nothing if
    it may. `other_kind`: who says that this is another kind of group.
    """
    refused, group = session.opener.refused, session.config.group
    if other_kind:
        return f"group {group!r} is of another kind: {other_kind}"
    if refused["key"] or refused["tag"] or refused["suite"]:
        return (
            f"datagrams of group {group!r} came that do not open: is this the group's secret, "
            "and its key id?"
        )
    if refused["version"]:
        return (
            f"datagrams of another version of semcast came to group {group!r}; run the same "
            "version everywhere, or give this group another name"
        )
    return ""


def why_nobody(session: Session) -> str:
    """What to say if nobody has answered, or those who have did not let this process in."""
    config, waited_s = session.config, session.config.join_timeout_s
    names = sorted(peer.name for peer in session.roster.peers.values() if peer.name)
    if names:
        return (
            f"{config.name!r} was not let into group {config.group!r} in {waited_s:g} s, "
            f"though {', '.join(names[:8])} answered: can a majority of its members talk with each "
            "other? It lets nobody in otherwise; of two members the older one has to be there "
            "(see quorum)"
        )
    hint = (
        "`semcast doctor` tells whether multicast reaches this machine; where it does not, say "
        "where some members are (peers)"
        if session.transport.multicast
        else "are the addresses in peers= right, and is UDP let through?"
    )
    return f"nobody is there in group {config.group!r}: none answered in {waited_s:g} s; {hint}"
