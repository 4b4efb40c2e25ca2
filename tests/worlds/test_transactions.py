"""Tests of deriving the transactions of a producer id from the records of the transaction log."""

from __future__ import annotations

import pytest

from service.domain.transaction_log.facts import NO_RECORD
from service.domain.transaction_log.states import COMPLETE_ABORT, ONGOING, PREPARE_ABORT, PREPARE_COMMIT
from service.domain.worlds.markers import Marker, ended_before
from service.domain.worlds.transactions import LogHistory, Transaction, transactions_of

PID = 7


def decided(*steps: tuple[int, int]) -> Transaction:
    """Returns the only transaction to which these records belong. `steps` has the state and the append time of each
    record."""
    records = [
        NO_RECORD._replace(
            offset=offset, timestamp_ms=at_ms, state=state, producer_id=PID, producer_epoch=0, start_ms=0
        )
        for offset, (state, at_ms) in enumerate(steps)
    ]
    listing = frozenset(record.offset for record in records if record.state in (ONGOING, PREPARE_ABORT, PREPARE_COMMIT))
    (transaction,), _ = transactions_of(PID, LogHistory(0, len(records), tuple(records), listing, ()))
    return transaction


def test_markers_may_have_been_written_since_the_first_of_two_prepares() -> None:
    transaction = decided((ONGOING, 0), (PREPARE_ABORT, 1_000), (PREPARE_ABORT, 9_100), (COMPLETE_ABORT, 10_426))
    assert (transaction.decided.offset, transaction.marker_ms) == (2, 9_426)


@pytest.mark.parametrize("between", [ONGOING, PREPARE_COMMIT], ids=["taken back", "another outcome"])
def test_no_marker_was_written_for_a_prepare_that_was_not_kept(between: int) -> None:
    path = [(ONGOING, 0), (PREPARE_ABORT, 1_000), (between, 2_000), (PREPARE_ABORT, 9_100), (COMPLETE_ABORT, 10_426)]
    assert decided(*path).marker_ms == 1_326


def test_two_markers_of_one_transaction_count_as_one_transaction() -> None:
    """The first marker follows the first PrepareAbort. Seconds later, the second PrepareAbort is appended. Both markers
    belong to one transaction."""
    transaction = decided((ONGOING, 0), (PREPARE_ABORT, 1_000), (PREPARE_ABORT, 9_100), (COMPLETE_ABORT, 10_426))
    markers = [Marker(5, 0, 1_010, is_commit=False), Marker(6, 0, 9_110, is_commit=False)]
    assert ended_before([transaction, transaction], markers, is_complete=True) == 1
