"""The table of settings: every one that a user can give to a group, a member or a scenario.

An entry says its name, default, where it applies, what is allowed and, in a sentence, what it
means. The type is that of the default, and the unit ends the name. After a change, `make settings`
writes the configuration classes, the typed arguments and the tables of the documentation anew.
"""

from typing import Any, Final

from semcast.obsolescence.bitmap import K_DEFAULT, K_MAX
from semcast.settings.setting import MS, Default, Place, SecretOrNone, Setting, Sites, Tree
from semcast.wire.header import AES_256_GCM, CHACHA20_POLY1305, KEY_ID_MAX
from semcast.wire.limits import MESSAGE_BYTES_LIMIT, PATH_MTU_BYTES_MAX, PATH_MTU_BYTES_MIN

SUITES: Final = {"aes-256-gcm": AES_256_GCM, "chacha20-poly1305": CHACHA20_POLY1305}
GROUP_SIZE_MAX: Final = 4096
STABILITY_PROTOCOLS: Final = ("gossip", "coordp", "fulldist", "train", "s_coordp", "s_train")
FEDERATION_RULES: Final = ("greedy", "spread", "fewest-extra")
FEDERATION_PROTOCOLS: Final = ("propagation", "central", "two-phase")
_PATH_MTU_BYTES: Final = (PATH_MTU_BYTES_MIN, PATH_MTU_BYTES_MAX)
# Socket options are signed 32-bit integers, and Linux doubles what it is given.
_SOCKET_BYTES: Final = (1, (1 << 30) - 1)
_PORTS: Final = (0, 65_535)
_MEMBERS: Final = (1, 65_535)
_MESSAGES: Final = (0, 1 << 30)
_LONG: Final = (0, 1_000_000_000)
_UP_TO_HOUR: Final = (0, 3_600_000)  # in milliseconds, as the next
_NS_TO_HOUR: Final = (1e-6, 3_600_000)

_GROUP: Final = Place.GROUP
_TRANSPORT: Final = Place.GROUP | Place.TRANSPORT
_REACHING: Final = Place.GROUP | Place.REACHING
_JOINING: Final = Place.GROUP | Place.JOINING
_PROTOCOL: Final = Place.GROUP | Place.MEMBER | Place.SCENARIO

# fmt: off
SETTINGS: Final = (
    # Who is in the group.
    Setting("group", Default.REQUIRED, _GROUP, (), "The name that all members share.", type=str),
    Setting("name", Default.OWN_NAME, _JOINING, (),
            "The name of this member, at most 64 bytes.", type=str),
    Setting("secret", None, _GROUP, (),
            "The group's secret, at least 16 bytes, the same everywhere; `semcast keys new`.",
            type=SecretOrNone, hidden=True),
    Setting("insecure", False, _REACHING, (), "The group has no secret: for trusted networks."),
    Setting("key_id", 1, _REACHING, (1, KEY_ID_MAX), "The number of that secret among the keys."),
    Setting("suite", "aes-256-gcm", _GROUP, tuple(SUITES), "The cipher that seals datagrams."),
    Setting("role", "member", _JOINING | Place.MEMBER, ("member", "reader"),
            "`'reader'`: this process only receives. Nobody waits for its vote, and it comes and "
            "goes without a pause for anybody."),
    Setting("quorum", "majority", _JOINING | Place.MEMBER, ("majority", "all", "one"),
            "How many members of a view decide on the next one. `'majority'`: more than half, or "
            "half of them with the first. `'one'`: any that can talk with each other, who go on by "
            "themselves if the network splits."),
    Setting("members", (), _JOINING, (),
            "The names of all members, if the group is to be complete before it begins. Without "
            "them and without `size` the group is open: processes come and go."),
    Setting("size", 0, _JOINING, (0, GROUP_SIZE_MAX),
            "Or how many there are, with this one, if it is to be complete before it begins."),
    Setting("peers", (), _REACHING, (),
            "Addresses of some members, host:port, where multicast does not work. A name may have "
            "several; one that is unknown is a warning, unless all are."),
    Setting("join_timeout_s", 30.0, _JOINING, _LONG, "How many seconds to wait for the others."),
    # The network: docs/design/transport.md.
    Setting("transport", "auto", _TRANSPORT | Place.REACHING, ("auto", "multicast", "unicast"),
            "`'auto'` takes multicast if it comes back to this machine, or if there are no "
            "`peers`; else unicast to these."),
    Setting("interface", "", _TRANSPORT | Place.REACHING, (),
            "The name or the address of the network interface; `lo` for one machine."),
    Setting("host", "", _TRANSPORT, (), "The address that unicast binds to; empty: any."),
    Setting("port", 0, _TRANSPORT, _PORTS,
            "The port of the group (multicast) or of this member (unicast); 0: it is chosen."),
    Setting("group_address", "", _TRANSPORT, (),
            "The group's multicast address; empty: it is derived from the group's name."),
    Setting("ttl", 1, _TRANSPORT, (0, 255), "How many routers multicasts pass."),
    Setting("ipv6", False, _TRANSPORT, (), "IPv6 is used instead of IPv4."),
    Setting("path_mtu_bytes", 0, _TRANSPORT | Place.SCENARIO, _PATH_MTU_BYTES,
            "The largest datagram, with IP and UDP; 0: what the interface carries.", preset=1400),
    Setting("receive_buffer_bytes", 8 << 20, _TRANSPORT, _SOCKET_BYTES,
            "What is asked of the kernel for receiving; a warning says if it gives less."),
    Setting("send_buffer_bytes", 1 << 20, _TRANSPORT, _SOCKET_BYTES,
            "The same for sending; what is in this buffer can no longer be replaced."),
    Setting("bandwidth_bytes_s", 0, _PROTOCOL, (0, 1 << 40),
            "The upper bound of what a member multicasts; 0: none."),
    Setting("spin_us", 200, _GROUP, (0, 1_000_000),
            "A thread stays awake for so long where the next message is expected soon, or at a "
            "regular time; 0: never."),
    # What is promised: docs/design/member.md.
    Setting("reliability", "group", _PROTOCOL, ("sender", "group", "gossip", "federation"),
            "`'group'`: all correct members agree, whoever crashes (SRM Figure 3). `'sender'`: "
            "messages of senders that do not crash arrive (SRM Figure 2). `'gossip'`: almost all "
            "that nothing replaces reach almost everybody, in groups of thousands (PSRM). "
            "`'federation'` is what `federate` sets: one order across groups that overlap (PROP)."),
    Setting("order", "fifo", _PROTOCOL, ("fifo", "key"),
            "`'fifo'`: all messages of a sender come in order. `'key'`: only those about one key "
            "do, and the unmarked ones; a new value takes the turn of the one it replaces."),
    Setting("purging", True, _PROTOCOL, (),
            "Messages that were replaced are dropped; off: plain reliable multicast."),
    Setting("purge_policy", "eager", _PROTOCOL, ("eager", "lazy", "watermark"),
            "When replaced messages are dropped. `'eager'`: at once; `'lazy'`: when a buffer is "
            "full; `'watermark'`: when it is three quarters full, until it is half full. Order "
            "`'key'` needs `'eager'`."),
    Setting("replacement", "key", _PROTOCOL, ("key", "bitmap"),
            "`'key'`: a message with a key replaces all earlier ones of that key and sender; "
            "`'bitmap'`: those up to k messages back, as in the papers."),
    Setting("k", 256, _PROTOCOL, (0, K_MAX),
            "How many messages back, of its sender, one can replace another by a bitmap: with "
            "`Predecessors`, with `AllButLast`, and by key if `replacement` is `'bitmap'`.",
            preset=K_DEFAULT),
    Setting("f", 1, _PROTOCOL, (0, 65_535), "How many crashes reliability `'group'` survives."),
    Setting("deliver_own", True, _PROTOCOL, (), "A member gets its own messages too."),
    Setting("track_covers", False, Place.MEMBER, (),
            "`Member.cover_of` knows of messages that were purged while they waited, and goes on "
            "knowing covers when they are stable: a log of the last few thousand."),
    # How much is held.
    Setting("delivery_messages", 32_768, _PROTOCOL, (1, 1 << 30),
            "How many messages may wait for the application.", preset=1024),
    Setting("delivery_bytes", 64 << 20, _PROTOCOL, (1, 1 << 40), "The same in bytes."),
    Setting("window_messages", 32_768, _PROTOCOL, (1, 1 << 30),
            "How many messages of each sender are kept until everybody has them.", preset=1024),
    Setting("window_bytes", 64 << 20, _PROTOCOL, (1, 1 << 40), "The same in bytes."),
    Setting("message_bytes_max", 1 << 20, _GROUP, (1, MESSAGE_BYTES_LIMIT), "The largest payload."),
    Setting("total_messages", 0, _PROTOCOL, (0, 1 << 30),
            "How many messages a member may hold in all, for its application and for others, "
            "beside the bounds above (SRM §5.3); 0: no such bound. Half of it is for others, in "
            "equal shares of all senders."),
    # What a newcomer gets first: docs/design/membership.md.
    Setting("state", "keys", _PROTOCOL, ("keys", "snapshot", "none"),
            "What a process that comes late gets before the stream. `'keys'`: of every key the "
            "value that stands; `'snapshot'`: what the application of a member saves for it; "
            "`'none'`: nothing."),
    Setting("standing_keys_max", 1 << 17, _PROTOCOL, (1, 1 << 30),
            "How many values are kept for newcomers. If there are more keys, those not updated for "
            "longest are dropped, and newcomers are told that something is missing."),
    Setting("standing_bytes_max", 64 << 20, _PROTOCOL, (1, 1 << 40),
            "The same in bytes; also the largest snapshot."),
    # Reliability "gossip" only: docs/design/epidemic.md.
    Setting("neighbours_max", 5, _GROUP, (1, 64),
            "Reliability `'gossip'`: how many others a member has links with."),
    Setting("relay_fanout", 5, _GROUP, _MEMBERS,
            "Reliability `'gossip'`: how many of these a message goes to, at most."),
    Setting("relay_rounds", 32, _GROUP, (0, 255),
            "Reliability `'gossip'`: how often a message is relayed after it was sent."),
    Setting("relay_policy", "eager", _GROUP,
            ("eager", "lazy", "random", "drop-new", "age", "priority"),
            "Reliability `'gossip'`: what goes when copies wait for a busy link. `'eager'`: what "
            "was replaced, at once, then any; `'lazy'`: the same when there is no room; the others "
            "do not look at what replaces what."),
    Setting("relay_scope", "node", _GROUP, ("node", "link"),
            "Reliability `'gossip'`: `'node'`: all links share room, so that messages meet what "
            "replaces them; `'link'`: each has its own."),
    Setting("relay_messages", 64, _GROUP, (1, 1 << 20),
            "Reliability `'gossip'`: how many copies may wait for each link."),
    Setting("relay_bytes_s", 0, _GROUP, (0, 1 << 40),
            "Reliability `'gossip'`: what a link carries; 0: a window adapts to what arrives."),
    Setting("relay_repair", True, _GROUP, (),
            "Reliability `'gossip'`: members ask each other for what they missed."),
    Setting("relay_tree", False, _GROUP, (),
            "Reliability `'gossip'`: messages go along a spanning tree of the links, and over the "
            "other links members are told of them only; all members should say the same. Needs "
            "`relay_repair`."),
    # Federations only: docs/design/propagation.md.
    Setting("groups", (), _JOINING, (),
            "Federations: the groups whose messages this site gets. It may send to all others, "
            "too."),
    Setting("sites", (), _GROUP, (),
            "Federations: a table of the names of sites and the groups of each, if all of these "
            "are to be there before it begins.", type=Sites),
    Setting("recovery", "non-atomic", _GROUP, ("non-atomic", "atomic"),
            "Federations: what others do when a site fails. `'non-atomic'`: they go on without it, "
            "and it is told what to roll back. `'atomic'`: whatever needs it waits until it is "
            "back (PROP §5.2)."),
    Setting("rule", "greedy", _GROUP, FEDERATION_RULES,
            "Federations: how the propagation graph is chosen; all sites must say the same."),
    Setting("protocol", "propagation", _GROUP, FEDERATION_PROTOCOLS,
            "Federations: what makes the order. `'propagation'`: a tree of the sites; `'central'`: "
            "one site; `'two-phase'`: a vote for every message, among sites that are all there "
            "before it begins. The last two are for comparison."),
    Setting("history", "", _GROUP, (),
            "Federations: a folder for what this site must remember if it is restarted; empty: it "
            "remembers nothing then."),
    Setting("null_ms", 100.0, _GROUP, _NS_TO_HOUR,
            "Federations: how often a site that has nothing to say to a neighbour says so."),
    Setting("silence_ms", 1000.0, _GROUP, _NS_TO_HOUR,
            "Federations: a site that its neighbours have not heard for so long has failed."),
    # What may be forgotten: docs/design/stability.md.
    Setting("gossip_period_ms", 30.0, _PROTOCOL, _NS_TO_HOUR,
            "How often members tell each other what they have (SRM §6.1)."),
    Setting("gossip_fanout", 3, _PROTOCOL, _MEMBERS, "How many others a member tells each time."),
    Setting("gossip_messages", 0, _PROTOCOL, _MESSAGES,
            "Members tell each other at once after so many messages; 0: in a live group after an "
            "eighth of a window, in a simulated one only every period."),
    Setting("gossip_stretch", 1, Place.MEMBER, _MEMBERS,
            "While messages keep coming, members tell each other only after so many periods."),
    Setting("stability", "gossip", _PROTOCOL, STABILITY_PROTOCOLS,
            "How the group learns what it may forget; all members must say the same."),
    Setting("stability_branching", 4, _PROTOCOL, _MEMBERS,
            "How many children a member has in the tree of `'s_coordp'` and `'s_train'`."),
    Setting("stability_tree", "filled", _PROTOCOL, (),
            "The tree of these two, and the ring of `'train'`. `'filled'`: complete, members in "
            "order. `'measured'`: made of round-trip times. In a live group also a table that says "
            "on whom each member but one hangs.",
            type=Tree, types={Place.MEMBER: str | tuple[int, ...], Place.SCENARIO: str}),
    Setting("stability_ring", (), Place.GROUP | Place.MEMBER, (),
            "The ring of `'train'`, all names; empty: the way that the tree gives.",
            types={Place.MEMBER: tuple[int, ...]}),
    Setting("stability_period_ms", 0.0, _PROTOCOL, _UP_TO_HOUR,
            "A fixed pace of rounds; 0: a round begins when enough messages wait (STAB §6), or "
            "some have waited for a gossip period."),
    Setting("stability_delta", False, _PROTOCOL, (), "Votes leave out what was agreed before."),
    Setting("stability_ride_ms", 0.0, _PROTOCOL, _UP_TO_HOUR,
            "Votes wait so long for a datagram of messages to ride on (STAB §7)."),
    Setting("safety_rest_messages", 0, _PROTOCOL, _MESSAGES,
            "Safety detection rests while fewer messages are kept (SRM §6.4)."),
    Setting("nak_delay_ms", 2.0, _PROTOCOL, _NS_TO_HOUR,
            "The longest random wait before a missing message is asked for."),
    Setting("membership", "closed", Place.SCENARIO, ("closed", "open"),
            "`'closed'`: all members are counted beforehand. `'open'`: processes come and go, as "
            "in a live group without `members` and `size`."),
    Setting("sealed", False, Place.SCENARIO, (),
            "Datagrams are encrypted as live ones are; off: only a checksum protects them."),
    # Slow members, and what operators see.
    Setting("slow_after_ms", 1000.0, _GROUP, _LONG, "Who is so far behind is reported as slow."),
    Setting("evict_after_s", 0.0, _GROUP, _LONG,
            "A member that others have waited for so long, to send or in `drain`, is put out of "
            "the group; 0: never, everybody waits."),
    Setting("record", "", _GROUP, (), "A folder to write this member's journal to."),
    Setting("record_run", "", _GROUP, (),
            "The name of the run in that journal; empty: the group's name and when it began."),
    Setting("metrics_port", 0, _GROUP, _PORTS, "The port for Prometheus; 0: none."),
    Setting("metrics_host", "127.0.0.1", _GROUP, (), "The address of that port."),
)
# fmt: on

_BY_NAME: Final = {one.name: one for one in SETTINGS}
_AT: Final = {place: tuple(one for one in SETTINGS if place in one.where) for place in Place}


def at(place: Place) -> tuple[Setting, ...]:
    """The settings that apply at a place, in the order of the table."""
    return _AT[place]


def named(name: str) -> Setting:
    """The setting of this name."""
    return _BY_NAME[name]


def check(config: object, place: Place) -> None:
    """Raises ConfigError unless all settings of a configuration are within what is allowed."""
    for one in _AT[place]:
        one.check(getattr(config, one.name_at(place)), place)


def for_member(config: object, place: Place) -> dict[str, Any]:
    """The settings of a group or a scenario as a member has them, with times in nanoseconds."""
    found = {}
    for one in _AT[Place.MEMBER]:
        if place in one.where:
            value = getattr(config, one.name)
            found[one.name_at(Place.MEMBER)] = round(value * MS) if one.unit == "ms" else value
    return found
