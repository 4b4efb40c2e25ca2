"""Reasons why a transaction hangs, and why the decision about its marker is known or unknown."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from service.domain.reasons.reason import Reason


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
    HangCause.ORPHAN: "an orphan producer id: the transaction log has no transactional.id that had it",
    HangCause.WRITER_UNKNOWN: "its writer is not known",
    HangCause.ID_EXPIRED: "its transactional.id has expired",
    HangCause.NEVER_ADDED: "written without adding the partition to a transaction, or long after the marker of one",
    HangCause.LATE: "written after the marker of its transaction, or without adding the partition to a transaction",
    HangCause.NOT_KNOWN: "why it hangs is not known",
}
# NEVER_ADDED: the leader knows no marker of the id, but leaders forget idle producer ids (producer.id.expiration.ms)
_NOT_THERE: Final = {
    False: "was never written here",
    True: "was never written here, or was lost with a leader",
}
SKIPPING: Final = "4.3.0, 4.3.1 and 4.4.0"
"""Kafka versions whose coordinators were seen to treat a participant without a leader as deleted. A committed
transaction then hangs (KAFKA-20734). No feature level distinguishes these versions from later patch releases."""
_SKIPS: Final = f"; coordinators of Kafka {SKIPPING} skip the marker of a partition without a leader (KAFKA-20734)"
_SKIPPED: Final = {True: _SKIPS, False: "", None: f"{_SKIPS}; it is not known whether these brokers do"}
_MISSING: Final = (HangCause.NO_MARKER, HangCause.NO_MARKER_OR_OUTSIDE)


class HangReason(Reason):
    """Reason why an entry hangs. `log_start`: the log start of the partition; records below it were deleted.
    `may_skip_markers`: the result of `service.domain.releases` for the cluster's brokers. `decided_by`: the reason why
    the coordinator's decision is known or unknown. `is_behind`: an older entry pins the LSO below the start of this
    entry. `leader_changed`: the partition has had another leader since the entry was written."""

    cause: HangCause
    log_start: int
    may_skip_markers: bool | None
    decided_by: Reason
    is_behind: bool
    leader_changed: bool = False
    code = "hangs"

    def __post_init__(self) -> None:
        """Converts `cause` if it is given as text, as in the store. Raises ValueError for a cause that only a later
        version of txnscope knows."""
        object.__setattr__(self, "cause", HangCause(self.cause))

    def __str__(self) -> str:
        text = _TEXTS[self.cause].format(log_start=self.log_start, not_there=_NOT_THERE[self.leader_changed])
        return text + (_SKIPPED[self.may_skip_markers] if self.cause in _MISSING else "")


_DECIDED: Final = {
    "commit": "its transaction was committed, and its marker is missing on the partition",
    "abort": "no committed transaction can have written it: it belongs to an aborted one, or to none",
    "none": "no transaction that this cluster committed can have written it",
}


class Proven(Reason):
    """The decision is known: the proofs leave no other decision. `decision`: the value of a
    `service.domain.worlds.verdict.Decided`, except UNKNOWN."""

    decision: str
    code = "proven"

    def __str__(self) -> str:
        return _DECIDED[self.decision]


class FactsNotRead(Reason):
    """The facts about the entry were not read yet."""

    code = "facts_not_read"
    sentence = "not read yet"


class HasGrown(Reason):
    """A transaction of the id may have written to the entry since the facts were read, or may still write to it."""

    code = "has_grown"
    sentence = "a transaction of its id may have written to it since its facts were read; the facts are read again"


class NoLogAccess(Reason):
    """The decision is unknown because the transaction log cannot be read."""

    code = "no_log_access"
    sentence = "__transaction_state cannot be read, and only this log shows how a transaction ended"


class RecordsGone(Reason):
    """Some of the records [lo, hi) of a partition of the transaction log are gone, not read yet, or undecodable."""

    log_partition: int
    lo: int
    hi: int
    code = "records_gone"
    sentence = (
        "not all records of __transaction_state-{0.log_partition} in [{0.lo}, {0.hi}) could be read: a committed"
        " transaction of the producer id may be among the others"
    )


class SeveralLeft(Reason):
    """The proofs leave several worlds of the entry (`service.domain.worlds.verdict.World`). `committed`, `aborted`:
    whether a transaction with this outcome may have written the entry. `holds_committed`: records of a committed
    transaction are proven to be in the entry, so an ABORT destroys these records."""

    committed: bool
    aborted: bool
    holds_committed: bool = False
    code = "several_left"

    def __str__(self) -> str:
        if self.holds_committed:
            others = "records of an aborted transaction" if self.aborted else "records that belong to no transaction"
            return f"it holds records of a committed transaction, and may also hold {others}"
        if not self.aborted:
            return "it may belong to a committed transaction or to no transaction, and no proof shows which"
        return "it may belong to a committed or to an aborted transaction, and no proof shows which"


class UnlistedWriter(Reason):
    """A transaction that does not list the partition may have written to the entry, behind the entry's first batch.
    `is_committed`: whether that transaction was committed; None while it is open. `holds_committed`: as in
    SeveralLeft."""

    is_committed: bool | None
    holds_committed: bool
    code = "unlisted_writer"

    def __str__(self) -> str:
        outcome = {None: "the present", True: "a committed", False: "an aborted"}[self.is_committed]
        first = "it holds records of a committed transaction; " if self.holds_committed else ""
        return (
            f"{first}{outcome} transaction of its producer id may have written to it, too, without listing the"
            " partition: under TV2 a leader adds a partition only where nothing of that producer id and epoch is open"
        )


class ForeignSign(StrEnum):
    """A fact that shows that no known transactional.id of this cluster wrote the entry."""

    EPOCH = "epoch"
    ORDER = "order"
    OLDER = "older"
    SEQUENCE = "sequence"
    LEADER_EPOCH = "leader_epoch"
    COMMITTED = "committed"


_SIGNS: Final = {
    ForeignSign.EPOCH: "their epoch {0.found} is above {0.limit}, the highest epoch that their producer id had here",
    ForeignSign.ORDER: "they existed before an id got that producer id and epoch here",
    ForeignSign.OLDER: "their timestamps are {0.minutes:,} minutes before an id got that producer id and epoch here",
    ForeignSign.SEQUENCE: "they begin with sequence {0.found}, and a producer begins with 0",
    ForeignSign.LEADER_EPOCH: "they were written under leader epoch {0.found}, and the partition's is only {0.limit}",
}


class ForeignRecords(Reason):
    """No known transactional.id of this cluster wrote the entry. `found`: the value in the records; for COMMITTED, the
    offset of the marker. `limit`: for EPOCH and LEADER_EPOCH, the highest possible value; for SEQUENCE, the only
    possible value; for OLDER, the time at which the id got the producer id and epoch. ORDER uses neither field,
    COMMITTED only `found`."""

    sign: ForeignSign
    found: int
    limit: int
    code = "foreign_records"

    def __post_init__(self) -> None:
        """Converts `sign` if it is given as text, as in the store. Raises ValueError for a sign that only a later
        version of txnscope knows."""
        object.__setattr__(self, "sign", ForeignSign(self.sign))

    @property
    def minutes(self) -> int:
        return (self.limit - self.found) // 60_000

    def __str__(self) -> str:
        if self.sign == ForeignSign.COMMITTED:
            return (
                f"the COMMIT marker at offset {self.found} has the producer id of these records, and no known"
                " transactional.id had that producer id: these records came from another cluster, or from a copy, or"
                " the records of their id are gone from the transaction log, or somebody wrote that marker by hand"
            )
        text = "its records were not written in this cluster, but came from another one, or from a copy"
        return f"{text}: {_SIGNS[self.sign].format(self)}"


class Contradiction(Reason):
    """Two readings exclude each other's decision, so at least one reading is wrong."""

    first: Reason
    now: Reason
    code = "contradiction"
    sentence = "two readings contradict each other: first {0.first}; now {0.now}"
