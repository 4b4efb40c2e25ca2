"""A finding of each kind, in the judge's words, and the samples of partitions that go with them."""

from __future__ import annotations

from typing import Any, Final

from service.domain.findings.catalogue import EVENTS
from service.domain.findings.finding import Evidence, Observation, Occurrence, Subject
from service.domain.findings.kinds import Kind, Severity
from service.domain.partitions.facts import LogPlace
from service.domain.reasons.hanging import HangCause, HangReason
from service.domain.reasons.unread import ErrorText
from service.domain.transaction_log.states import TOPIC
from tests.helpers.partitions import LSO, PID
from tests.helpers.reasons import denied
from tests.helpers.stores import NOW_MS

ORDERS: Final = Subject("orders", 0, b"pay", PID, 3, LSO)
BOOTSTRAP: Final = "broker-1:9092"
ABORT: Final = (
    f"kafka-transactions.sh --bootstrap-server {BOOTSTRAP} abort --topic orders --partition 0 --start-offset 100"
)
BLOCKS: Final = (
    "orders-0: the transaction of pay (producer id 7, epoch 3) at offset 100 hangs: no coordinator will end it"
)
_OWN: Final = Subject(transactional_id=b"pay")
_LINE: Final = Evidence(
    NOW_MS - 1_000, LogPlace(TOPIC, 0, 7), "newest record of pay: CompleteAbort, producer id 7, epoch 3"
)


def observed(kind: Kind, subject: Subject, title: str, advice: str = "Do what is right.", **more: Any) -> Observation:
    occurrences = tuple(Occurrence(n, NOW_MS - n) for n in range(3)) if kind in EVENTS else ()
    found = Observation(kind, Severity.WARNING, subject, title, advice, (_LINE,), occurrences=occurrences)
    return found._replace(**more)


def hanging(decision: str = "none", subject: Subject = ORDERS, **more: Any) -> Observation:
    """As `service.domain.findings.hanging.observe` says it."""
    cause = {"none": HangCause.LATE, "unknown": HangCause.NO_LOG}.get(decision, HangCause.NO_MARKER)
    decided_by = {
        "unknown": "the log that tells may not be read",
        "commit": "it listed the partition and was committed",
    }
    why = HangReason(cause, 0, False, ErrorText(decided_by.get(decision, "it was seen not to be")), is_behind=False)
    looks = (
        _LINE,
        Evidence(NOW_MS - 9_000, LogPlace("orders", 0, 100), "open: producer id 7, epoch 3"),
        Evidence(NOW_MS - 6_000, TOPIC, "partition 0 read to its end: no transaction there will end the entry"),
        Evidence(NOW_MS - 3_000, "DescribeProducers, broker 1", "still open"),
        Evidence(NOW_MS - 9_000, "txnscope", f"{why}. Decision: {decision}: {why.decided_by}"),
    )
    fields: dict[str, Any] = {
        "detail": "read_committed consumers stop at 100",
        "severity": Severity.CRITICAL,
        "evidence": looks,
        "decision": decision,
        "bootstrap": BOOTSTRAP if decision in ("none", "abort") else None,
        "reason": why,
    }
    return observed(Kind.HANGING, subject, BLOCKS, "Advice of the judge.", **fields)._replace(**more)


EVERY: Final[dict[str, Observation]] = {
    Kind.HANGING: hanging(),
    Kind.ADOPTED: observed(
        Kind.ADOPTED,
        ORDERS,
        "orders-0: records of pay that begin at offset 100 are older than its present transaction, and will be"
        " committed or aborted with it",
        "Nothing has to be done to end it.",
    ),
    Kind.UNREPLICATED: observed(
        Kind.UNREPLICATED,
        ORDERS,
        "orders-0: the marker of pay for offset 100 is written but not replicated",
        "Nothing is hanging. Bring the replicas of orders-0 back in sync. Do not write another one.",
        detail="read_committed consumers stop at 100",
    ),
    Kind.OVERDUE: observed(
        Kind.OVERDUE,
        _OWN,
        "pay is overdue: its transaction timed out, and the coordinator has not aborted it",
        "Look at its coordinator (broker 1, leader of __transaction_state-0): it is not aborting what timed out.",
        detail="it blocks orders-0",
    ),
    Kind.STUCK_COMPLETION: observed(
        Kind.STUCK_COMPLETION,
        _OWN,
        "pay is stuck in PrepareCommit: the leader of orders-0 has not acknowledged its marker",
        "Bring the leaders of these partitions back, or above min.insync.replicas.",
        evidence=(
            _LINE,
            Evidence(
                NOW_MS, "DescribeTransactions", "no marker yet on orders-0 (leader broker 3), orders-4 (leader none)"
            ),
        ),
    ),
    Kind.LONG_RUNNING: observed(
        Kind.LONG_RUNNING,
        _OWN,
        "pay has been open since 2026-09-21 14:13:30 UTC, within its timeout",
        "Its application has to commit or abort it.",
        detail="read_committed consumers wait behind it on orders-0",
        severity=Severity.INFO,
        self_heals_at_ms=NOW_MS + 48_000,
    ),
    Kind.BLOCKED_GROUP: observed(
        Kind.BLOCKED_GROUP,
        Subject(group="settlement", topic="orders", partition=0),
        "settlement is blocked on orders-0: at offset 100 the hanging transaction of pay stops read_committed"
        " consumers",
        "Restarting the group does not help. Its lag as clients measure it, up to the LSO, may be 0.",
        severity=Severity.CRITICAL,
    ),
    Kind.TIMED_OUT: observed(
        Kind.TIMED_OUT,
        _OWN,
        "pay: its transactions were aborted by the coordinator after transaction.timeout.ms",
        "The records of these transactions are discarded.",
    ),
    Kind.CORRELATED_TIMEOUTS: observed(
        Kind.CORRELATED_TIMEOUTS,
        Subject(),
        "48 ids timed out together from 2026-09-21 14:10:00 UTC on",
        "This is the trace of an outage. To survive such an outage, raise transaction.timeout.ms.",
        detail="broker 2 coordinates them all; a timeout of 2 m would have survived",
    ),
    Kind.FENCING_CONFLICT: observed(
        Kind.FENCING_CONFLICT,
        _OWN,
        "pay: two producers fence each other in turns, or one restarts again and again",
        "Find the second instance and give each its own transactional.id.",
    ),
    Kind.CHURN: observed(
        Kind.CHURN,
        Subject(prefix="job-"),
        "job-: new transactional ids keep coming, as if every start made up its own (job-1 and job-2)",
        "Give each instance a transactional.id that stays the same over restarts.",
    ),
    Kind.EXPIRING: observed(
        Kind.EXPIRING,
        _OWN,
        "pay expires at 2026-09-21 15:13:00 UTC unless it is used before",
        "Any transaction renews it.",
        severity=Severity.INFO,
    ),
    Kind.EXPIRED: observed(
        Kind.EXPIRED,
        _OWN,
        "pay expired: unused for 7 d, removed by the coordinator",
        "A producer that still has it open fails with INVALID_PRODUCER_ID_MAPPING.",
        severity=Severity.INFO,
    ),
    Kind.EPOCH_EXHAUSTION: observed(
        Kind.EPOCH_EXHAUSTION,
        _OWN,
        "pay has used 30,001 of the 32,766 epochs of its producer id",
        "Find out what makes this id start so often.",
    ),
    Kind.COORDINATOR_MISMATCH: observed(
        Kind.COORDINATOR_MISMATCH,
        _OWN,
        "pay: its coordinator (broker 1, leader of __transaction_state-0) does not know it"
        " (TRANSACTIONAL_ID_NOT_FOUND), but the transaction log has Ongoing",
        "The coordinator has loaded its partition only in part.",
        severity=Severity.CRITICAL,
    ),
    Kind.LOG_EXPANDED: observed(
        Kind.LOG_EXPANDED,
        Subject(),
        "the transaction log has 8 partitions now; 3 ids have records in a partition where no coordinator looks for"
        " them",
        "Partitions of __transaction_state cannot be removed. Restart every broker that has not restarted since.",
        detail="1 of them has a transaction open there that no timeout ends",
        severity=Severity.CRITICAL,
        ids=3,
    ),
    Kind.UNDECODABLE: observed(
        Kind.UNDECODABLE,
        Subject(topic=TOPIC, partition=0),
        "__transaction_state-0: the newest record of pay cannot be decoded",
        "An id's state is known again with its next record.",
        detail="the state of these ids is unknown",
    ),
    Kind.DATA_GAP: observed(
        Kind.DATA_GAP,
        Subject(topic=TOPIC, partition=0),
        "__transaction_state-0: a part of the log was gone or had changed before it was read",
        "Reading went on after the gap.",
    ),
    Kind.COVERAGE_GAP: observed(
        Kind.COVERAGE_GAP,
        Subject(topic="hr.payroll"),
        "hr.payroll-0 and hr.payroll-1: the LSO is stalled, and what holds it is not known: no permission to read the"
        " topic",
        "Kafka requires READ on the topic: grant it to txnscope's principal. `txnscope doctor --topics hr.payroll`"
        " prints the command.",
        reason=denied("hr.payroll"),
    ),
    Kind.LOST_RECORDS: observed(
        Kind.LOST_RECORDS,
        ORDERS,
        "orders-0: records of pay among offsets 100 to 119 were committed, and are lost to consumers of committed"
        " records",
        "No marker brings them back. Have the application send again what consumers need.",
        detail="an ABORT marker that no coordinator decided ended them",
        severity=Severity.CRITICAL,
    ),
    Kind.TORN: observed(
        Kind.TORN,
        ORDERS,
        "a transaction of pay was committed, and its part on orders-0 is aborted",
        "No marker puts it together again. Have the application send again what consumers need.",
        severity=Severity.CRITICAL,
    ),
}
