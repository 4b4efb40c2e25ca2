"""Tests of the advice on an overdue id while other ids of the same log partition progress. The advice uses the store's
data about those ids."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine

from service.domain.findings.finding import Finding
from service.domain.findings.kinds import Kind
from service.domain.findings.rules import Rules
from service.domain.transaction_log import states
from service.store.clusters import describe
from service.store.writers.findings import FindingWriter, load
from spark_jobs.judge.judge import Judge
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS, Entry, batch, entry, read

BEGAN_MS = NOW_MS - 100_000
LOWERED = {"features": {"metadata.version": 27}, "configs": {}, "brokers": []}
PRESENT = {"features": {"metadata.version": 27, "transaction.version": 2}, "configs": {}, "brokers": []}


def overdue(cluster: Cluster, reader: Engine, log: list[Entry], description: dict[str, Any] | None) -> Finding:
    cluster.start({0: 0})
    if description is not None:
        describe(cluster.engine, cluster.id, description, NOW_MS)
    cluster.writer.apply(batch(log, read(0, len(log))), NOW_MS)
    Judge(reader, FindingWriter(cluster.engine, cluster.lease), cluster.id, Rules()).round(NOW_MS)
    with reader.connect() as connection:
        return next(
            finding for (kind, _), finding in load(connection, cluster.id, NOW_MS).items() if kind == Kind.OVERDUE
        )


def open_one(name: bytes, version: int) -> Entry:
    one = entry(0, states.ONGOING, name, pid=1, start_ms=BEGAN_MS, at_ms=BEGAN_MS, version=version)
    return one._replace(record=one.record._replace(timeout_ms=20_000))


def neighbour(at_ms: int) -> list[Entry]:
    """Returns the records of a transaction of another id, `B`. The transaction begins at `at_ms`, and ends 2 ms
    later."""
    path = (states.ONGOING, states.PREPARE_COMMIT, states.COMPLETE_COMMIT)
    return [entry(1 + n, state, b"B", pid=2, start_ms=at_ms, at_ms=at_ms + n) for n, state in enumerate(path)]


def test_causes_excluded_by_other_ids_of_the_partition_are_not_named(cluster: Cluster, reader: Engine) -> None:
    """transaction.version was lowered while the transaction was open. The advice does not suggest causes that the
    progress of other ids excludes."""
    found = overdue(cluster, reader, [open_one(b"A", 2), *neighbour(BEGAN_MS + 60_000)], LOWERED)
    assert "A record of another id was written to __transaction_state-0 after" in found.observation.advice
    assert "written under transaction.version 2, and version 0 is finalized now" in found.observation.advice
    assert "Move the leadership of __transaction_state-0 to another broker and back" in found.observation.advice
    for blamed in ("min.insync.replicas", "clock", "Causes"):
        assert blamed not in found.observation.advice
    reported = [(one.source, one.text) for one in found.observation.evidence[2:]]
    assert reported == [
        ("__transaction_state-0", "a record of another id was written then, after the due time"),
        ("features", "written under transaction.version 2; the finalized version is 0"),
    ]


def test_a_record_of_another_id_from_before_the_due_abort_proves_nothing(cluster: Cluster, reader: Engine) -> None:
    found = overdue(cluster, reader, [open_one(b"A", 2), *neighbour(BEGAN_MS + 10_000)], PRESENT)
    assert "pending in the coordinator's memory" not in found.observation.advice
    assert "transaction.version" not in found.observation.advice
    assert "the reason is not known" in found.observation.advice


def test_a_record_of_the_id_itself_is_not_one_of_another_id(cluster: Cluster, reader: Engine) -> None:
    """The client adds a partition after the timeout of its transaction. The coordinator accepts this until it has
    aborted the transaction."""
    late = entry(1, states.ONGOING, b"A", pid=1, start_ms=BEGAN_MS, at_ms=BEGAN_MS + 60_000)
    late = late._replace(record=late.record._replace(timeout_ms=20_000))
    found = overdue(cluster, reader, [open_one(b"A", 0), late], PRESENT)
    assert "another id" not in found.observation.advice
    assert [one.text for one in found.observation.evidence if "another id" in one.text] == []


def test_unknown_features_do_not_count_as_lowered(cluster: Cluster, reader: Engine) -> None:
    found = overdue(cluster, reader, [open_one(b"A", 2), *neighbour(BEGAN_MS + 60_000)], None)
    assert "pending in the coordinator's memory" in found.observation.advice
    assert "transaction.version" not in found.observation.advice
