"""One row of a journal: what happened, where, when, to which message."""

from typing import NamedTuple


class Event(NamedTuple):
    """The columns of schema version 1 that differ from row to row.

    `run` is the same for a whole journal and stands in its header, and so is `group` but in a
    federation. What does not apply is None.
    """

    time_ns: int
    # INV-LSN: grows from event to event of a node, whatever the clock does.
    lsn: int
    node: str
    event: str
    # The source of the message and its number.
    sender: str | None = None
    seq: int | None = None
    # On `multicast`: distances to the messages of the same sender that it replaces. A distance of 0
    # says that it replaces by key: all earlier ones that do so and are about no other keys.
    obsoletes: tuple[int, ...] | None = None
    key: str | None = None
    # Ranked messages only (PSRM §2.4); a key without a rank only says what the message is about.
    rank: int | None = None
    sent_ns: int | None = None
    # Bytes of key and payload, which is what buffers count.
    size: int | None = None
    where: str | None = None
    # On `purge` and `skip`: the message that covers it.
    by_sender: str | None = None
    by_seq: int | None = None
    # The number of the view in force at the node; in a federation, of the graph.
    view: int | None = None
    # In a federation: the group that the message goes to. None: the one in the header.
    group: str | None = None
