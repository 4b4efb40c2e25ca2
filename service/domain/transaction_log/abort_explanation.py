"""Explains the end of a transaction to the people who run the client: what happened, and what they can do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from service.domain.transaction_log.causes import CauseCode, Confidence
from service.domain.transaction_log.states import NAMES, PREPARE_ABORT

_RESTART_OR_TWO: Final = (
    "A single fence mostly comes from an application that started again after a crash, a kill, a rebalance or a new"
    " configuration. The records of this transaction are discarded, and the application has to write them again. An"
    " application that reads its input again from the last commit writes them again. A two-phase sink (Apache Flink)"
    " does not write them again if a checkpoint counts them as delivered; then they are lost. Repeated fences come"
    " from two instances with one id that fence each other in turn, or from one instance that starts again and again."
    " If the fenced instance is alive, its log has ProducerFencedException or InvalidProducerEpochException."
)

_ENDS: Final = {
    (CauseCode.COMMIT, Confidence.LIKELY): (
        "Its records are certainly committed, and its client probably meant to commit this transaction. An EndTxn of"
        " the old protocol names the producer's epoch and not a transaction, and does not raise the epoch: a late"
        " duplicate of an earlier EndTxn has the same effect (KAFKA-17754). If the client's log has no commit, or has"
        " INVALID_TXN_STATE, the duplicate committed the transaction."
    ),
    (CauseCode.CLIENT_ABORT, Confidence.LIKELY): (
        "Aborted by its own client: look in the application's own log. If the epoch is unchanged (old protocol), an"
        " EndTxn with this producer's epoch aborted it: the EndTxn for this transaction, or a late duplicate of an"
        " earlier EndTxn (KAFKA-17754). If the client's log has no abort, or has INVALID_TXN_STATE, the duplicate"
        " aborted the transaction. If the epoch was raised (transaction version 2), its client continued with the new"
        " epoch: the client aborted, or asked for a new epoch after an error (InitProducerId with its own epoch,"
        " KIP-360)."
    ),
    (CauseCode.CLIENT_ABORT, Confidence.AMBIGUOUS): (
        "Aborted by its own client, or because another producer with the same transactional.id was started. The log"
        " cannot tell these apart in two cases: under transaction version 2, and for a two-phase producer (KIP-939),"
        " because its recovery raises the epoch and keeps the transaction. After a fence the client's log has"
        " ProducerFencedException or InvalidProducerEpochException."
    ),
    (CauseCode.TIMEOUT, Confidence.LIKELY): (
        "It was open for longer than its timeout, so its coordinator aborted it. Find out what delayed the client"
        " (a long pause, a broker that was away), or raise its transaction.timeout.ms. If a client or a new instance"
        " ended it between its timeout and the coordinator's scan, the log would look the same."
    ),
    (CauseCode.FENCED, Confidence.LIKELY): (
        "While it was open, an InitProducerId for its transactional.id came, and right after that a producer was let"
        f" in, so the producer of this transaction was fenced. {_RESTART_OR_TWO} A producer that asked for a new epoch"
        " itself (KIP-360) and was created anew at once looks the same."
    ),
    (CauseCode.FENCED, Confidence.AMBIGUOUS): (
        "Aborted because of an InitProducerId for its transactional.id; the log does not show who sent it. If no Empty"
        " record follows within 3 s, no producer was let in: the producer itself asked, with its own epoch, after an"
        " error (KIP-360), or another instance asked and gave up. If an Empty follows, a producer was started with the"
        " id; under transaction version 2, its own client may also have aborted and started again at once. If a second"
        " Empty follows, with another timeout, an administrator or the application's own framework (Kafka Connect, when"
        " it is configured anew) fenced the id before the application came back. Look in the client's"
        " log: an abort, or a failed request, before this abort means that the client ended the transaction itself."
    ),
    (CauseCode.ADMIN, Confidence.AMBIGUOUS): (
        "Ended by fenceProducers or forceTerminateTransaction: by an administrator, or by the application's own"
        " framework, as Kafka Connect does when it is configured anew. The sign is the timeout that these requests"
        " leave in the log. The next seconds show whether the application is back at once."
    ),
    (CauseCode.ADMIN, Confidence.LIKELY): (
        "Ended by an administrator: forceTerminateTransaction of kafka-transactions.sh, or fenceProducers. The"
        " signs are the timeout that these requests leave in the log, and that no application was back within 10 s. Two"
        " other cases leave the same records: a framework that fences its own ids (Kafka Connect) and then does not"
        " start them, and an application that was started with exactly that timeout and had nothing to write."
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
    """Returns the text that explains why a transaction ended; None if its cause needs no explanation."""
    return _ENDS.get((cause, confidence))


def newest_abort(timeline: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any], str] | None:
    """Returns the newest abort that has a cause, and the text that explains it; None if there is no such abort, or no
    explanation of its cause. `timeline`: rows of an id's timeline as in REST, the newest first."""
    for row in timeline:
        if row["type"] == "transition" and row["to_state"] == NAMES[PREPARE_ABORT] and row["cause"] is not None:
            why = why_ended(row["cause"], row["confidence"])
            return None if why is None else (row, why)
    return None
