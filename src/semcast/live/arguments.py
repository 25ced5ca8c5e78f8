"""The settings of a group as arguments, for type checkers: a name that is wrong is found before it
runs. What each means stands in the table that they come from, `semcast.settings.table`.
"""

from collections.abc import Mapping
from typing import TypeAlias, TypedDict

# Not any sequence: a string is one too.
Names: TypeAlias = list[str] | tuple[str, ...]


class Settings(TypedDict, total=False):
    """What `join` takes beside the group's name; the fields of `GroupConfig` but for that."""

    # settings: arguments (from semcast.settings.table, written by `make settings`)
    name: str
    secret: bytes | str | None
    insecure: bool
    key_id: int
    suite: str
    role: str
    quorum: str
    members: Names
    size: int
    peers: Names
    join_timeout_s: float
    transport: str
    interface: str
    host: str
    port: int
    group_address: str
    ttl: int
    ipv6: bool
    path_mtu_bytes: int
    receive_buffer_bytes: int
    send_buffer_bytes: int
    bandwidth_bytes_s: int
    spin_us: int
    reliability: str
    order: str
    purging: bool
    purge_policy: str
    replacement: str
    k: int
    f: int
    deliver_own: bool
    delivery_messages: int
    delivery_bytes: int
    window_messages: int
    window_bytes: int
    message_bytes_max: int
    total_messages: int
    state: str
    standing_keys_max: int
    standing_bytes_max: int
    neighbours_max: int
    relay_fanout: int
    relay_rounds: int
    relay_policy: str
    relay_scope: str
    relay_messages: int
    relay_bytes_s: int
    relay_repair: bool
    relay_tree: bool
    groups: Names
    sites: Mapping[str, tuple[str, ...]] | tuple[tuple[str, tuple[str, ...]], ...]
    recovery: str
    rule: str
    protocol: str
    history: str
    null_ms: float
    silence_ms: float
    gossip_period_ms: float
    gossip_fanout: int
    gossip_messages: int
    stability: str
    stability_branching: int
    stability_tree: str | Mapping[str, str] | tuple[tuple[str, str], ...]
    stability_ring: Names
    stability_period_ms: float
    stability_delta: bool
    stability_ride_ms: float
    safety_rest_messages: int
    nak_delay_ms: float
    slow_after_ms: float
    evict_after_s: float
    record: str
    record_run: str
    metrics_port: int
    metrics_host: str
    # end of settings


class Overrides(Settings, total=False):
    """The same, with the group's name."""

    group: str
