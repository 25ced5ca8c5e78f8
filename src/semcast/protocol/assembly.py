"""What a member is put together from: a configuration and the first view in; its parts out.

Which views and which detection a member has depends on the kind of group, and only this file knows:

    members counted beforehand        StaticViews   gossip, or rounds
    a feed (reliability "sender")     FeedViews     FeedDetection
    a reader of a group               Subscription  ReaderDetection

Knows nothing of what happens afterwards.
"""

from typing import Final, final

from semcast.errors import ConfigError
from semcast.ids import Randomness, Source
from semcast.obsolescence.tagger import Tagger
from semcast.protocol.config import MemberConfig
from semcast.protocol.figures import Figures
from semcast.protocol.membership.agreed import AgreedViews
from semcast.protocol.membership.doubts import Doubts
from semcast.protocol.membership.feed import FeedViews
from semcast.protocol.membership.open_views import OpenViews
from semcast.protocol.membership.readers import Readers
from semcast.protocol.membership.resending import Resending
from semcast.protocol.membership.standing import make_standing
from semcast.protocol.membership.static import StaticViews
from semcast.protocol.membership.subscription import Subscription
from semcast.protocol.membership.transfer import Transfer
from semcast.protocol.membership.view import NO_ORIGIN, View
from semcast.protocol.membership.views import Views
from semcast.protocol.membership.waits import WatchConfig
from semcast.protocol.membership.watch import Watch
from semcast.protocol.observer import Observer
from semcast.protocol.order import Order, make_order
from semcast.protocol.outbox import Outbox
from semcast.protocol.part import Part
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.queue.covers import CoverLog
from semcast.protocol.queue.guard import SafeUpTo
from semcast.protocol.stability import Detection, make_detection
from semcast.protocol.stability.feed import FeedDetection
from semcast.protocol.stability.reading import ReaderDetection
from semcast.protocol.streams.accepting import Accepting
from semcast.protocol.streams.answers import Answers
from semcast.protocol.streams.asking import Asking
from semcast.protocol.streams.endings import Endings
from semcast.protocol.streams.intake import Intake
from semcast.protocol.streams.packing import Packing
from semcast.protocol.streams.requests import Requests
from semcast.protocol.streams.sender import Sender
from semcast.wire.decode import Decoder


@final
class Assembly:
    """The parts of one member."""

    def __init__(
        self,
        config: MemberConfig,
        me: Source,
        view: View,
        random: Randomness,
        observer: Observer | None,
        joining: bool,
    ) -> None:
        _check(config, me, view)
        # Safety matters only where others keep messages that we may purge.
        guarded = config.keeps and config.purging and config.f > 0
        self.guarded: Final = guarded
        guard = SafeUpTo() if guarded else None
        # Remembers the covers of messages that are gone, for `cover_of` alone.
        log = CoverLog(8 * max(config.delivery_messages, config.window_messages))
        self.covers: Final = log if config.track_covers else None
        self.waiting: Final = PurgingBuffer(
            config.delivery_config(), "delivery", record=observer is not None, covers=self.covers
        )
        self.retained: Final = PurgingBuffer(
            config.retained_config(len(view.members), view.origin != NO_ORIGIN),
            "retransmit",
            guard,
            record=True,
            heir=make_standing(config),
        )
        self.sender: Final = Sender(
            me, Tagger(config.k, by_key=config.by_key), self.retained, config.limits
        )
        self.answers: Final = Answers(8 * config.window_messages, config.nak_delay_ns, self.covers)
        self.asking: Final = Asking(
            view.others(me), 4 * config.nak_delay_ns, config.group_reliable, random
        )
        self.decoder: Final = Decoder()
        self.outbox: Final = Outbox(me, config.limits)
        self.figures: Final = Figures()
        self.order: Final[Order] = make_order(config, self.waiting, observer)
        views, detection = _make_views(config, me, view, random, guarded, joining)
        self.views: Final[Views] = views
        self.detection: Final[Detection] = detection
        self.packing: Final = Packing(config, self.sender, self.answers, detection, self.outbox)
        endings = Endings(
            self.order,
            self.retained,
            guard,
            self.answers,
            self.asking,
            self.decoder.sources,
        )
        self.intake: Final = Intake(
            config,
            me,
            view,
            self.order,
            self.retained,
            guard,
            self.answers,
            self.asking,
            detection,
            endings,
            self.decoder.sources,
            random,
            observer,
        )
        self.requests: Final = Requests(
            config,
            self.sender,
            self.retained,
            self.answers,
            self.asking,
            self.intake,
            detection,
            self.outbox,
            observer,
            self.figures,
        )
        parts: list[Part] = [self.requests, views, detection, self.intake]
        # Who reads through this member; members of a group serve readers, nobody else does.
        self.readers: Final = (
            Readers(config, view, detection, self.intake, self.sender) if config.keeps else None
        )
        self.transfer: Final = Transfer(
            config,
            self.sender,
            view,
            joining,
            self.order,
            self.intake,
            self.retained,
            detection,
            self.decoder.sources,
            random,
            observer,
        )
        if view.origin != NO_ORIGIN:
            # What answers a subscription comes before what asks for one.
            parts = [self.requests, detection, views, self.intake]
        if self.readers is not None:
            parts.append(self.readers)
        parts.append(self.transfer)
        self.accepting: Final = Accepting(
            config, self.sender, self.retained, self.answers, self.intake, detection, observer
        )
        doubts = Doubts(config, me, self.intake, self.transfer)
        self.resending: Final = Resending(
            config, me, view, self.order, detection, endings.ends, doubts, observer
        )
        parts.append(self.resending)
        self.parts: Final = parts


def _make_views(
    config: MemberConfig,
    me: Source,
    view: View,
    random: Randomness,
    guarded: bool,
    joining: bool,
) -> tuple[Views, Detection]:
    """How this kind of group knows who is in it, and who has what."""
    if view.origin != NO_ORIGIN and not config.group_reliable:
        feed = FeedDetection(config, me, view.names[0] if view.names else "")
        return FeedViews(config, me, view, feed), feed
    if view.origin != NO_ORIGIN and config.role == "reader":
        reading = ReaderDetection(config)
        return Subscription(config, me, view, reading, random), reading
    if view.origin != NO_ORIGIN:
        agreed = AgreedViews(me, view, config.f, config.quorum, random)
        return (
            OpenViews(me, agreed, Watch(me, view, WatchConfig(), random)),
            make_detection(config, me, view, random, guarded, joining),
        )
    return (
        StaticViews(me, view, joining, config.gossip_period_ns, random),
        make_detection(config, me, view, random, guarded, joining),
    )


def _check(config: MemberConfig, me: Source, view: View) -> None:
    if not view.holds(me):
        raise ConfigError(f"the members {list(view.members)} must name {me.sender}, in this life")
    if view.origin == NO_ORIGIN and config.role != "member":
        raise ConfigError(
            f"role {config.role!r} where members are counted beforehand; leave out members and size"
        )
    if view.origin != NO_ORIGIN:
        config.check_open()
    counted = config.group_reliable and view.origin == NO_ORIGIN
    if counted and config.f >= len(view.members):
        raise ConfigError(f"f is {config.f}, but the group has only {len(view.members)} members")
