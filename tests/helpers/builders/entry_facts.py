"""Builds facts about an open entry, as the transaction log and the partition's log would show them. The facts lead to a
known verdict."""

from __future__ import annotations

from service.domain.transaction_log.facts import LogRecord
from service.domain.transaction_log.states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)
from service.domain.worlds.facts import Batches, EntryFacts, FirstBatch
from service.domain.worlds.transactions import Epochs, LogHistory
from service.domain.worlds.verdict import World

_STATES: dict[str, tuple[int, ...]] = {
    World.COMMIT: (PREPARE_COMMIT, COMPLETE_COMMIT),
    World.ABORT: (PREPARE_ABORT, COMPLETE_ABORT),
}


def facts_of(decision: str | None, producer_id: int, epoch: int, start_offset: int, at_ms: int) -> EntryFacts:
    """Returns the facts about an entry that a TV2 client wrote under `epoch`. Both logs were read completely at
    `at_ms`.

    `decision` is the outcome of the entry's transaction. If `decision` is neither COMMIT nor ABORT, the transaction log
    has no record of the producer id.
    """
    states = _STATES.get(decision or "", ())
    records = [_record(0, ONGOING, producer_id, epoch, at_ms)] if states else []
    records += [_record(i, state, producer_id, epoch + 1, at_ms) for i, state in enumerate(states, 1)]
    first = FirstBatch(epoch, 0, at_ms, 0, is_first_of_epoch=True)
    batches = Batches(start_offset, start_offset, Epochs(epoch, epoch), first, 0, is_whole=True, is_single=True)
    listing = frozenset(record.offset for record in records if record.state in (ONGOING, PREPARE_ABORT, PREPARE_COMMIT))
    return EntryFacts(LogHistory(0, len(records), tuple(records), listing, ()), (), 0, batches, at_ms, leader_epoch=0)


def _record(offset: int, state: int, producer_id: int, epoch: int, at_ms: int) -> LogRecord:
    return LogRecord(offset, at_ms, 0, state, producer_id, epoch, 60_000, at_ms, at_ms, 2, -1, 1)
