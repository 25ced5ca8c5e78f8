"""The same questions in SQL, for DuckDB: over the same files, with what Spark needs for each.

Not everything that Spark's jobs find is asked for: agreement follows keys only, where Spark follows
every annotation; the profile has distances only, where Spark counts keys, rates and sizes too. So a
ratio says what Spark costs where one machine and one question are enough, and a little of what
the fuller answer costs. The journal must be that of `data`: members p0.1, p1.1, …, one view, one
clock, all of them correct, group reliability.
"""

from dataclasses import dataclass
from typing import Final

from bench.spark.data import Data
from bench.spark.jobs import PROFILE_CSV, PROFILE_LAKE
from semcast.check.kernel import BY_SENDER

ROW: Final = "ROWS UNBOUNDED PRECEDING"


@dataclass(frozen=True)
class Query:
    """A question: its group and name as in `jobs.JOBS`, and the shared frames that it rests on."""

    group: str
    job: str
    needs: tuple[str, ...]
    sql: str


def views(data: Data) -> list[str]:
    """Statements that give the files names; DuckDB reads them anew for each query."""
    journal = f"{data.journal}/run=*/*.parquet"
    lake = f"{data.lake}/traces/trace=*/source=*/*.parquet"
    columns = (
        "{'time_s': 'DOUBLE', 'sender': 'VARCHAR', 'key': 'VARCHAR', "
        "'kind': 'VARCHAR', 'size': 'INTEGER'}"
    )
    found = [
        f"""CREATE VIEW journal AS SELECT *,
            1::BIGINT << split_part(node[2:], '.', 1)::INTEGER AS bit
            FROM read_parquet('{journal}', hive_partitioning = true)"""
    ]
    # An ingest that was interrupted leaves a folder with nothing in it.
    if any(data.lake.glob("traces/trace=*/source=*/*.parquet")):
        found.append(f"CREATE VIEW trace AS SELECT * FROM read_parquet('{lake}')")
    if data.trace.exists():
        numbered = f"""SELECT *, row_number() OVER () AS pos
            FROM read_csv('{data.trace}', header = true, columns = {columns})"""
        found.append(
            f"""CREATE VIEW csv_trace AS
            SELECT *, row_number() OVER (PARTITION BY sender ORDER BY pos) AS seq
            FROM ({numbered})"""
        )
    return found


# By message: who delivered it, how often, whether it was multicast, and its key.
_MASKS: Final = """
    masks AS (
        SELECT sender, seq,
            coalesce(bit_or(bit) FILTER (event = 'deliver'), 0) AS mask,
            count(*) FILTER (event = 'deliver') AS times,
            count(*) FILTER (event = 'multicast') AS sent,
            any_value(key) FILTER (event = 'multicast') AS key
        FROM journal WHERE event IN ('multicast', 'deliver') GROUP BY sender, seq)"""
# And who delivered it or anything that replaces it.
_COVERS: Final = f"""{_MASKS},
    covers AS (
        SELECT *, bit_or(mask) OVER (
            PARTITION BY sender, coalesce(key, '#' || seq) ORDER BY seq DESC {ROW}) AS cover
        FROM masks),
    everybody AS (SELECT bit_or(bit) AS bits FROM (SELECT DISTINCT bit FROM journal))"""

FIFO_ORDER: Final = """
    SELECT count(*) AS broken FROM (
        SELECT seq, lag(seq) OVER (PARTITION BY node, sender ORDER BY lsn) AS before
        FROM journal WHERE event = 'deliver')
    WHERE seq <= before"""

INTEGRITY: Final = f"""
    WITH {_MASKS}
    SELECT count(*) AS broken FROM masks
    WHERE times <> bit_count(mask) OR (times > 0 AND sent = 0)"""

AGREEMENT: Final = f"""
    WITH {_COVERS}
    SELECT count(*) AS broken FROM covers, everybody WHERE mask <> 0 AND cover <> bits"""

FIFO_COMPLETENESS: Final = f"""
    WITH {_COVERS},
    last AS (
        SELECT sender, seq, bit_or(bit) AS ends FROM (
            SELECT sender, bit, max(seq) AS seq FROM journal WHERE event = 'deliver'
            GROUP BY sender, bit)
        GROUP BY sender, seq),
    owed AS (
        SELECT covers.*, bit_or(coalesce(ends, 0)) OVER (
            PARTITION BY sender ORDER BY seq DESC
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS required
        FROM covers LEFT JOIN last USING (sender, seq))
    SELECT count(*) AS broken FROM owed WHERE required & ~cover <> 0"""

THROUGHPUT: Final = """
    SELECT node,
        count(*) FILTER (event = 'multicast') AS multicast,
        count(*) FILTER (event = 'receive') AS received,
        count(*) FILTER (event = 'deliver') AS delivered,
        sum(size) FILTER (event = 'deliver') AS delivered_bytes
    FROM journal GROUP BY node ORDER BY node"""

LATENCY: Final = """
    SELECT node, count(*) AS messages, avg(took) / 1e6 AS mean_ms,
        quantile_disc(took, [0.5, 0.9, 0.99]) AS p50_p90_p99_ns, max(took) AS max_ns
    FROM (SELECT node, time_ns - sent_ns AS took FROM journal WHERE event = 'deliver')
    GROUP BY node ORDER BY node"""

_ENTRY: Final = "(event = 'multicast' OR (event = 'receive' AND node <> sender))"
_PURGED: Final = "(event = 'purge' AND \"where\" = 'retransmit')"
# What buffers held: of the delivery buffer directly, of retransmission until purged or stable.
OCCUPANCY: Final = f"""
    WITH told AS (
        SELECT node, sender, seq,
            min(time_ns) FILTER ({_ENTRY}) AS entered_ns, min(lsn) FILTER ({_ENTRY}) AS entered_lsn,
            min(time_ns) FILTER ({_PURGED}) AS purged_ns, min(lsn) FILTER ({_PURGED}) AS purged_lsn,
            min(time_ns) FILTER (event = 'stable') AS told_ns,
            min(lsn) FILTER (event = 'stable') AS told_lsn
        FROM journal WHERE {_ENTRY} OR {_PURGED} OR event = 'stable' GROUP BY node, sender, seq),
    spans AS (
        SELECT *, min(told_ns) OVER later AS stable_ns, min(told_lsn) OVER later AS stable_lsn,
        FROM told
        WINDOW later AS (PARTITION BY node, sender ORDER BY seq DESC {ROW})),
    kept AS (
        SELECT node, entered_ns, entered_lsn,
            least(purged_ns, stable_ns) AS left_ns, least(purged_lsn, stable_lsn) AS left_lsn
        FROM spans WHERE entered_ns IS NOT NULL),
    moves AS (
        SELECT node, 'delivery' AS buffer, time_ns, lsn, if(event = 'receive', 1, -1) AS step
        FROM journal
        WHERE event IN ('receive', 'deliver') OR (event = 'purge' AND "where" = 'delivery')
        UNION ALL SELECT node, 'retransmit', entered_ns, entered_lsn, 1 FROM kept
        UNION ALL SELECT node, 'retransmit', left_ns, left_lsn, -1 FROM kept
            WHERE left_ns IS NOT NULL),
    held AS (
        SELECT node, buffer, time_ns, lead(time_ns) OVER moved AS next_ns,
            sum(step) OVER (moved {ROW}) AS held
        FROM moves WINDOW moved AS (PARTITION BY node, buffer ORDER BY time_ns, lsn))
    SELECT node, buffer, sum(held::DOUBLE * (next_ns - time_ns)) / 1e9 AS messages_s
    FROM held GROUP BY node, buffer ORDER BY node, buffer"""


def _distances(table: str) -> str:
    return f"""
    SELECT count(*) AS messages, count(d) AS replacing,
        quantile_cont(d, [0.5, 0.9, 0.99]) AS p50_p90_p99, max(d) AS d_max
    FROM (
        SELECT seq - lag(seq) OVER (PARTITION BY sender, key ORDER BY seq) AS d
        FROM {table} WHERE key <> ''
        UNION ALL SELECT NULL FROM {table} WHERE coalesce(key, '') = '')"""


_BY_SENDER: Final = ("survey", BY_SENDER)
QUERIES: Final = (
    Query("verify", "FIFO Order", _BY_SENDER, FIFO_ORDER),
    Query("verify", "Integrity", _BY_SENDER, INTEGRITY),
    Query("verify", "Agreement", _BY_SENDER, AGREEMENT),
    Query("verify", "FIFO Completeness", _BY_SENDER, FIFO_COMPLETENESS),
    Query("analyse", "throughput", ("counted",), THROUGHPUT),
    Query("analyse", "latency", (), LATENCY),
    Query("analyse", "occupancy", ("counted", "retained", "windows"), OCCUPANCY),
    Query("profile", PROFILE_CSV, (), _distances("csv_trace")),
    Query("profile", PROFILE_LAKE, (), _distances("trace")),
)
