"""Tests of findings about the ids of Apache Flink's sink, from a recorded log. The findings must be right for the
operator of the job, and must warn of data loss before it happens."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from service.domain.findings.churn import UNUSED_MS
from service.domain.findings.finding import Finding
from service.domain.findings.kinds import Kind, Severity
from service.domain.findings.rules import Rule, Rules
from service.domain.findings.settling import SKEW_MS
from service.domain.transaction_log import states
from service.store.writers.findings import load
from tests.service.domain.test_applications import INCREMENTING_LOG, POOLING_LOG
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS, Entry, entry
from tests.spark_jobs.judge.test_judge import ALONE_MS, Judged, judged

__all__ = ["judged"]

TIMEOUT_MS = 900_000
SUBTASKS = 12  # more ids than the judge looks up in one round
_STEP = re.compile(r"(?P<at>\d+) (?P<state>\w+)\((?P<pid>\d+),(?P<epoch>\d+)\)")


def with_timeout(one: Entry, timeout_ms: int) -> Entry:
    return one._replace(record=one.record._replace(timeout_ms=timeout_ms))


def replay(judged: Judged, log: str, until_ms: int, timeout_ms: int = TIMEOUT_MS) -> None:
    """Stores the steps of the log up to `until_ms`, which becomes NOW_MS, and runs one round of the judge."""
    entries: list[Entry] = []
    started: dict[bytes, int] = {}
    for at_ms, name, step in sorted(_steps(log), key=lambda one: one[0]):
        if at_ms <= until_ms:
            moment_ms, state = NOW_MS - until_ms + at_ms, states.CODES[step["state"]]
            if state == states.ONGOING:
                started[name] = moment_ms
            one = entry(
                judged.next_offset + len(entries),
                state,
                name,
                pid=int(step["pid"]),
                epoch=int(step["epoch"]),
                start_ms=started.get(name, 0),
                at_ms=moment_ms,
                version=2,
            )
            entries.append(with_timeout(one, timeout_ms))
    judged.log(entries, NOW_MS)
    judged.judge.round(NOW_MS)


def _steps(log: str) -> Iterator[tuple[int, bytes, re.Match[str]]]:
    for line in log.strip().splitlines():
        for step in _STEP.finditer(line):
            yield int(step["at"]), line.split()[0].encode(), step


def long_running(judged: Judged, name: bytes) -> Finding:
    (found,) = (
        finding
        for finding in all_findings(judged)
        if finding.kind == Kind.LONG_RUNNING and finding.subject.transactional_id == name and finding.is_open
    )
    return found


def all_findings(judged: Judged) -> list[Finding]:
    with judged.reader.connect() as connection:
        return list(load(connection, judged.cluster.id, NOW_MS).values())


@pytest.mark.parametrize(
    ("log", "until_ms", "name"), [(INCREMENTING_LOG, 20_000, b"flink-0-9"), (POOLING_LOG, 18_300, b"flink-0-0")]
)
def test_a_warning_precedes_the_deadline_of_a_stopped_job(judged: Judged, log: str, until_ms: int, name: bytes) -> None:
    replay(judged, log, until_ms)
    judged.at(NOW_MS + 61_000)
    found = long_running(judged, name)
    assert (found.severity, found.observation.self_heals_at_ms) == (Severity.INFO, None)
    assert "restore it from its last checkpoint or savepoint before" in found.observation.advice
    assert "Do not start another producer with this transactional.id" in found.observation.advice
    judged.at(NOW_MS + TIMEOUT_MS * 3 // 4)
    found = long_running(judged, name)
    assert found.severity == Severity.WARNING
    assert "unless its job ends it before" in found.summary


def test_a_rule_for_long_transactions_does_not_hide_the_deadline(cluster: Cluster, reader: Engine) -> None:
    cluster.start({0: 0})
    judged = Judged(cluster, reader, Rules((Rule(prefix="flink-", long_after_ms=2 * TIMEOUT_MS, owner="etl"),)))
    replay(judged, INCREMENTING_LOG, 20_000)
    judged.at(NOW_MS + TIMEOUT_MS // 2)
    assert judged.found() == {}
    judged.at(NOW_MS + TIMEOUT_MS * 3 // 4)
    assert long_running(judged, b"flink-0-9").observation.owner == "etl"


def test_an_id_that_only_looks_like_a_sink_gets_advice_for_both_cases(judged: Judged) -> None:
    replay(judged, INCREMENTING_LOG, 2_000)
    judged.at(NOW_MS + TIMEOUT_MS * 3 // 4)
    found = long_running(judged, b"flink-0-1")
    assert found.severity == Severity.INFO
    assert "The transaction's application has to commit or abort it." in found.observation.advice
    assert "it may be a transaction of a two-phase sink" in found.observation.advice


def test_the_advice_for_a_transaction_without_timeout_explains_a_restart(judged: Judged) -> None:
    one = entry(0, states.ONGOING, b"pay", start_ms=NOW_MS - 90_000, at_ms=NOW_MS - 90_000)
    judged.log([with_timeout(one, states.TWO_PHASE_TIMEOUT_MS)], NOW_MS)
    judged.judge.round(NOW_MS)
    found = long_running(judged, b"pay")
    assert found.severity == Severity.INFO
    assert "that discards the transaction at once" in found.observation.advice
    assert "The abort at the timeout" not in found.observation.advice


def abort(judged: Judged, name: bytes, start_ms: int) -> None:
    """Stores the abort of the transaction by its coordinator, a second after its timeout, and runs one round of the
    judge."""
    at_ms = start_ms + TIMEOUT_MS + 1_000
    path = enumerate((states.PREPARE_ABORT, states.COMPLETE_ABORT))
    found = [
        entry(judged.next_offset + n, state, name, pid=24, epoch=1, start_ms=start_ms, at_ms=at_ms, version=2)
        for n, state in path
    ]
    judged.log([with_timeout(entry, TIMEOUT_MS) for entry in found], at_ms)
    judged.judge.round(at_ms)


def test_a_job_that_was_away_for_too_long_may_have_lost_records(judged: Judged) -> None:
    replay(judged, INCREMENTING_LOG, 20_000)
    start_ms = NOW_MS - 20_000 + 19_920
    abort(judged, b"flink-0-9", start_ms)
    judged.at(start_ms + TIMEOUT_MS + 1_000 + ALONE_MS + 60_000)
    found = judged.found()[Kind.TIMED_OUT]
    assert found.severity == Severity.WARNING
    assert "records that a checkpoint counts as delivered may be lost" in found.summary
    assert '"Unable to commit transaction" with the id' in found.observation.advice
    assert "the log does not show whether they are" in found.observation.advice


def test_ids_of_one_job_that_time_out_together_are_no_outage_of_kafka(judged: Judged) -> None:
    for subtask in range(SUBTASKS):
        replay(judged, INCREMENTING_LOG.replace("flink-0-", f"flink-{subtask}-"), 20_000)
    for subtask in range(SUBTASKS):
        abort(judged, f"flink-{subtask}-9".encode(), NOW_MS - 80)
    judged.at(NOW_MS + TIMEOUT_MS + 1_000 + ALONE_MS + 60_000)
    found = judged.found()[Kind.CORRELATED_TIMEOUTS]
    assert (
        "all these ids belong to Apache Flink's two-phase sinks (flink): their job was down" in found.observation.advice
    )
    assert "trace of an outage" not in found.observation.advice


CHECKPOINT_MS = 10_000


def test_an_id_for_each_checkpoint_gets_an_info_finding(judged: Judged) -> None:
    count = 40
    steps: list[Entry] = []
    for n in range(1, count + 1):
        name, born_ms = f"orders-sink-0-{n}".encode(), NOW_MS + n * CHECKPOINT_MS
        committed_ms = born_ms + CHECKPOINT_MS + 40
        path = [(states.EMPTY, 0, born_ms), (states.ONGOING, 0, born_ms + 90)]
        if n < count:
            path += [(states.PREPARE_COMMIT, 1, committed_ms), (states.COMPLETE_COMMIT, 1, committed_ms + 1)]
        for state, epoch, at_ms in path:
            steps.append(entry(0, state, name, pid=n, epoch=epoch, start_ms=born_ms + 90, at_ms=at_ms, version=2))
    steps.sort(key=lambda entry: entry.record.timestamp_ms)
    entries = [entry._replace(record=entry.record._replace(offset=n)) for n, entry in enumerate(steps)]
    end_ms = NOW_MS + count * CHECKPOINT_MS + 5_000
    judged.log(entries, end_ms)
    judged.judge.round(end_ms)
    judged.at(end_ms + UNUSED_MS + SKEW_MS + 1_000)
    found = judged.found()[Kind.CHURN]
    assert (found.severity, found.subject.prefix) == (Severity.INFO, "orders-sink-")
    assert "Apache Flink's naming strategy INCREMENTING" in found.summary
    assert "some 60,000 ids are kept" in found.observation.advice
    assert "POOLING" in found.observation.advice
    assert "Give each instance" not in found.observation.advice
