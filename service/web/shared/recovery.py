"""Recovery in the words of the pages: what ends an open transaction, when, and if it ends at all."""

from __future__ import annotations

from typing import Final, NamedTuple

from service.domain.findings.context import Limits
from service.domain.partitions.facts import EPOCH_NOT_REPORTED
from service.domain.partitions.open_entries import Relation, RelationKind
from service.domain.transaction_log.states import TWO_PHASE_TIMEOUT_MS, abort_due_at_ms, is_time, times_out_at_ms

NO, WHEN, SELF, NOW, UNKNOWN = "no", "when", "self", "now", "unknown"


class Heal(NamedTuple):
    """The outlook of a problem: if and when it heals. `order`: sorts, so that what does not heal comes first. `tone`,
    `icon`: of the drawing. `at_ms`: time to count down to; `latest_ms`: the latest time. `brief`: the same as `text`,
    but to follow a subject, "payments-7 hangs"; with `at_ms` the time left follows."""

    order: int
    tone: str
    icon: str
    text: str
    at_ms: int | None = None
    more: str = ""
    latest_ms: int | None = None
    brief: str = ""


HANGS: Final = Heal(0, NO, "critical", "will not heal by itself", brief="hangs")
OF_UNKNOWN: Final = Heal(3, UNKNOWN, "unknown", "unknown", brief="cannot be judged")


def heal_of(relation: Relation, limits: Limits, leader: int = EPOCH_NOT_REPORTED) -> Heal:
    """Returns the outlook of an open entry. `limits`: of the brokers, which check for timed-out transactions every
    `scan_ms`. `leader`: of the partition."""
    owner = relation.owner
    if relation.kind == RelationKind.HANGING:
        return HANGS
    if relation.kind == RelationKind.COMPLETING:
        when = f"when broker {leader} acknowledges" if leader >= 0 else "when its leader is back"
        return Heal(
            1, WHEN, "completing", f"heals {when}", more="its coordinator retries without limit", brief=f"heals {when}"
        )
    if relation.kind == RelationKind.UNREPLICATED_MARKER:
        when = "when the replicas catch up"
        more = "the leader has the marker already"
        return Heal(1, WHEN, "completing", f"heals {when}", more=more, brief=f"heals {when}")
    if relation.kind == RelationKind.ADOPTED:
        text = "ends with the id's present transaction"
        return Heal(2, SELF, "clock", text, more="its marker decides about these records, too", brief=text)
    if relation.kind == RelationKind.OVERDUE:
        text = "overdue, not aborted by its coordinator"
        return Heal(1, NOW, "warning", text, more="its coordinator should have aborted it by now", brief="is overdue")
    if relation.kind == RelationKind.OPEN and owner is not None:
        times_out_ms = times_out_at_ms(owner.state, owner.start_ms, owner.timeout_ms)
        if owner.timeout_ms != TWO_PHASE_TIMEOUT_MS and not is_time(times_out_ms):
            return OF_UNKNOWN._replace(more="its start time is not valid")
        if times_out_ms is None:
            text = "no timeout: ends when its application ends it"
            return Heal(1, WHEN, "open", text, more="two-phase commit", brief="has no timeout")
        due_ms = abort_due_at_ms(owner.state, owner.start_ms, owner.timeout_ms, limits.scan_ms)
        more = "its records are then discarded"
        return Heal(4, SELF, "clock", "aborts itself", times_out_ms, more, due_ms, "frees itself")
    return OF_UNKNOWN._replace(more=str(relation.why or ""))
