"""The last transaction that ended under a producer id, from the bytes that the store has kept of its PrepareX."""

from __future__ import annotations

from service.domain.look_back import Ended
from service.domain.owners import Owner
from service.domain.states import PREPARE_COMMIT
from service.store.display import printable
from service.wire.errors import DecodeError
from service.wire.transaction_log import decode_value


def ended_of(owner: Owner | None) -> Ended | None:
    """None where none was seen, or it cannot be read."""
    if owner is None or owner.ended_value is None:
        return None
    try:
        value = decode_value(owner.ended_value)
    except DecodeError:
        return None
    return Ended(
        is_commit=owner.ended_state == PREPARE_COMMIT,
        producer_epoch=value.producer_epoch,
        start_ms=value.start_ms,
        at_ms=value.last_update_ms,  # a PrepareX is stamped as it is written
        client_transaction_version=value.client_transaction_version,
        partitions=frozenset((topic_text(topic), p) for topic, ids in value.partitions or () for p in ids),
    )


def topic_text(topic: str) -> str:
    """A topic's name as the store shows it."""
    return printable(topic.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))
