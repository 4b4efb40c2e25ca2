"""Tests that a finding contains its remediation while it is open."""

from __future__ import annotations

from service.domain.findings.finding import Finding, Key, Observation, RoundResult, Subject
from service.domain.findings.kinds import Kind, Severity, Status
from service.domain.findings.lifecycle import reconcile
from service.domain.worlds.verdict import Decided
from tests.helpers.findings import finding_facts
from tests.service.domain.findings.builders import NOW_MS

SEEN = Observation(
    *(
        Kind.STUCK_COMPLETION,
        Severity.CRITICAL,
        Subject("orders", 0, start_offset=7),
        finding_facts(Kind.STUCK_COMPLETION),
        (),
    ),
    decision=Decided.ABORT,
    bootstrap="b:9092",
    blocked_groups=("readers",),
)


def after(stored: Finding | None, *seen: Observation) -> Finding:
    """Returns the finding after one round, or the stored one if the round changed nothing."""
    known: dict[Key, Finding] = {} if stored is None else {(stored.kind, stored.subject): stored}
    changes = reconcile(known, RoundResult(seen, frozenset({SEEN.kind}), is_log_complete=True), NOW_MS, "kafka")
    if changes:
        return changes[0].finding
    assert stored is not None
    return stored


def way_out(finding: Finding) -> tuple[str | None, str | None, tuple[str, ...]]:
    return finding.observation.decision, finding.command, finding.observation.blocked_groups


def test_a_finding_has_the_newest_decision_command_and_blocked_groups() -> None:
    opened = after(None, SEEN)
    command = "kafka-transactions.sh --bootstrap-server b:9092 abort --topic orders --partition 0 --start-offset 7"
    assert way_out(opened) == ("abort", command, ("readers",))
    changed = after(
        opened, SEEN._replace(decision=Decided.UNKNOWN, bootstrap=None, blocked_groups=("billing", "readers"))
    )
    assert way_out(changed) == ("unknown", None, ("billing", "readers"))


def test_a_resolved_finding_has_no_command() -> None:
    resolved = after(after(None, SEEN))
    assert resolved.status == Status.RESOLVED
    assert way_out(resolved) == ("abort", None, ("readers",)), "the decision and the blocked groups can still be read"
    assert way_out(after(resolved.with_observed(bootstrap=None), SEEN)) == way_out(after(None, SEEN))
