"""What to do about a transaction that hangs: which marker ends it, and which one must not be written."""

from __future__ import annotations

from service.domain.findings import kinds
from service.domain.findings.finding import Finding
from service.domain.worlds.verdict import World
from service.web.findings.headline import cause_of, who_of
from service.web.plan_parts import Plan, Step


def plan_of_hanging(finding: Finding, *, can_resolve: bool) -> Plan:
    subject = finding.subject
    if finding.status == kinds.CANDIDATE:
        return Plan((Step("Wait for the next look.", "A candidate is confirmed, or withdrawn, within seconds."),))
    if finding.decision == World.COMMIT:
        return _commit(finding, can_resolve=can_resolve)
    if finding.decision not in (World.ABORT, World.NONE) or finding.command is None:
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
            if finding.decision == World.ABORT
            else "It belongs to no transaction that was committed."
        ),
        no_help=_never_helps(who, place),
    )


def _commit(finding: Finding, *, can_resolve: bool) -> Plan:
    """No command of Kafka's is offered: the one there is does the opposite."""
    subject = finding.subject
    place = f"{subject.topic}-{subject.partition}"
    off = Step(
        "Switch resolving on:",
        "it is off in this service. Give an operator a key: `[operators]` in its configuration.",
    )
    return Plan(
        steps=(
            *(() if can_resolve else (off,)),
            Step("See what would be written.", "A dry run: all is looked at again.", f"txnscope resolve {finding.id}"),
            Step(
                "Write the COMMIT marker.",
                f"One marker to {place}, nothing else. {finding.advice}",
                f"txnscope resolve {finding.id} --execute",
            ),
            _expect(),
        ),
        needs="Needs the key of an operator: --operator-key-file, or TXNSCOPE_OPERATOR_KEY_FILE",
        cost="Its records become readable: the other partitions of the transaction are committed already.",
        no_help=(
            "`kafka-transactions.sh abort`: the wrong command. It writes ABORT, and half of a committed transaction is"
            " lost.",
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
                f"what was decided is unknown{': ' + why if why else ''}. An ABORT marker throws committed records away"
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
    return Step("Look once more.", text, command)


def _expect() -> Step:
    return Step(
        "Then expect",
        "the LSO to move on to what is open next, or to the high watermark, and this finding to"
        " resolve within seconds.",
    )


def _never_helps(who: str, place: str) -> tuple[str, ...]:
    return (
        "Waiting: `transaction.timeout.ms` counts in the coordinator, which has no open transaction here.",
        "`forceTerminateTransaction`: only bumps the epoch.",
        f"Restarting {who}: if its next transaction includes {place}, that outcome also decides these records.",
    )
