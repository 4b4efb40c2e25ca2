"""Explains an abort to the people who run the client: what happened, and what to do about it."""

from __future__ import annotations

from typing import Final

from service.domain.transaction_log.causes import (
    ADMIN,
    AMBIGUOUS,
    CERTAIN,
    CLIENT_ABORT,
    EMPTY_ABORT,
    FENCED,
    LIKELY,
    TIMEOUT,
    UNATTRIBUTED,
)

_OWN: Final = "Not a fault of Kafka: look in the application's own log."
_RESTART_OR_TWO: Final = (
    "A single fence comes from an application that crashed, or was killed, and started again: nothing is wrong."
    " Repeated fences in turns come from two instances with one id: give each its own. The fenced one, if alive, has"
    " ProducerFencedException or InvalidProducerEpochException in its log."
)

_ABORTS: Final = {
    (CLIENT_ABORT, CERTAIN): f"Aborted by its own client. {_OWN}",
    (CLIENT_ABORT, LIKELY): f"Aborted by its own client, which went on with the epoch that the abort gave it. {_OWN}",
    (CLIENT_ABORT, AMBIGUOUS): (
        "Aborted by its own client, or by another producer that was started with the same transactional.id: under"
        " transaction version 2 both leave the same records. After a fence the client's log has"
        " ProducerFencedException or InvalidProducerEpochException."
    ),
    (TIMEOUT, LIKELY): (
        "It was open for longer than its timeout, so its coordinator aborted it. Find out what delayed the client"
        " (a long pause, a broker that was away), or raise its transaction.timeout.ms. If a client or a new instance"
        " ended it between its timeout and the coordinator's scan, the log would look the same."
    ),
    (FENCED, LIKELY): (
        "A producer was started with the same transactional.id while this one was open, and fenced it."
        f" {_RESTART_OR_TWO}"
    ),
    (FENCED, AMBIGUOUS): (
        "A producer was started with the same transactional.id and fenced it, or its client aborted and started again"
        " at once: under transaction version 2 both leave the same records."
        f" {_RESTART_OR_TWO}"
    ),
    (ADMIN, LIKELY): (
        "Ended by an administrator: forceTerminateTransaction of kafka-transactions.sh, or fenceProducers. The sign"
        " is the timeout that they leave in the log."
    ),
    (UNATTRIBUTED, AMBIGUOUS): (
        "The log does not show who aborted it: the previous record is gone (compacted away), or fits none of"
        " the ways in which Kafka ends a transaction."
    ),
    (EMPTY_ABORT, CERTAIN): "It was empty: a client of transaction version 2 asked for its next epoch.",
    (EMPTY_ABORT, LIKELY): "No partition had been added to it, so nothing was lost.",
}


def why_aborted(cause: str, confidence: str) -> str | None:
    """Returns the explanation of an abort by its cause and confidence; None if that is no cause of an abort."""
    return _ABORTS.get((cause, confidence))
