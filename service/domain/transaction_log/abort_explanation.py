"""Explains the end of a transaction to the people who run the client: what happened, and what they can do."""

from __future__ import annotations

from typing import Final

from service.domain.transaction_log.causes import CauseCode, Confidence

_RESTART_OR_TWO: Final = (
    "A single fence mostly comes from an application that started again after a crash, a kill, a rebalance or a new"
    " configuration. What it had written in this transaction is discarded: it has to write that again, which an"
    " application does that reads its input again from the last commit. A two-phase sink (Apache Flink) does not where"
    " a checkpoint counts it as delivered; then it is lost. Repeated fences in turns come from two instances with one"
    " id, or from one that starts again and again. The fenced one, if alive, has ProducerFencedException or"
    " InvalidProducerEpochException in its log."
)

_ENDS: Final = {
    (CauseCode.COMMIT, Confidence.LIKELY): (
        "Its records are committed: that is certain. That its client meant this transaction is likely. An EndTxn of the"
        " old protocol names the producer's epoch, not a transaction, and does not raise it: a late duplicate of an"
        " earlier EndTxn fits as well (KAFKA-17754). The client's log decides: no commit there, or INVALID_TXN_STATE,"
        " means the duplicate."
    ),
    (CauseCode.CLIENT_ABORT, Confidence.LIKELY): (
        "Aborted by its own client: look in the application's own log. If the epoch is unchanged (old protocol), an"
        " EndTxn with this producer's epoch did it, its own or a late duplicate of an earlier one (KAFKA-17754): no"
        " abort in the client's log, or INVALID_TXN_STATE, means the duplicate. If the epoch was raised (transaction"
        " version 2), its client went on with it: it aborted, or asked for a new epoch after an error (InitProducerId"
        " with its own epoch, KIP-360)."
    ),
    (CauseCode.CLIENT_ABORT, Confidence.AMBIGUOUS): (
        "Aborted by its own client, or for another producer with the same transactional.id that asked to be let in:"
        " under transaction version 2 both leave the same records, and so they do for a two-phase producer (KIP-939),"
        " whose recovery raises the epoch and keeps the transaction. After a fence the client's log has"
        " ProducerFencedException or InvalidProducerEpochException."
    ),
    (CauseCode.TIMEOUT, Confidence.LIKELY): (
        "It was open for longer than its timeout, so its coordinator aborted it. Find out what delayed the client"
        " (a long pause, a broker that was away), or raise its transaction.timeout.ms. If a client or a new instance"
        " ended it between its timeout and the coordinator's scan, the log would look the same."
    ),
    (CauseCode.FENCED, Confidence.LIKELY): (
        "InitProducerId came for its transactional.id while it was open, and a producer was let in right after: it was"
        f" fenced. {_RESTART_OR_TWO} A producer that asked for a new epoch itself (KIP-360) and was created anew at"
        " once looks the same."
    ),
    (CauseCode.FENCED, Confidence.AMBIGUOUS): (
        "Aborted for an InitProducerId of its transactional.id; the log does not show who sent it. If no Empty record"
        " follows within 3 s, nobody was let in: the producer asked itself, with its own epoch, after an error"
        " (KIP-360), or another instance gave up. If one follows, a producer was started with the id; under transaction"
        " version 2 its own client may as well have aborted and started again at once. If a second one follows, with"
        " another timeout, an administrator or the application's own framework (Kafka Connect, when it is configured"
        " anew) fenced the id before. The client's log decides: an abort, or an error of a request, before this one"
        " means that it ended the transaction itself."
    ),
    (CauseCode.ADMIN, Confidence.AMBIGUOUS): (
        "Ended by fenceProducers or forceTerminateTransaction: by an administrator, or by the application's own"
        " framework, as Kafka Connect does when it is configured anew. The sign is the timeout that they leave in the"
        " log; whether the application is back at once, the next seconds show."
    ),
    (CauseCode.ADMIN, Confidence.LIKELY): (
        "Ended by an administrator: forceTerminateTransaction of kafka-transactions.sh, or fenceProducers. The sign"
        " is the timeout that they leave in the log, and that no application was back within 10 s. A framework that"
        " fences its own ids (Kafka Connect) and then does not start them leaves the same, and so does an application"
        " that was started with just that timeout and had nothing to write."
    ),
    (CauseCode.UNATTRIBUTED, Confidence.AMBIGUOUS): (
        "The log does not show who aborted it: the previous record is gone (compacted away), or fits none of"
        " the ways in which Kafka ends a transaction."
    ),
    (
        CauseCode.EMPTY_ABORT,
        Confidence.CERTAIN,
    ): "It was empty: a client of transaction version 2 asked for its next epoch.",
    (CauseCode.EMPTY_ABORT, Confidence.LIKELY): "No partition had been added to it, so nothing was lost.",
}


def why_ended(cause: CauseCode, confidence: Confidence) -> str | None:
    """Returns the explanation of an end by its cause and confidence; None if there is nothing to explain."""
    return _ENDS.get((cause, confidence))
