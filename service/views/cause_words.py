"""Causes as pages show them: a letter in a square, words, and what to do about each (docs/causes.md has more)."""

from __future__ import annotations

from typing import Final, NamedTuple

from service.domain.transaction_log.causes import CauseCode, Confidence


class Word(NamedTuple):
    """A cause as pages show it. `style`: of the square and of the drawings (`key--…`, `tx--…`); `letter`: "" if there
    is no square."""

    letter: str
    style: str
    text: str


WORDS: Final = {
    CauseCode.COMMIT: Word("C", "commit", "commit"),
    CauseCode.CLIENT_ABORT: Word("A", "abort", "client abort"),
    CauseCode.TIMEOUT: Word("T", "timeout", "timeout"),
    CauseCode.FENCED: Word("F", "fenced", "fenced"),
    CauseCode.ADMIN: Word("M", "admin", "admin"),
    CauseCode.UNATTRIBUTED: Word("?", "none", "unattributed"),
    CauseCode.EMPTY_ABORT: Word("A", "init", "empty abort"),
    CauseCode.INITIALIZED: Word("I", "init", "initialized"),
    CauseCode.PID_ROTATED: Word("", "none", "producer id rotated"),
    CauseCode.EXPIRY: Word("", "none", "expired"),
}

COUNTED: Final = {
    "client": CauseCode.CLIENT_ABORT,
    "timeout": CauseCode.TIMEOUT,
    "fenced": CauseCode.FENCED,
    "admin": CauseCode.ADMIN,
    "unattributed": CauseCode.UNATTRIBUTED,
}
"""The words under which aborts are counted, and their causes."""

TO_DO: Final = {
    (CauseCode.CLIENT_ABORT, Confidence.LIKELY): (
        "ask the application why it aborts. Applications abort on purpose (a failed check), and after errors of the"
        " producer."
    ),
    (CauseCode.CLIENT_ABORT, Confidence.AMBIGUOUS): (
        "look in the client's log. The coordinator's has nothing more than this log: it writes Initialized"
        " transactionalId … with each Empty record, whoever ended the transaction before."
    ),
    (CauseCode.TIMEOUT, Confidence.LIKELY): (
        "find what took so long (garbage collection, a slow sink, a batch too large), make transactions smaller, or"
        " raise transaction.timeout.ms (at most the brokers' transaction.max.timeout.ms). A producer of the old"
        " protocol is fenced by the abort and must be created again. Many timeouts at once point to a broker."
    ),
    (CauseCode.FENCED, Confidence.LIKELY): (
        "nothing after a single restart: it leaves one of these if a transaction was open. Several in turns: find the"
        " second instance, if there is one, and give it ids of its own. Ids that belong to a task or an input partition"
        " stay as they are."
    ),
    (CauseCode.FENCED, Confidence.AMBIGUOUS): (
        "look in the client's log at that time. ProducerFencedException or InvalidProducerEpochException with nothing"
        " before it: another producer fenced it. An abort or a failed request before it: it ended the transaction"
        " itself."
    ),
    (CauseCode.ADMIN, Confidence.AMBIGUOUS): "nothing if the application is back; else as of an administrator.",
    (
        CauseCode.ADMIN,
        Confidence.LIKELY,
    ): "start the application again; the id keeps the administrator's timeout until then.",
    (CauseCode.EMPTY_ABORT, Confidence.CERTAIN): "nothing.",
    (CauseCode.EMPTY_ABORT, Confidence.LIKELY): "nothing.",
    (CauseCode.UNATTRIBUTED, Confidence.AMBIGUOUS): "look in the client's log and the coordinator's log.",
}

PROOFS: Final = {
    CauseCode.TIMEOUT: "Completed rollback of ongoing transaction for transactionalId … due to timeout",
}
"""For each cause, the line in the coordinator's own log that proves it. A fence leaves none: "Initialized
transactionalId …" comes with each Empty record (`TransactionCoordinator.handleInitProducerId`), also where the client
aborted before."""


def word_of(cause: str) -> Word:
    return WORDS[CauseCode(cause)]
