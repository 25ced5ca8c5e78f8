"""Every property, in the order of reports. A property that joins needs a line here."""

from typing import Final

from semcast.check import (
    accounting,
    atomicity,
    fifo_order,
    flow_bounds,
    group_orders,
    integrity,
    key_completeness,
    key_order,
    member_delivery,
    owed,
    relaying,
    rollback,
    safe_purging,
    single_source_order,
    stability,
    state,
    stream_completeness,
    view_sequence,
)
from semcast.check.property import Property

PROPERTIES: Final[tuple[Property, ...]] = (
    integrity.PROPERTY,
    fifo_order.PROPERTY,
    stream_completeness.PROPERTY,
    key_order.PROPERTY,
    key_completeness.PROPERTY,
    accounting.PROPERTY,
    relaying.PROPERTY,
    flow_bounds.PROPERTY,
    safe_purging.PROPERTY,
    stability.PROPERTY,
    view_sequence.PROPERTY,
    single_source_order.PROPERTY,
    group_orders.MULTIPLE_SOURCE_ORDER,
    group_orders.MULTIPLE_GROUP_ORDER,
    group_orders.ACYCLIC_ORDER,
    rollback.PROPERTY,
    owed.SENDER_RELIABILITY,
    owed.VALIDITY,
    owed.AGREEMENT,
    owed.FIFO_COMPLETENESS,
    state.PROPERTY,
    atomicity.PROPERTY,
    member_delivery.PROPERTY,
)
