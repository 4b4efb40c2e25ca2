"""The descriptions of the kinds of findings. A new kind needs a member of `Kind`, an entry here, a rule that observes
it, its facts with their words, and a runbook if it has an alert."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from service.domain.findings.adopted import AdoptedFacts, UnreplicatedFacts
from service.domain.findings.advice import LongRunningFacts, OverdueFacts, StuckFacts
from service.domain.findings.blocked_group import BlockedGroupFacts, CommitsUnreadFacts, GroupUnreadFacts
from service.domain.findings.churn import ChurnFacts
from service.domain.findings.fencing import FencingFacts
from service.domain.findings.finding import Facts
from service.domain.findings.hanging import HangingFacts
from service.domain.findings.ids_running_out import EpochFacts, ExpiredFacts, ExpiringFacts
from service.domain.findings.kinds import Kind, Resolution, Severity, Status
from service.domain.findings.log_expanded import LogExpandedFacts
from service.domain.findings.lost_records import LostRecordsFacts
from service.domain.findings.mismatch import MismatchFacts
from service.domain.findings.outlook import ENDS_WITH, HANGS, Ends, Heals, Outlook
from service.domain.findings.timed_out import CorrelatedFacts, TimedOutFacts
from service.domain.findings.torn import TornFacts
from service.domain.findings.unreadable import DataGapFacts, SourceUnreadFacts, TopicUnreadFacts, UndecodableFacts
from service.domain.partitions.open_entries import RelationKind
from service.domain.transaction_log.causes import CauseCode


class SeenOn(Enum):
    """The page that shows more about a finding than the finding's own page."""

    ID = auto()
    PREFIX = auto()
    EXPIRING = auto()
    PIPELINE = auto()
    PARTITION = auto()


@dataclass(frozen=True, slots=True)
class Entry:
    """The description of a kind of finding.

    - `word`: its name in lists. `facts`: the types of its facts, each with its words. `severities`: the severities that
      its findings can have.
    - `outlook`: if and when the problem heals, and what heals it. `expect`: the visible effect on a condition once the
      advice was followed; "" if nothing can be seen. `no_help`: what does not help.
    - `alert`: the name of the alert that fires for such a finding, and of its runbook; None if there is no alert.
    - `is_checked_twice`: True if each finding needs a second observation before it is confirmed.
    - `ended_by`: the resolution of a finding that a round does not observe any more.
    - `reports`: the relation of the open entries that the kind reports. `counts`: the cause of the events that the kind
      counts.
    - `is_about_entry`: True if each finding is about one open entry; False if about an id, a prefix, or something else.
    """

    word: str
    facts: tuple[type[Facts], ...]
    severities: tuple[Severity, ...]
    outlook: Outlook
    expect: str = ""
    no_help: tuple[str, ...] = ()
    alert: str | None = None
    ends: Ends = Ends.WITH_CONDITION
    seen_on: SeenOn | None = None
    is_checked_twice: bool = False
    ended_by: Resolution = Resolution.HEALED
    reports: RelationKind | None = None
    counts: CauseCode | None = None
    is_about_entry: bool = False

    @property
    def follows(self) -> str:
        """Returns the effect that an operator sees after following the advice. For a condition, this is `expect`, which
        is "" if nothing can be seen. For an event, this is the way in which its finding ends."""
        return self.expect or ENDS_WITH[self.ends]


_CRITICAL: Final = (Severity.CRITICAL,)
_WARNING: Final = (Severity.WARNING,)
_INFO: Final = (Severity.INFO,)
_GROWS: Final = (Severity.WARNING, Severity.CRITICAL)

_OVER: Final = Outlook(5, Heals.SELF, "info", "is over", more="listed until 15 minutes pass without another one")
_STAYS: Final = Outlook(0, Heals.NO, "critical", "stays until acknowledged", more="lost records do not come back")

CATALOGUE: Final[dict[Kind, Entry]] = {
    Kind.HANGING: Entry(
        "hanging",
        (HangingFacts,),
        _CRITICAL,
        HANGS,
        alert="KafkaTransactionHanging",
        is_checked_twice=True,
        reports=RelationKind.HANGING,
        is_about_entry=True,
    ),
    Kind.ADOPTED: Entry(
        "adopted records",
        (AdoptedFacts,),
        _GROWS,
        Outlook(2, Heals.SELF, "clock", "ends with the id's present transaction"),
        expect="this finding to resolve when the present transaction ends.",
        no_help=("A marker by hand: it would split the present transaction.",),
        seen_on=SeenOn.ID,
        ended_by=Resolution.COORDINATOR_MARKER,
        reports=RelationKind.ADOPTED,
        is_about_entry=True,
    ),
    Kind.UNREPLICATED: Entry(
        "marker not replicated",
        (UnreplicatedFacts,),
        _GROWS,
        Outlook(1, Heals.WHEN, "completing", "heals when the replicas catch up"),
        expect="the LSO to move on as soon as the replicas have the marker.",
        no_help=(
            "Another marker: the leader has one already.",
            "Restarting the application: its transaction is decided.",
        ),
        alert="KafkaTransactionMarkerUnreplicated",
        reports=RelationKind.UNREPLICATED_MARKER,
        is_about_entry=True,
    ),
    Kind.STUCK_COMPLETION: Entry(
        "stuck completion",
        (StuckFacts,),
        _GROWS,
        Outlook(1, Heals.WHEN, "completing", "ends when its coordinator completes it"),
        expect="CompleteX in the transaction log as soon as the last leader has acknowledged its marker.",
        no_help=(
            "Waiting for the timeout: a decided transaction has none.",
            "Restarting the application: it gets CONCURRENT_TRANSACTIONS until the transaction is complete.",
            "`kafka-transactions.sh abort`: if the transaction was committed, this command destroys records of it.",
        ),
        alert="KafkaTransactionPrepareStuck",
        seen_on=SeenOn.ID,
        ended_by=Resolution.COORDINATOR_MARKER,
        reports=RelationKind.COMPLETING,
    ),
    Kind.OVERDUE: Entry(
        "overdue",
        (OverdueFacts,),
        _GROWS,
        Outlook(1, Heals.NOW, "warning", "ends when its coordinator aborts it"),
        expect=(
            "the coordinator to abort the transaction at its next scan once the coordinator works: the records are"
            " discarded, and the LSO can move on."
        ),
        no_help=(
            "Waiting for the timeout: it has passed.",
            "Restarting the application before its coordinator works again.",
        ),
        alert="KafkaTransactionOverdue",
        seen_on=SeenOn.ID,
        reports=RelationKind.OVERDUE,
    ),
    Kind.LONG_RUNNING: Entry(
        "long-running",
        (LongRunningFacts,),
        (Severity.INFO, Severity.WARNING),
        Outlook(1, Heals.WHEN, "open", "its application or a timeout ends it"),
        expect="the LSO to move on when the transaction ends, and this finding to resolve within seconds.",
        no_help=(
            "Restarting the blocked consumers.",
            "`kafka-transactions.sh abort`: the coordinator owns the transaction, and a marker by hand would split it.",
            "Fencing the id (a start, `forceTerminateTransaction`), if the records are needed: a fence discards them.",
        ),
        alert="KafkaLastStableOffsetStuck",
        seen_on=SeenOn.ID,
        reports=RelationKind.OPEN,
    ),
    Kind.BLOCKED_GROUP: Entry(
        "blocked group",
        (BlockedGroupFacts,),
        tuple(Severity),
        Outlook(3, Heals.WHEN, "completing", "can go on when that transaction ends"),
        expect="the group to read on when the transaction has ended.",
        no_help=("Resetting the group's offsets beyond the LSO: records that may yet be committed would be skipped.",),
        alert="KafkaConsumerGroupBlocked",
        seen_on=SeenOn.PARTITION,
    ),
    Kind.TIMED_OUT: Entry(
        "timed out",
        (TimedOutFacts,),
        _WARNING,
        _OVER,
        no_help=("Restarting consumers: the records are discarded.",),
        ends=Ends.QUIET,
        seen_on=SeenOn.ID,
        counts=CauseCode.TIMEOUT,
    ),
    Kind.CORRELATED_TIMEOUTS: Entry(
        "correlated timeouts",
        (CorrelatedFacts,),
        _WARNING,
        _OVER,
        alert="KafkaTransactionsTimedOutTogether",
        ends=Ends.QUIET,
        seen_on=SeenOn.PREFIX,
    ),
    Kind.FENCING_CONFLICT: Entry(
        "fencing conflict",
        (FencingFacts,),
        _WARNING,
        Outlook(0, Heals.NOW, "critical", "goes on as long as its cause", more="look for a second producer"),
        no_help=("Raising a timeout: each start fences the previous producer, whatever the timeout.",),
        alert="KafkaTransactionFencingStorm",
        ends=Ends.QUIET,
        seen_on=SeenOn.ID,
        counts=CauseCode.FENCED,
    ),
    Kind.CHURN: Entry(
        "churn of ids",
        (ChurnFacts,),
        (Severity.INFO, Severity.WARNING),
        Outlook(0, Heals.NOW, "warning", "goes on as long as its cause", more="give each instance a stable id"),
        no_help=("A shorter transactional.id.expiration.ms: transactions left open still wait for their timeout.",),
        alert="KafkaProducerIdChurn",
        ends=Ends.QUIET,
        seen_on=SeenOn.PREFIX,
        counts=CauseCode.INITIALIZED,
    ),
    Kind.EXPIRING: Entry(
        "expiring id",
        (ExpiringFacts,),
        _INFO,
        Outlook(4, Heals.SELF, "clock", "any use renews it", more="else it expires"),
        expect="this finding to resolve with the next transaction of the id.",
        alert="KafkaTransactionalIdsExpiring",
        seen_on=SeenOn.EXPIRING,
    ),
    Kind.EXPIRED: Entry(
        "expired id",
        (ExpiredFacts,),
        _INFO,
        _OVER._replace(more="a producer that still uses the id has to be started again"),
        ends=Ends.QUIET,
        seen_on=SeenOn.ID,
        counts=CauseCode.EXPIRY,
    ),
    Kind.EPOCH_EXHAUSTION: Entry(
        "epochs running out",
        (EpochFacts,),
        _WARNING,
        Outlook(4, Heals.SELF, "clock", "a start after the last epoch gets a new producer id"),
        alert="KafkaProducerEpochNearExhaustion",
        seen_on=SeenOn.ID,
    ),
    Kind.COORDINATOR_MISMATCH: Entry(
        "coordinator mismatch",
        (MismatchFacts,),
        _CRITICAL,
        Outlook(0, Heals.NO, "critical", "will not heal by itself"),
        expect="this finding to resolve when the coordinator and the transaction log agree again.",
        no_help=(
            "Restarting the application, if its coordinator does not know the transaction: the coordinator then cannot"
            " end it.",
        ),
        alert="KafkaCoordinatorMismatch",
        seen_on=SeenOn.ID,
        is_checked_twice=True,
    ),
    Kind.LOG_EXPANDED: Entry(
        "transaction log expanded",
        (LogExpandedFacts,),
        _CRITICAL,
        Outlook(0, Heals.NO, "critical", "will not heal by itself", more="idle ids expire; open transactions stay"),
        expect="each hanging transaction to be reported with its marker, and the number of ids to fall as they expire.",
        no_help=(
            "Waiting for the timeout, once all brokers have restarted: no coordinator then finds the transactions.",
            "Restarting the application: the id gets a new producer id, and the open transaction stays open.",
            "Adding more partitions: the ids then hash to other partitions again.",
        ),
        alert="KafkaTransactionLogExpanded",
    ),
    Kind.UNDECODABLE: Entry(
        "undecodable record",
        (UndecodableFacts,),
        _WARNING,
        Outlook(4, Heals.SELF, "clock", "heals with the next record of the id"),
        expect="each id to be known again from its next record on.",
        alert="KafkaTxnDecodeErrors",
        seen_on=SeenOn.PIPELINE,
    ),
    Kind.DATA_GAP: Entry(
        "data gap",
        (DataGapFacts,),
        _WARNING,
        _OVER,
        no_help=("Restarting txnscope: records that are gone cannot be read again.",),
        alert="KafkaTxnDataGap",
        ends=Ends.QUIET,
        seen_on=SeenOn.PIPELINE,
    ),
    Kind.COVERAGE_GAP: Entry(
        "coverage gap",
        (SourceUnreadFacts, TopicUnreadFacts, GroupUnreadFacts, CommitsUnreadFacts),
        _WARNING,
        Outlook(3, Heals.UNKNOWN, "unknown", "unknown until the data can be read"),
        expect="verdicts to return within seconds once the data can be read.",
        alert="KafkaTxnCoverageGap",
        seen_on=SeenOn.PIPELINE,
    ),
    Kind.LOST_RECORDS: Entry(
        "lost records",
        (LostRecordsFacts,),
        _CRITICAL,
        _STAYS,
        no_help=(
            "A COMMIT marker: an ABORT marker has decided about these records, and a later marker does not change"
            " that.",
        ),
        alert="KafkaTransactionLostRecords",
        ends=Ends.ACKNOWLEDGED,
        seen_on=SeenOn.ID,
    ),
    Kind.TORN: Entry(
        "torn transaction",
        (TornFacts,),
        _CRITICAL,
        _STAYS,
        no_help=("Another marker: each part is decided, and a later marker does not change that.",),
        alert="KafkaTransactionTorn",
        ends=Ends.ACKNOWLEDGED,
        seen_on=SeenOn.ID,
    ),
}

EVENTS: Final = frozenset(kind for kind, entry in CATALOGUE.items() if entry.ends is not Ends.WITH_CONDITION)
"""Kinds of findings about events. All other kinds are about conditions."""

UNTIL_ACKNOWLEDGED: Final = frozenset(kind for kind, entry in CATALOGUE.items() if entry.ends is Ends.ACKNOWLEDGED)
"""Kinds of events whose findings stay open until somebody acknowledges them."""

REPORTING: Final = {entry.reports: kind for kind, entry in CATALOGUE.items() if entry.reports is not None}
"""For each relation of an open entry, the kind of finding that reports entries with this relation."""

COUNTING: Final = {entry.counts: kind for kind, entry in CATALOGUE.items() if entry.counts is not None}
"""For each cause, the kind of finding that counts events with this cause."""


def alert_of(kind: Kind) -> str:
    """Returns the name of the kind's alert. Raises ValueError if the kind has none."""
    alert = CATALOGUE[kind].alert
    if alert is None:
        raise ValueError(f"{kind} has no alert")
    return alert


def statuses_of(kind: Kind) -> tuple[Status, ...]:
    """Returns the statuses that a finding of that kind can have."""
    return tuple(Status) if CATALOGUE[kind].is_checked_twice else (Status.CONFIRMED, Status.RESOLVED)
