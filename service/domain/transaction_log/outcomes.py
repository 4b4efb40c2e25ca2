"""When a transaction ended, told from two neighbouring records of its id.

The rule is written with operators only, so the same function judges two records (the border between what the store has
and what a read brings) and whole columns of neighbours (inside a read).
"""

from __future__ import annotations

from typing import Any, Protocol

from service.domain.transaction_log.states import COMPLETE_ABORT, COMPLETE_COMMIT, PREPARE_ABORT


class Ending(Protocol):
    """The fields of a LogRecord the rule looks at: integers, or numpy arrays of integers of one length."""

    @property
    def state(self) -> Any: ...
    @property
    def producer_id(self) -> Any: ...
    @property
    def start_ms(self) -> Any: ...
    @property
    def partition_count(self) -> Any: ...


def commits(before: Ending, after: Ending) -> Any:
    """Whether `after` completes a commit that `before` had not completed yet (bool, or an array of bool)."""
    return (after.state == COMPLETE_COMMIT) & _first_time(before, after)


def aborts(before: Ending, after: Ending) -> Any:
    """Whether `after` completes an abort of something.

    Not counted: the abort of a transaction to which nothing was added (KIP-890, TV2: PrepareAbort with an empty
    partition list); it never was a transaction.
    """
    aborted_nothing = (before.state == PREPARE_ABORT) & (before.partition_count == 0)
    return (after.state == COMPLETE_ABORT) & (aborted_nothing == False) & _first_time(before, after)  # noqa: E712 - arrays


def _first_time(before: Ending, after: Ending) -> Any:
    """A coordinator repeats an append whose acknowledgement it missed: the repetition ends nothing again."""
    return (
        (before.state != after.state) | (before.producer_id != after.producer_id) | (before.start_ms != after.start_ms)
    )
