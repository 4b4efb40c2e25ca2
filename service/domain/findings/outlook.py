"""The outlook of a problem: whether an open transaction or a finding ends, what ends it, and when."""

from __future__ import annotations

from enum import Enum, StrEnum, auto
from typing import Final, NamedTuple

from service.domain.partitions.open_entries import Relation, RelationKind
from service.domain.reasons.hanging import SKIPPING
from service.domain.transaction_log.deadlines import abort_due_at_ms, times_out_at_ms
from service.domain.transaction_log.known_log import Limits
from service.domain.transaction_log.states import TWO_PHASE_TIMEOUT_MS, is_time


class Ends(Enum):
    """The way in which findings of a kind end."""

    WITH_CONDITION = auto()
    """The finding is about a condition, and ends in the round that does not observe the condition any more."""
    QUIET = auto()
    """The finding is about an event, and ends when the event has not happened again for 15 minutes."""
    ACKNOWLEDGED = auto()
    """The finding is about an event that cannot be undone, and ends when somebody acknowledges it."""


ENDS_WITH: Final = {
    Ends.WITH_CONDITION: "",
    Ends.QUIET: "this finding to resolve when the event has not happened again for 15 minutes.",
    Ends.ACKNOWLEDGED: "this finding to resolve when you acknowledge it, and not before.",
}


class Heals(StrEnum):
    """The way in which a problem ends, if it ends at all."""

    NO = "no"
    WHEN = "when"
    """The problem ends when one particular event occurs, such as the return of a leader."""
    SELF = "self"
    NOW = "now"
    """The problem ends only if somebody acts now."""
    UNKNOWN = "unknown"


class Outlook(NamedTuple):
    """A short statement on whether and when a problem ends. `order`: the sort key; problems that do not heal come
    first. `icon`: the name of the icon to draw. `at_ms`: the time to count down to; `latest_ms`: the time by which the
    problem ends at the latest. `brief`: a form of `text` that follows a subject, such as "hangs"; if `at_ms` is given,
    the page appends the time left."""

    order: int
    heals: Heals
    icon: str
    text: str
    at_ms: int | None = None
    more: str = ""
    latest_ms: int | None = None
    brief: str = ""


HANGS: Final = Outlook(0, Heals.NO, "critical", "no coordinator is set to end it", brief="hangs")
OF_UNKNOWN: Final = Outlook(3, Heals.UNKNOWN, "unknown", "unknown", brief="cannot be judged")


def outlook_of(relation: Relation, limits: Limits, leader: int = -1) -> Outlook:
    """Returns the outlook of an open entry. `limits`: the limits of the brokers, which check for timed-out transactions
    every `scan_ms`. `leader`: the broker that leads the entry's partition; -1 if there is none, or if it is not
    known."""
    owner = relation.owner
    if relation.kind == RelationKind.HANGING:
        return HANGS
    if relation.kind == RelationKind.COMPLETING:
        text = f"heals when broker {leader} acknowledges" if leader >= 0 else "waits for its leader"
        more = "its coordinator retries, unless the marker was refused"
        if leader < 0:
            more += f"; Kafka {SKIPPING} may skip the partition, which then hangs"
        return Outlook(1, Heals.WHEN, "completing", text, more=more, brief=text)
    if relation.kind == RelationKind.UNREPLICATED_MARKER:
        when = "when the replicas catch up"
        more = "the leader has the marker already"
        return Outlook(1, Heals.WHEN, "completing", f"heals {when}", more=more, brief=f"heals {when}")
    if relation.kind == RelationKind.ADOPTED:
        text = "ends with the id's present transaction"
        return Outlook(2, Heals.SELF, "clock", text, more="its marker decides about these records, too", brief=text)
    if relation.kind == RelationKind.OVERDUE:
        text = "overdue, not aborted by its coordinator"
        return Outlook(
            1, Heals.NOW, "warning", text, more="its coordinator should have aborted it by now", brief="is overdue"
        )
    if relation.kind == RelationKind.OPEN and owner is not None:
        times_out_ms = times_out_at_ms(owner.state, owner.record.start_ms, owner.record.timeout_ms)
        if owner.record.timeout_ms != TWO_PHASE_TIMEOUT_MS and not is_time(times_out_ms):
            return OF_UNKNOWN._replace(more="its start time is not valid")
        if times_out_ms is None:
            text = "no timeout: ends when its application ends it"
            return Outlook(1, Heals.WHEN, "open", text, more="two-phase commit", brief="has no timeout")
        due_ms = abort_due_at_ms(owner.state, owner.record.start_ms, owner.record.timeout_ms, limits.scan_ms)
        more = "its records are then discarded"
        return Outlook(4, Heals.SELF, "clock", "aborts itself", times_out_ms, more, due_ms, "frees itself")
    return OF_UNKNOWN._replace(more=str(relation.why or ""))
