"""Causes as pages show them: a letter in a square, words, and what to do about each (docs/causes.md has more)."""

from __future__ import annotations

from typing import Final, NamedTuple

from service.domain.transaction_log.causes import (
    ADMIN,
    CLIENT_ABORT,
    COMMIT,
    EMPTY_ABORT,
    EXPIRY,
    FENCED,
    INITIALIZED,
    PID_ROTATED,
    TIMEOUT,
    UNATTRIBUTED,
    Confidence,
)


class Word(NamedTuple):
    """A cause as pages show it. `style`: of the square and of the drawings (`key--…`, `tx--…`); `letter`: "" if there
    is no square."""

    letter: str
    style: str
    text: str


WORDS: Final = {
    COMMIT: Word("C", "commit", "commit"),
    CLIENT_ABORT: Word("A", "abort", "client abort"),
    TIMEOUT: Word("T", "timeout", "timeout"),
    FENCED: Word("F", "fenced", "fenced"),
    ADMIN: Word("M", "admin", "admin"),
    UNATTRIBUTED: Word("?", "none", "unattributed"),
    EMPTY_ABORT: Word("A", "init", "empty abort"),
    INITIALIZED: Word("I", "init", "initialized"),
    PID_ROTATED: Word("", "none", "producer id rotated"),
    EXPIRY: Word("", "none", "expired"),
}

COUNTED: Final = {
    "client": CLIENT_ABORT,
    "timeout": TIMEOUT,
    "fenced": FENCED,
    "admin": ADMIN,
    "unattributed": UNATTRIBUTED,
}
"""The words under which aborts are counted, and their causes."""

TO_DO: Final = {
    (CLIENT_ABORT, Confidence.LIKELY): (
        "ask the application why it aborts. Applications abort on purpose (a failed check), and after errors of the"
        " producer."
    ),
    (CLIENT_ABORT, Confidence.AMBIGUOUS): (
        "look in the client's log. The coordinator's has nothing more than this log: it writes Initialized"
        " transactionalId … with each Empty record, whoever ended the transaction before."
    ),
    (TIMEOUT, Confidence.LIKELY): (
        "find what took so long (garbage collection, a slow sink, a batch too large), make transactions smaller, or"
        " raise transaction.timeout.ms (at most the brokers' transaction.max.timeout.ms). A producer of the old"
        " protocol is fenced by the abort and must be created again. Many timeouts at once point to a broker."
    ),
    (FENCED, Confidence.LIKELY): (
        "nothing after a single restart: it leaves one of these if a transaction was open. Several in turns: find the"
        " second instance, if there is one, and give it ids of its own. Ids that belong to a task or an input partition"
        " stay as they are."
    ),
    (FENCED, Confidence.AMBIGUOUS): (
        "look in the client's log at that time. ProducerFencedException or InvalidProducerEpochException with nothing"
        " before it: another producer fenced it. An abort or a failed request before it: it ended the transaction"
        " itself."
    ),
    (ADMIN, Confidence.AMBIGUOUS): "nothing if the application is back; else as of an administrator.",
    (ADMIN, Confidence.LIKELY): "start the application again; the id keeps the administrator's timeout until then.",
    (EMPTY_ABORT, Confidence.CERTAIN): "nothing.",
    (EMPTY_ABORT, Confidence.LIKELY): "nothing.",
    (UNATTRIBUTED, Confidence.AMBIGUOUS): "look in the client's log and the coordinator's log.",
}

PROOFS: Final = {
    TIMEOUT: "Completed rollback of ongoing transaction for transactionalId … due to timeout",
}
"""For each cause, the line in the coordinator's own log that proves it. A fence leaves none: "Initialized
transactionalId …" comes with each Empty record (`TransactionCoordinator.handleInitProducerId`), also where the client
aborted before."""


def word_of(cause: str) -> Word:
    return WORDS[cause]
