"""Reasons why a transaction hangs, as far as they are proven."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import ErrorText


class HangCause(StrEnum):
    """Cause of a hang: what happened to the transaction's marker, to its records, or to its producer's id."""

    OUTLIVED = "outlived_its_records"
    NO_MARKER = "no_marker"
    NO_MARKER_OR_OUTSIDE = "no_marker_or_outside"
    NO_LOG = "no_log"
    ORPHAN = "orphan"
    WRITER_UNKNOWN = "writer_unknown"
    ID_EXPIRED = "id_expired"
    NEVER_ADDED = "never_added"
    LATE = "late"
    NOT_KNOWN = "not_known"


_TEXTS: Final = {
    HangCause.OUTLIVED: "its records were deleted up to {log_start}, but the leader still has its producer state",
    HangCause.NO_MARKER: "its marker {not_there}",
    HangCause.NO_MARKER_OR_OUTSIDE: "its marker {not_there}, or its records were written outside of a transaction",
    HangCause.NO_LOG: "why it hangs is not known without the transaction log",
    HangCause.ORPHAN: "an orphan producer id: written without a coordinator",
    HangCause.WRITER_UNKNOWN: "its writer is not known",
    HangCause.ID_EXPIRED: "its transactional.id has expired",
    HangCause.NEVER_ADDED: "written without adding the partition to a transaction, or long after the marker of one",
    HangCause.LATE: "written after the marker of its transaction, or without adding the partition to a transaction",
    HangCause.NOT_KNOWN: "why it hangs is not known",
}
# NEVER_ADDED: the leader knows no marker of the producer id, but it forgets an idle one (producer.id.expiration.ms)
_NOT_THERE: Final = {
    False: "was never written here",
    True: "was never written here, or was lost with a leader",
}
SKIPPING: Final = "4.3.0, 4.3.1 and 4.4.0"
"""KAFKA-20734: the versions whose coordinators were seen to treat a participant without leader as deleted; a committed
transaction then hangs. No feature level tells them from later patch releases."""
_SKIPS: Final = f"; coordinators of Kafka {SKIPPING} skip the marker of a partition without a leader (KAFKA-20734)"
_SKIPPED: Final = {True: _SKIPS, False: "", None: f"{_SKIPS}; whether these do is not known"}
_MISSING: Final = (HangCause.NO_MARKER, HangCause.NO_MARKER_OR_OUTSIDE)


@dataclass(frozen=True)
class HangReason(Reason):
    """Reason why an entry hangs. `log_start`: up to where records were deleted. `may_skip_markers`: from
    `service.domain.releases`, for the brokers of the cluster. `decided_by`: how the coordinator's decision about its
    transaction is known. `is_behind`: an older entry still pins the LSO below this one. `leader_changed`: the
    partition has had another leader since."""

    cause: HangCause
    log_start: int
    may_skip_markers: bool | None
    decided_by: Reason
    is_behind: bool
    leader_changed: bool = False
    code = "hangs"

    def __post_init__(self) -> None:
        """Also takes a cause, and the reason for a decision, as text: earlier versions stored them so. Raises
        ValueError for a cause that only a later version knows."""
        object.__setattr__(self, "cause", HangCause(self.cause))
        if isinstance(self.decided_by, str):
            object.__setattr__(self, "decided_by", ErrorText(self.decided_by))

    def __str__(self) -> str:
        text = _TEXTS[self.cause].format(log_start=self.log_start, not_there=_NOT_THERE[self.leader_changed])
        return text + (_SKIPPED[self.may_skip_markers] if self.cause in _MISSING else "")
