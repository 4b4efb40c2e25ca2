"""Builds the plan for a finding: the steps, the permission that they need, their cost, and what does not help."""

from __future__ import annotations

from typing import Final, NamedTuple

from service.domain.doctor.acls import Grant
from service.domain.findings.catalogue import CATALOGUE, SeenOn
from service.domain.findings.finding import Finding
from service.domain.findings.kinds import Kind, Severity, Status
from service.domain.worlds.verdict import Decided
from service.views import addresses
from service.views.findings.headline import cause_of, who_of
from service.views.grants import lines_of


class Step(NamedTuple):
    """A step of the plan. `head`: the action; `command`: to be pasted unchanged; `href`, `link`: address and text of a
    hyperlink to a page."""

    head: str
    text: str
    href: str | None = None
    link: str = ""
    command: str | None = None


class Plan(NamedTuple):
    """The plan for a finding. `needs`: the permission that the steps need; `cost`: what the steps lose or change;
    `no_help`: measures that do not help, and why; `warning`: shown above the steps."""

    steps: tuple[Step, ...]
    needs: str = ""
    cost: str = ""
    no_help: tuple[str, ...] = ()
    warning: str = ""


def plan_of(finding: Finding, cluster: str, grant: Grant | None, bootstrap: str | None, *, can_resolve: bool) -> Plan:
    """Returns the plan for an open finding. `grant`: the permission that is missing; `bootstrap`: the address of a
    broker, for command lines; `can_resolve`: True if the service accepts operators' keys."""
    if finding.kind == Kind.HANGING:
        return _plan_of_hanging(finding, can_resolve=can_resolve)
    entry, look = CATALOGUE[finding.kind], _look(finding, cluster)
    advice = finding.observation.advice
    act = [Step("Do this.", advice)] if grant is None else _give(grant, bootstrap, advice)
    expect = Step("Then expect", entry.follows)
    steps = tuple(step for step in (look, *act, expect) if step is not None and step.text)
    has_trouble = finding.kind != Kind.CHURN or finding.severity != Severity.INFO
    return Plan(steps, no_help=entry.no_help if has_trouble else ())


def _give(grant: Grant, bootstrap: str | None, advice: str) -> list[Step]:
    lines = lines_of(grant, bootstrap)
    text = "Fill in that principal. " if lines else ""
    first, *others = lines or (None,)
    return [
        Step(f"Grant {grant.text}", f"to txnscope's principal. {text}{advice}", command=first),
        *(Step("And", "this:", command=line) for line in others),
    ]


def _look(finding: Finding, cluster: str) -> Step | None:
    """Returns the step that links to the page with more about the finding; None if there is no such page."""
    subject, seen_on = finding.subject, CATALOGUE[finding.kind].seen_on
    missing = next((e.text for e in finding.observation.evidence if e.source == "DescribeTransactions"), None)
    if finding.kind == Kind.STUCK_COMPLETION and missing is not None:
        href = addresses.transaction_page(cluster, subject.transactional_id or b"")
        return Step("Missing:", f"{missing}.", href, "the id's timeline")
    if seen_on is SeenOn.ID and subject.transactional_id is not None:
        href = addresses.transaction_page(cluster, subject.transactional_id)
        return Step("Look at the id:", "the end of each transaction, with time and cause, is on", href, "its timeline")
    if subject.prefix is not None:
        href = addresses.page_of(cluster, "transactions", prefix=subject.prefix)
        link = f"the page of those that begin with {subject.prefix}"
        return Step("Look at the ids:", "their states are on", href, link)
    if seen_on is SeenOn.EXPIRING:
        href = addresses.page_of(cluster, "expiring")
        return Step("Look at the times:", "the time at which each id expires is on", href, "Expiring ids")
    if seen_on is SeenOn.PIPELINE:
        href = addresses.page_of(cluster, "pipeline") + "#unknown"
        return Step("Look at the unknowns:", "everything that cannot be judged, and why, is on", href, "Pipeline")
    if seen_on is SeenOn.PARTITION and subject.topic is not None:
        href = addresses.partition_page(cluster, subject.topic, subject.partition or 0)
        text, place = "the blocking transaction, and whether it heals, is on the page of", _place(finding)
        return Step("Look at the blocker:", text, href, place)
    return None


def _plan_of_hanging(finding: Finding, *, can_resolve: bool) -> Plan:
    if finding.status == Status.CANDIDATE:
        return Plan((Step("Wait for the next check.", "It confirms or withdraws the candidate."),))
    if finding.observation.decision == Decided.COMMIT:
        return _commit(finding, can_resolve=can_resolve)
    if finding.observation.decision not in (Decided.ABORT, Decided.NONE):
        return _unknown(finding)
    if finding.command is None:
        return _of_a_living_writer(finding)
    who, place, start_offset = who_of(finding), _place(finding), finding.subject.start_offset
    loss = "They belong to no transaction that this cluster committed."
    if finding.observation.decision == Decided.ABORT:
        loss = "No committed transaction can have written them."
    abort = f"Writes one ABORT marker to {place}, nothing else. {finding.observation.advice}"
    return Plan(
        steps=(_look_once_more(finding), Step("Abort it.", abort, command=finding.command), _EXPECT),
        needs="Needs READ on the topic, and ALTER on the cluster (before Kafka 3.8: CLUSTER_ACTION)",
        cost=f"The records of {who} on {place}, from offset {start_offset:,} on, stay invisible to"
        f" read_committed consumers. {loss}",
        no_help=_never_helps(finding),
    )


def _commit(finding: Finding, *, can_resolve: bool) -> Plan:
    """Returns the plan for a committed transaction. The plan has no command of Kafka's own tools, because these tools
    can only write an ABORT marker, which would discard the committed records."""
    place = _place(finding)
    off = Step(
        "Switch resolving on:",
        "this service accepts no keys. Create an operator's key (`txnscope keys create`), and switch `[auth]` on in the"
        " service's configuration.",
    )
    return Plan(
        steps=(
            *(() if can_resolve else (off,)),
            Step(
                "See which marker would be written.",
                "A dry run: all checks are made again.",
                command=f"txnscope resolve {finding.id}",
            ),
            Step(
                "Write the COMMIT marker.",
                f"One marker to {place}, nothing else. {finding.observation.advice}",
                command=f"txnscope resolve {finding.id} --execute",
            ),
            _EXPECT,
        ),
        needs="Needs the key of an operator: --key-file, or TXNSCOPE_KEY_FILE",
        cost=f"As the coordinator decided, the transaction's records on {place} become readable, once the LSO has"
        " passed them. Each other partition of the transaction is judged separately.",
        no_help=(
            "`kafka-transactions.sh abort`: it writes an ABORT marker, which discards a part of a committed"
            " transaction.",
            *_never_helps(finding),
        ),
        warning="Do not abort this transaction: it was committed, and an ABORT marker discards a part of it.",
    )


def _of_a_living_writer(finding: Finding) -> Plan:
    """Returns the plan for a transaction whose producer can still write to the partition. Such a write would change the
    decision."""
    return Plan(
        steps=(Step("First stop what can still write:", finding.observation.advice), _EXPECT),
        no_help=_never_helps(finding),
    )


def _unknown(finding: Finding) -> Plan:
    _, why = cause_of(finding)
    return Plan(
        steps=(
            Step("Do this.", finding.observation.advice),
            Step(
                "No command is offered:",
                f"the decision is unknown{': ' + why if why else ''}. If the transaction was committed, an ABORT marker"
                " discards committed records.",
            ),
        ),
        no_help=_never_helps(finding),
    )


def _look_once_more(finding: Finding) -> Step:
    subject = finding.subject
    text = (
        f"Expect producer id {subject.producer_id}, epoch {subject.producer_epoch} or higher with"
        f" CurrentTransactionStartOffset {subject.start_offset}."
    )
    return Step("Check once more.", text, command=finding.look_command)


_EXPECT: Final = Step(
    "Then expect",
    "the LSO to move on, unless an older transaction holds it, and this finding to resolve once txnscope has read the"
    " partition again.",
)


def _place(finding: Finding) -> str:
    return f"{finding.subject.topic}-{finding.subject.partition}"


def _never_helps(finding: Finding) -> tuple[str, ...]:
    place = _place(finding)
    return (
        f"Waiting: the coordinator applies `transaction.timeout.ms`, but it has no open transaction for {place}.",
        "`forceTerminateTransaction`: raises the epoch, and aborts the id's present transaction, if there is one: the"
        " records of that transaction are discarded. The records of the hanging transaction stay open.",
        f"Restarting {who_of(finding)}: only a transaction of producer id {finding.subject.producer_id} that includes"
        f" {place} ends the hanging one. The marker of that transaction then also commits or aborts the hanging"
        " transaction's records.",
    )
