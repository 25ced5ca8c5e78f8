"""The event log that both worlds write: one schema, in memory or as Parquet.

What a member reports (`protocol.Observer`) and what its world knows (times, crashes) go in; a
`Journal` comes out, for the checkers, the pipeline and a person with a question. Knows nothing of
what is right or wrong: that is `semcast.check`.
"""

from semcast.journal.event import Event
from semcast.journal.header import Header
from semcast.journal.journal import Journal
from semcast.journal.names import key_text, keys_in, keys_text, node_name, parse_node
from semcast.journal.observer import JournalObserver
from semcast.journal.parquet import chosen_runs, events_in, read_journal, runs_in, write_journal
from semcast.journal.schema import COLUMNS, SCHEMA_VERSION, arrow_schema

__all__ = [
    "COLUMNS",
    "SCHEMA_VERSION",
    "Event",
    "Header",
    "Journal",
    "JournalObserver",
    "arrow_schema",
    "chosen_runs",
    "events_in",
    "key_text",
    "keys_in",
    "keys_text",
    "node_name",
    "parse_node",
    "read_journal",
    "runs_in",
    "write_journal",
]
