"""What waits for the application, and in which order it comes out."""

from semcast.protocol.config import MemberConfig
from semcast.protocol.observer import Observer
from semcast.protocol.order.by_key import KeyOrder
from semcast.protocol.order.fifo import FifoOrder
from semcast.protocol.order.order import Order
from semcast.protocol.queue.buffer import PurgingBuffer

__all__ = ["Order", "make_order"]


def make_order(config: MemberConfig, waiting: PurgingBuffer, observer: Observer | None) -> Order:
    """The order that a member is told to keep. Without purging, both are the same."""
    if config.order == "key" and config.purging:
        return KeyOrder(waiting, observer, config.only)
    return FifoOrder(waiting, observer, config.only)
