"""Builds the plan for a finding: steps, the permission that is missing, what it costs, and what does not help."""

from __future__ import annotations

from typing import Final, NamedTuple

from service.domain.findings import kinds
from service.domain.findings.finding import Finding
from service.domain.findings.kinds import Kind, Severity, Status
from service.domain.worlds.verdict import Decided
from service.web.findings.headline import cause_of, who_of
from service.web.shared import addresses


class Step(NamedTuple):
    """A step of the plan. `head`: what to do; `command`: to be pasted as it is; `href`, `link`: a page to see."""

    head: str
    text: str
    command: str | None = None
    href: str | None = None
    link: str = ""


class GrantLines(NamedTuple):
    """A permission that is missing, and the lines for kafka-acls.sh that give it."""

    what: str
    lines: tuple[str, ...]


class Plan(NamedTuple):
    """The plan for a finding. `needs`: the permission that is required; `warning`: shown before all else."""

    steps: tuple[Step, ...]
    needs: str = ""
    cost: str = ""
    no_help: tuple[str, ...] = ()
    warning: str = ""


_NO_HELP: Final = {
    Kind.ADOPTED: ("A marker by hand: it would split the present transaction.",),
    Kind.UNREPLICATED: (
        "Another marker: the leader has one already.",
        "Restarting the application: its transaction has ended.",
    ),
    Kind.OVERDUE: (
        "Waiting for the timeout: it has passed.",
        "Restarting the application, before its coordinator works.",
    ),
    Kind.STUCK_COMPLETION: (
        "Waiting for the timeout: a decided transaction has none.",
        "Restarting the application: it gets CONCURRENT_TRANSACTIONS until this is complete.",
        "`kafka-transactions.sh abort`: its outcome is decided, and its coordinator still sends the markers.",
    ),
    Kind.LONG_RUNNING: (
        "Restarting the blocked consumers.",
        "`kafka-transactions.sh abort`: its coordinator owns it, and a marker by hand would split it.",
        "Fencing it (a start with its id, `forceTerminateTransaction`), if its records are needed: it aborts them.",
    ),
    Kind.BLOCKED_GROUP: ("Restarting the group, or resetting its offsets beyond the LSO: records would be skipped.",),
    Kind.TIMED_OUT: ("Restarting consumers: nothing is blocked any more, the records are discarded.",),
    Kind.FENCING_CONFLICT: ("Raising a timeout: each start fences the one before, whatever its timeout.",),
    Kind.CHURN: ("A shorter transactional.id.expiration.ms: transactions left open still wait for their timeout.",),
    Kind.COORDINATOR_MISMATCH: (
        "Restarting the application: a coordinator that does not know its transaction cannot end it.",
    ),
    Kind.LOST_RECORDS: (
        "A COMMIT marker: an ABORT marker has decided about these records, and a later one does not change that.",
    ),
    Kind.TORN: ("Another marker: each part is decided, and a later marker does not change that.",),
    Kind.LOG_EXPANDED: (
        "Waiting for the timeout: no coordinator finds what is open there.",
        "Restarting the application: the id gets a new producer id, and what was open stays open.",
        "Adding more partitions: the ids move again.",
    ),
    Kind.DATA_GAP: ("Restarting txnscope: records that are gone cannot be read again.",),
}

_EXPECT: Final = {
    Kind.ADOPTED: "this finding to resolve when the present transaction ends.",
    Kind.UNREPLICATED: "the LSO to move on as soon as the replicas have the marker.",
    Kind.OVERDUE: "its coordinator to abort it within 10 s once it works: its records are discarded, and the LSO moves"
    " on.",
    Kind.STUCK_COMPLETION: "Complete in the transaction log as soon as the last leader has acknowledged.",
    Kind.LONG_RUNNING: "the LSO to move on when it ends, and this finding to resolve within seconds.",
    Kind.BLOCKED_GROUP: "the group to read on as soon as the LSO moves.",
    Kind.COORDINATOR_MISMATCH: "this finding to resolve when the coordinator and the transaction log agree again.",
    Kind.LOG_EXPANDED: "what hangs to be named with its marker, and the number of ids to fall as they expire.",
    Kind.COVERAGE_GAP: "verdicts to return within seconds once it can be read.",
    Kind.EXPIRING: "this finding to resolve with the next transaction of the id.",
    Kind.UNDECODABLE: "each id to be known again from its next record on.",
    Kind.LOST_RECORDS: "this finding to resolve when you acknowledge it, and not before.",
    Kind.TORN: "this finding to resolve when you acknowledge it, and not before.",
}
_QUIET: Final = "this finding to resolve when it has not happened again for 15 minutes."

_IDS: Final = frozenset(
    {
        Kind.OVERDUE,
        Kind.STUCK_COMPLETION,
        Kind.LONG_RUNNING,
        Kind.TIMED_OUT,
        Kind.FENCING_CONFLICT,
        Kind.EXPIRED,
        Kind.EPOCH_EXHAUSTION,
        Kind.COORDINATOR_MISMATCH,
        Kind.ADOPTED,
        Kind.LOST_RECORDS,
        Kind.TORN,
    }
)


def plan_of(finding: Finding, cluster: str, grant: GrantLines | None = None, *, can_resolve: bool = False) -> Plan:
    """Returns the plan for an open finding. `grant`: the permission that is missing; `can_resolve`: there are operators
    with keys."""
    if finding.kind == Kind.HANGING:
        return plan_of_hanging(finding, can_resolve=can_resolve)
    look = _look(finding, cluster)
    act = [Step("Do this.", finding.advice)] if grant is None else _give(finding, grant)
    expect = Step("Then expect", _EXPECT.get(finding.kind, _QUIET if finding.kind in kinds.EVENTS else ""))
    steps = tuple(step for step in (look, *act, expect) if step is not None and step.text)
    has_trouble = finding.kind != Kind.CHURN or finding.severity != Severity.INFO
    return Plan(steps, no_help=_NO_HELP.get(finding.kind, ()) if has_trouble else ())


def _give(finding: Finding, grant: GrantLines) -> list[Step]:
    text = "Fill in that principal. " if grant.lines else ""
    first, *others = grant.lines or (None,)
    return [
        Step(f"Grant {grant.what}", f"to txnscope's principal. {text}{finding.advice}", first),
        *(Step("And", "this:", line) for line in others),
    ]


def _look(finding: Finding, cluster: str) -> Step | None:
    """Returns the step that links to the page with more about the finding; None if there is no such page."""
    subject = finding.subject
    missing = next((e.text for e in finding.evidence if e.source == "DescribeTransactions"), None)
    if finding.kind == Kind.STUCK_COMPLETION and missing is not None:
        href = addresses.transaction_page(cluster, subject.transactional_id or b"")
        return Step("Missing:", f"{missing}.", href=href, link="the id's timeline")
    if finding.kind in _IDS and subject.transactional_id is not None:
        href = addresses.transaction_page(cluster, subject.transactional_id)
        return Step(
            "Look at the id:", "what ended each transaction, when and why, is on", href=href, link="its timeline"
        )
    if subject.prefix is not None:
        href = addresses.page_of(cluster, "transactions", prefix=subject.prefix)
        return Step(
            "Look at the ids:",
            "their states are on",
            href=href,
            link=f"the page of those that begin with {subject.prefix}",
        )
    if finding.kind == Kind.EXPIRING:
        return Step(
            "Look at the times:",
            "when each id expires is on",
            href=addresses.page_of(cluster, "expiring"),
            link="Expiring ids",
        )
    if finding.kind in (Kind.COVERAGE_GAP, Kind.DATA_GAP, Kind.UNDECODABLE):
        href = addresses.page_of(cluster, "pipeline") + "#unknown"
        return Step(
            "Look at the unknowns:", "everything that cannot be judged, and why, is on", href=href, link="Pipeline"
        )
    if finding.kind == Kind.BLOCKED_GROUP and subject.topic is not None:
        href = addresses.partition_page(cluster, subject.topic, subject.partition or 0)
        return Step(
            "Look at the blocker:",
            "the blocking transaction, and whether it heals, is on the page of",
            href=href,
            link=f"{subject.topic}-{subject.partition}",
        )
    return None


def plan_of_hanging(finding: Finding, *, can_resolve: bool) -> Plan:
    subject = finding.subject
    if finding.status == Status.CANDIDATE:
        return Plan((Step("Wait for the next check.", "A candidate is confirmed, or withdrawn, within seconds."),))
    if finding.decision == Decided.COMMIT:
        return _commit(finding, can_resolve=can_resolve)
    if finding.decision not in (Decided.ABORT, Decided.NONE) or finding.command is None:
        return _unknown(finding)
    who = who_of(finding)
    place = f"{subject.topic}-{subject.partition}"
    return Plan(
        steps=(
            _look_once_more(finding, finding.command),
            Step("Abort it.", f"Writes one ABORT marker to {place}, nothing else. {finding.advice}", finding.command),
            _expect(),
        ),
        needs="Needs ALTER on the cluster (or CLUSTER_ACTION)",
        cost=f"What {who} wrote to {place} from offset {subject.start_offset:,} on stays invisible to read_committed"
        " consumers. "
        + (
            "No committed transaction can have written it."
            if finding.decision == Decided.ABORT
            else "It belongs to no transaction that was committed."
        ),
        no_help=_never_helps(who, place),
    )


def _commit(finding: Finding, *, can_resolve: bool) -> Plan:
    """Returns the plan for a committed transaction. It offers no command of Kafka's: the only one writes ABORT, which
    is the opposite."""
    subject = finding.subject
    place = f"{subject.topic}-{subject.partition}"
    off = Step(
        "Switch resolving on:",
        "it is off in this service. Give an operator a key (`txnscope keys create`, `[auth]` in its configuration).",
    )
    return Plan(
        steps=(
            *(() if can_resolve else (off,)),
            Step(
                "See which marker would be written.",
                "A dry run: all checks are made again.",
                f"txnscope resolve {finding.id}",
            ),
            Step(
                "Write the COMMIT marker.",
                f"One marker to {place}, nothing else. {finding.advice}",
                f"txnscope resolve {finding.id} --execute",
            ),
            _expect(),
        ),
        needs="Needs the key of an operator: --key-file, or TXNSCOPE_KEY_FILE",
        cost="Its records become readable: the other partitions of the transaction are committed already.",
        no_help=(
            "`kafka-transactions.sh abort`: it would write ABORT, and a part of a committed transaction would be lost.",
            *_never_helps(who_of(finding), place),
        ),
        warning="Do not abort it: aborting loses half of a committed transaction.",
    )


def _unknown(finding: Finding) -> Plan:
    _, why = cause_of(finding)
    return Plan(
        steps=(
            Step("Find out from the application", "whether its transaction was committed. " + finding.advice),
            Step(
                "No command is offered:",
                f"the decision is unknown{': ' + why if why else ''}. An ABORT marker throws committed records away"
                " if it was committed.",
            ),
        ),
        no_help=_never_helps(who_of(finding), f"{finding.subject.topic}-{finding.subject.partition}"),
    )


def _look_once_more(finding: Finding, abort: str) -> Step:
    subject = finding.subject
    text = (
        f"Expect producer id {subject.producer_id}, epoch {subject.producer_epoch} with CurrentTransactionStartOffset"
        f" {subject.start_offset}."
    )
    begin, _, _ = abort.partition(" abort ")
    command = f"{begin} describe-producers --topic {subject.topic} --partition {subject.partition}"
    return Step("Check once more.", text, command)


def _expect() -> Step:
    return Step(
        "Then expect",
        "the LSO to move on to what is open next, or to the high watermark, and this finding to"
        " resolve within seconds.",
    )


def _never_helps(who: str, place: str) -> tuple[str, ...]:
    return (
        "Waiting: `transaction.timeout.ms` counts in the coordinator, which has no open transaction here.",
        "`forceTerminateTransaction`: raises the epoch, and aborts what the id has open by then, whose records are"
        " discarded. These records stay open.",
        f"Restarting {who}: if its next transaction includes {place}, that outcome also decides these records.",
    )
