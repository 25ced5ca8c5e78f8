"""Strategies for headers, events and whole journals: any that the schema allows."""

from hypothesis import strategies as st

from semcast.journal import Event, Header, Journal

LONG = st.integers(-(2**63), 2**63 - 1)
COUNT = st.integers(0, 2**31 - 1)
NODES = st.sampled_from(["p1.1", "p2.1", "p2.2", "p10.3"])
# What an Arrow string can hold: any characters but half ones.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
KINDS = st.sampled_from(["multicast", "receive", "purge", "deliver", "view", "something new"])


def headers() -> st.SearchStrategy[Header]:
    return st.builds(
        Header,
        run=TEXT.filter(bool),
        members=st.lists(NODES, min_size=1, unique=True).map(tuple),
        group=TEXT,
        seed=TEXT,
        reliability=st.sampled_from(["sender", "group", "federation"]),
        recovery=st.sampled_from(["", "atomic", "non-atomic"]),
        purging=st.booleans(),
        order=st.sampled_from(["fifo", "key"]),
        deliver_own=st.booleans(),
        k=COUNT,
        f=COUNT,
        delivery_messages=COUNT,
        delivery_bytes=COUNT,
        window_messages=COUNT,
        window_bytes=COUNT,
        one_order=st.booleans(),
        names=st.lists(TEXT, max_size=3).map(tuple),
        left_out=COUNT,
    )


def events(lsn: int, header: Header) -> st.SearchStrategy[Event]:
    """Only rows of a federation name a group, and that of the header is named by none."""
    groups = TEXT.filter(lambda name: name not in ("", header.group))
    return st.builds(
        Event,
        time_ns=LONG,
        lsn=st.just(lsn),
        node=NODES,
        event=KINDS,
        sender=st.none() | NODES,
        seq=st.none() | LONG,
        obsoletes=st.none() | st.lists(COUNT, max_size=4).map(tuple),
        key=st.none() | TEXT,
        rank=st.none() | LONG,
        sent_ns=st.none() | LONG,
        size=st.none() | COUNT,
        where=st.none() | st.sampled_from(["delivery", "retransmit", "network"]),
        by_sender=st.none() | NODES,
        by_seq=st.none() | LONG,
        view=st.none() | LONG,
        group=st.none() | groups if header.federated else st.none(),
    )


@st.composite
def journals(draw: st.DrawFn) -> Journal:
    header = draw(headers())
    journal = Journal(header)
    for lsn in range(1, draw(st.integers(0, 12)) + 1):
        journal.append(draw(events(lsn, header)))
    return journal
