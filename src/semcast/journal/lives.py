"""The logs of single lives in, one journal that can be judged out.

Each member of a live group writes its own log, if it does at all. Put together, such logs say less
than a simulated world knows, and this adds what follows from them and nothing else:

- A log without an end is that of a life that was killed (or goes on): it gets a `crash`. So does
  one with a gap, at the gap; what comes after it is left out.
- What such a life multicast last may be missing in its log, and all that members multicast who
  wrote none. Whoever received it, live or as state, wrote down everything about it: it becomes a
  `multicast` again.
  Nodes of which nothing else is known are taken to have left.
- A life whose log has an end, ended by itself. If it had nothing waiting, and nobody multicast
  anything after it, it is judged as one that stayed: what others got, it should have got. Whether
  the group knew that (whether all was stable) is not asked, since what is lost is never stable.
- A life that ended while others went on to multicast, with messages waiting that its application
  did not take, or because it was put out, has left: it owes nothing.

The last two compare clocks of several members; all else holds whatever they say.
"""

from collections import defaultdict
from dataclasses import replace
from typing import Final, TypeAlias

from semcast.errors import InputError
from semcast.journal.event import Event
from semcast.journal.header import Header

Part: TypeAlias = tuple[Header, list[Event]]
# What a recorder writes when its member leaves, with how many messages still waited; where events
# are missing, with how many; and which lives (`sender`) were put out of the group.
END: Final = "end"
GAP: Final = "gap"
EVICT: Final = "evict"
# How a message comes to a member: live, or as part of the state.
CAME: Final = ("receive", "state")
_SAME: Final = (
    "run", "group", "membership", "reliability", "order", "purging", "replacement", "k", "state",
    "recovery",
)  # fmt: skip


def settle(parts: list[Part]) -> tuple[Header, list[list[Event]]]:
    """One header, and the events of every node by themselves."""
    header = merged_header([header for header, _ in parts])
    logs: dict[str, list[Event]] = {}
    whole: set[str] = set()
    for part, events in parts:
        log = _until_gap(events)
        if log and log[-1].event == END:
            whole.add(part.node)
        else:
            last = log[-1] if log else Event(0, 0, part.node, "")
            log.append(Event(last.time_ns, last.lsn + 1, part.node, "crash"))
        logs[part.node] = log
    _restore(logs, whole)
    _excuse(logs, whole)
    return header, list(logs.values())


def merged_header(headers: list[Header]) -> Header:
    """What holds for all: their common promises, and the widest of their bounds."""
    first = headers[0]
    for other in headers:
        for name in _SAME:
            if getattr(other, name) != getattr(first, name):
                raise InputError(
                    f"{name} is {getattr(other, name)!r} in the journal of {other.node} and "
                    f"{getattr(first, name)!r} in that of {first.node}; "
                    "members of one group are set up alike"
                )
    initial = [one.node for one in headers if not one.joined]
    if first.membership == "open":
        initial = []
    elif not initial:  # of those who were there at first, nobody wrote a journal
        joined = {one.node for one in headers}
        named = dict.fromkeys(name for one in headers for name in one.members)
        initial = [name for name in named if name not in joined]
    return replace(
        first,
        members=tuple(initial),
        node="",
        name="",
        joined=False,
        names=tuple(f"{one.node} {one.name}" for one in headers),
        readers=tuple(dict.fromkeys(name for one in headers for name in one.readers)),
        left_out=sum(one.left_out for one in headers),
        deliver_own=all(one.deliver_own for one in headers),
        f=min(one.f for one in headers),
        delivery_messages=max(one.delivery_messages for one in headers),
        delivery_bytes=max(one.delivery_bytes for one in headers),
        window_messages=max(one.window_messages for one in headers),
        window_bytes=max(one.window_bytes for one in headers),
        total_messages=max(one.total_messages for one in headers)
        if all(one.total_messages for one in headers)
        else 0,
        one_order=False,
    )


def _until_gap(events: list[Event]) -> list[Event]:
    for at, event in enumerate(events):
        if event.event == GAP:
            return events[:at]
    return list(events)


def _restore(logs: dict[str, list[Event]], whole: set[str]) -> None:
    """Write down what was multicast by those whose log is not whole, as receivers know it."""
    known = {
        (event.sender, event.seq)
        for log in logs.values()
        for event in log
        if event.event == "multicast"
    }
    found: defaultdict[str, dict[int, Event]] = defaultdict(dict)
    for log in logs.values():
        for event in log:
            if (
                event.event in CAME
                and event.sender is not None
                and event.seq is not None
                and event.sender not in whole
                and (event.sender, event.seq) not in known
            ):
                found[event.sender].setdefault(event.seq, event)
    for sender, messages in found.items():
        log = logs.setdefault(sender, [])
        # A crash comes last, after what is restored here.
        end = log.pop() if log else Event(0, 0, sender, "leave")
        lsn = log[-1].lsn if log else 0
        for _, event in sorted(messages.items()):
            lsn += 1
            time_ns = event.time_ns if event.sent_ns is None else event.sent_ns
            log.append(
                event._replace(time_ns=time_ns, lsn=lsn, node=sender, event="multicast", where=None)
            )
        log.append(end._replace(time_ns=max(end.time_ns, log[-1].time_ns), lsn=lsn + 1))


def _excuse(logs: dict[str, list[Event]], whole: set[str]) -> None:
    """Who ended while others went on, or could not go on itself, has left."""
    last_ns: dict[str, int] = {}
    put_out: set[str | None] = set()
    for node, log in logs.items():
        for event in log:
            if event.event == "multicast":
                last_ns[node] = max(last_ns.get(node, event.time_ns), event.time_ns)
            elif event.event == "receive" and event.sender and event.sender not in whole:
                sent_ns = event.time_ns if event.sent_ns is None else event.sent_ns
                last_ns[event.sender] = max(last_ns.get(event.sender, sent_ns), sent_ns)
            elif event.event == EVICT:
                put_out.add(event.sender)
    for node in whole:
        end = logs[node][-1]
        went_on = any(
            time_ns > end.time_ns for sender, time_ns in last_ns.items() if sender != node
        )
        if end.seq or went_on or node in put_out:
            logs[node][-1] = end._replace(event="leave", seq=None)
