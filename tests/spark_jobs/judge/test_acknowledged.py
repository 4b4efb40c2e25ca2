"""Tests of findings that stay open until acknowledged: the judge resolves them only after an operator has acknowledged
them."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine

from service.access.actions import Action, Outcome
from service.domain.findings.catalogue import UNTIL_ACKNOWLEDGED
from service.domain.findings.finding import Finding, Observation, Occurrence, RoundResult, Subject
from service.domain.findings.kinds import Kind, Resolution, Severity, Status
from service.domain.findings.lifecycle import reconcile
from service.domain.findings.rules import Rules
from service.store import finding_marks
from service.store.audit_events import AuditEvent
from service.store.queries import findings
from service.store.retention import Retention
from service.store.writers.findings import FindingWriter, load
from spark_jobs.judge.judge import Judge
from tests.helpers.clocks import no_work
from tests.helpers.findings import finding_facts
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS

DAY_MS = 86_400_000
YEARS_LATER_MS = NOW_MS + 1_000 * DAY_MS


def lost(*sequences: int, kind: Kind = Kind.LOST_RECORDS) -> Observation:
    occurrences = tuple(Occurrence(n, NOW_MS) for n in sequences)
    subject = Subject("orders", 0, b"pay", 7, 3, 100)
    return Observation(kind, Severity.CRITICAL, subject, finding_facts(kind), (), occurrences=occurrences)


def see(cluster: Cluster, observation: Observation, now_ms: int = NOW_MS) -> Finding:
    """Stores the result of one round of the judge with this observation. Returns the resulting finding."""
    with cluster.engine.connect() as connection:
        stored = load(connection, cluster.id, now_ms)
    changes = reconcile(stored, RoundResult((observation,), frozenset({observation.kind})), now_ms, "kafka")
    FindingWriter(cluster.engine, cluster.lease).save(changes, now_ms)
    return (stored | {(c.finding.kind, c.finding.subject): c.finding for c in changes})[
        observation.kind, observation.subject
    ]


def acknowledge(cluster: Cluster, finding: Finding, by: str = "ann") -> None:
    event = AuditEvent(NOW_MS + 5, Action.ACKNOWLEDGE, Outcome.SET, by, None, finding.id, "sent again")
    with cluster.engine.begin() as connection:
        finding_marks.acknowledge(connection, cluster.id, finding, "sent again", event)


def shown(cluster: Cluster, finding: Finding) -> Finding:
    with cluster.engine.connect() as connection:
        found = findings.find(connection, cluster.id, finding.id)
    assert found is not None
    return found


def judge_of(cluster: Cluster, reader: Engine) -> Judge:
    return Judge(reader, FindingWriter(cluster.engine, cluster.lease), cluster.id, Rules(), processor_s=no_work)


@pytest.mark.parametrize("kind", sorted(UNTIL_ACKNOWLEDGED))
def test_a_loss_survives_restarts_and_retention_until_acknowledged(
    cluster: Cluster, reader: Engine, kind: Kind
) -> None:
    cluster.start({0: 0})
    finding = see(cluster, lost(1, kind=kind))
    judge_of(cluster, reader).round(YEARS_LATER_MS)
    Retention(cluster.engine, cluster.lease).delete_old(YEARS_LATER_MS)
    assert shown(cluster, finding).is_open
    judge_of(cluster, reader).round(YEARS_LATER_MS + DAY_MS)
    assert shown(cluster, finding).is_open
    acknowledge(cluster, finding)
    assert shown(cluster, finding).acknowledgement == (NOW_MS + 5, "ann", "sent again")
    judge_of(cluster, reader).round(YEARS_LATER_MS + 2 * DAY_MS)
    ended = shown(cluster, finding)
    assert (ended.status, ended.life.resolution) == (Status.RESOLVED, Resolution.ACKNOWLEDGED)
    assert ended.life.resolved_at_ms == YEARS_LATER_MS + 2 * DAY_MS
    assert ended.acknowledgement == (NOW_MS + 5, "ann", "sent again")


def test_an_acknowledgement_covers_what_was_counted_and_no_more(cluster: Cluster, reader: Engine) -> None:
    cluster.start({0: 0})
    finding = see(cluster, lost(1))
    acknowledge(cluster, finding)
    assert see(cluster, lost(1, 2)).life.count == 2
    assert shown(cluster, finding).acknowledgement is None
    judge = judge_of(cluster, reader)
    judge.round(NOW_MS + 1_000)
    assert shown(cluster, finding).is_open
    acknowledge(cluster, shown(cluster, finding), "bob")
    judge.round(NOW_MS + 3_000)
    ended = shown(cluster, finding)
    assert (ended.life.resolution, ended.acknowledgement and ended.acknowledgement.by) == (
        Resolution.ACKNOWLEDGED,
        "bob",
    )


def test_old_acknowledgements_are_forgotten_with_their_audit(cluster: Cluster, reader: Engine) -> None:
    cluster.start({0: 0})
    finding = see(cluster, lost(1))
    acknowledge(cluster, finding)
    judge_of(cluster, reader).round(NOW_MS + 1_000)
    Retention(cluster.engine, cluster.lease).delete_old(NOW_MS + 20 * DAY_MS)
    with cluster.engine.connect() as connection:
        assert finding_marks.read_acknowledgements(connection, cluster.id, [finding])
    Retention(cluster.engine, cluster.lease).delete_old(YEARS_LATER_MS)
    with cluster.engine.connect() as connection:
        assert not finding_marks.read_acknowledgements(connection, cluster.id, [finding])
