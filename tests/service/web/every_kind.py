"""One observation for each kind of finding, with evidence as the judge writes it."""

from __future__ import annotations

from typing import Any, Final

from service.domain.findings.catalogue import EVENTS
from service.domain.findings.finding import Evidence, Observation, Occurrence, Subject
from service.domain.findings.formatting import partitions_of
from service.domain.findings.kinds import Kind, Severity
from service.domain.findings.unreadable import TopicUnreadFacts
from service.domain.partitions.facts import LogPlace
from service.domain.reasons.hanging import HangCause, HangReason
from service.domain.reasons.unread import ErrorText
from service.domain.transaction_log.states import TOPIC
from tests.helpers.findings import finding_facts
from tests.helpers.partitions import LSO, PID
from tests.helpers.reasons import denied
from tests.helpers.stores import NOW_MS

ORDERS: Final = Subject("orders", 0, b"pay", PID, 3, LSO)
BOOTSTRAP: Final = "broker-1:9092"
ABORT: Final = (
    f"kafka-transactions.sh --bootstrap-server {BOOTSTRAP} abort --topic orders --partition 0 --start-offset 100"
)
_OWN: Final = Subject(transactional_id=b"pay")
_LINE: Final = Evidence(
    NOW_MS - 1_000, LogPlace(TOPIC, 0, 7), "newest record of pay: CompleteAbort, producer id 7, epoch 3"
)


def observed(kind: Kind, subject: Subject, **more: Any) -> Observation:
    occurrences = tuple(Occurrence(n, NOW_MS - n) for n in range(3)) if kind in EVENTS else ()
    found = Observation(kind, Severity.WARNING, subject, finding_facts(kind), (_LINE,), occurrences=occurrences)
    return found._replace(**more)


def hanging(decision: str = "none", subject: Subject = ORDERS, **more: Any) -> Observation:
    """Returns an observation of a hanging transaction like those that `service.domain.findings.hanging.observe`
    returns."""
    cause = {"none": HangCause.LATE, "unknown": HangCause.NO_LOG}.get(decision, HangCause.NO_MARKER)
    decided_by = {
        "unknown": "the transaction log may not be read",
        "commit": "it listed the partition and was committed",
    }
    why = HangReason(
        cause,
        0,
        False,
        ErrorText(decided_by.get(decision, "no committed transaction listed the partition")),
        is_behind=False,
    )
    looks = (
        _LINE,
        Evidence(NOW_MS - 9_000, LogPlace("orders", 0, 100), "open: producer id 7, epoch 3"),
        Evidence(NOW_MS - 6_000, TOPIC, "partition 0 read to its end: no open transaction there ends the entry"),
        Evidence(NOW_MS - 3_000, "DescribeProducers, broker 1", "the entry is still open"),
        Evidence(NOW_MS - 9_000, "txnscope", f"{why}. Decision: {decision}: {why.decided_by}"),
    )
    fields: dict[str, Any] = {
        "severity": Severity.CRITICAL,
        "evidence": looks,
        "decision": decision,
        "bootstrap": BOOTSTRAP if decision in ("none", "abort") else None,
        "reason": why,
    }
    return observed(Kind.HANGING, subject, **fields)._replace(**more)


_GROUP: Final = Subject(group="settlement", topic="orders", partition=0)
_LOG: Final = Subject(topic=TOPIC, partition=0)
_MISSING: Final = "no marker yet on orders-0 (leader broker 3), orders-4 (leader none)"

EVERY: Final[dict[str, Observation]] = {
    Kind.HANGING: hanging(),
    Kind.ADOPTED: observed(Kind.ADOPTED, ORDERS),
    Kind.UNREPLICATED: observed(Kind.UNREPLICATED, ORDERS),
    Kind.OVERDUE: observed(Kind.OVERDUE, _OWN),
    Kind.STUCK_COMPLETION: observed(
        Kind.STUCK_COMPLETION, _OWN, evidence=(_LINE, Evidence(NOW_MS, "DescribeTransactions", _MISSING))
    ),
    Kind.LONG_RUNNING: observed(Kind.LONG_RUNNING, _OWN, severity=Severity.INFO, self_heals_at_ms=NOW_MS + 48_000),
    Kind.BLOCKED_GROUP: observed(Kind.BLOCKED_GROUP, _GROUP, severity=Severity.CRITICAL),
    Kind.TIMED_OUT: observed(Kind.TIMED_OUT, _OWN),
    Kind.CORRELATED_TIMEOUTS: observed(Kind.CORRELATED_TIMEOUTS, Subject()),
    Kind.FENCING_CONFLICT: observed(Kind.FENCING_CONFLICT, _OWN),
    Kind.CHURN: observed(Kind.CHURN, Subject(prefix="job-")),
    Kind.EXPIRING: observed(Kind.EXPIRING, _OWN, severity=Severity.INFO),
    Kind.EXPIRED: observed(Kind.EXPIRED, _OWN, severity=Severity.INFO),
    Kind.EPOCH_EXHAUSTION: observed(Kind.EPOCH_EXHAUSTION, _OWN),
    Kind.COORDINATOR_MISMATCH: observed(Kind.COORDINATOR_MISMATCH, _OWN, severity=Severity.CRITICAL),
    Kind.LOG_EXPANDED: observed(Kind.LOG_EXPANDED, Subject(), severity=Severity.CRITICAL, ids=3),
    Kind.UNDECODABLE: observed(Kind.UNDECODABLE, _LOG),
    Kind.DATA_GAP: observed(Kind.DATA_GAP, _LOG),
    Kind.COVERAGE_GAP: observed(
        Kind.COVERAGE_GAP,
        Subject(topic="hr.payroll"),
        facts=TopicUnreadFacts("hr.payroll", partitions_of([("hr.payroll", 0), ("hr.payroll", 1)])),
        reason=denied("hr.payroll"),
    ),
    Kind.LOST_RECORDS: observed(Kind.LOST_RECORDS, ORDERS, severity=Severity.CRITICAL),
    Kind.TORN: observed(Kind.TORN, ORDERS, severity=Severity.CRITICAL),
}
