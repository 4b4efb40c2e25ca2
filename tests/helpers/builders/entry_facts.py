"""What both logs show of an open entry, made so that its verdict is known."""

from __future__ import annotations

from service.domain.transaction_log.states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)
from service.domain.worlds.facts import Batches, EntryFacts
from service.domain.worlds.transactions import Epochs, IdRecord, LogHistory
from service.domain.worlds.verdict import World

_STATES: dict[str, tuple[int, ...]] = {
    World.COMMIT: (PREPARE_COMMIT, COMPLETE_COMMIT),
    World.ABORT: (PREPARE_ABORT, COMPLETE_ABORT),
}


def facts_of(decision: str | None, producer_id: int, epoch: int, start_offset: int, at_ms: int) -> EntryFacts:
    """A log read whole, of `at_ms`; a TV2 client wrote under `epoch`. Without COMMIT or ABORT nothing has ended."""
    states = _STATES.get(decision or "", ())
    records = [_record(0, ONGOING, producer_id, epoch, at_ms)] if states else []
    records += [_record(i, state, producer_id, epoch + 1, at_ms) for i, state in enumerate(states, 1)]
    batches = Batches(start_offset, start_offset, Epochs(epoch, epoch), 0, 0, True)
    return EntryFacts(LogHistory(0, len(records), tuple(records), ()), (), 0, batches, at_ms)


def _record(offset: int, state: int, producer_id: int, epoch: int, at_ms: int) -> IdRecord:
    has_partitions = state in (ONGOING, PREPARE_ABORT, PREPARE_COMMIT)
    return IdRecord(offset, at_ms, 0, state, producer_id, epoch, 2, -1, at_ms, has_partitions)
