"""Tests of contradicting readings of one case. The decision of the case becomes unknown. The contradiction is logged
once, and counted in metrics and REST."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from service.domain.findings.finding import Finding
from service.store.errors import StoreUnavailable
from service.store.writers.findings import FindingWriter, load
from tests.helpers.builders.entry_facts import facts_of
from tests.helpers.stores import client_of
from tests.service.store.conftest import only_on, patient
from tests.service.store.logs import NOW_MS
from tests.service.store.looks import entry as open_entry
from tests.spark_jobs.judge.test_open_entries import Lab, lab

pytestmark = only_on("sqlite")
__all__ = ["lab"]

METRIC = "kafka_txn_decision_contradictions_total"


def reads(lab: Lab, decision: str, now_ms: int) -> Finding:
    """Runs the three confirmation steps from `now_ms` on, with facts that lead to `decision`. Returns the finding."""
    lab.facts = facts_of(decision, 7, 0, 100, now_ms)
    return lab.confirmed(now_ms)


def contradicted(lab: Lab) -> Finding:
    reads(lab, "commit", NOW_MS)
    lab.restart()
    return reads(lab, "abort", NOW_MS + 10_000)


def counted(url: str) -> tuple[float, Any]:
    """Returns the number of contradictions that a service over the store reports: on its metrics page, and in the REST
    answer about the cluster."""
    with client_of(patient(url)) as client:
        page = client.get("/metrics").text
        body = client.get("/api/v1/clusters/cluster-0").json()
    (value,) = (line.rpartition(" ")[2] for line in page.splitlines() if line.startswith(f"{METRIC}{{"))
    return float(value), body["contradictions"]


def test_the_count_of_contradictions_starts_at_zero(lab: Lab, url: str) -> None:
    reads(lab, "commit", NOW_MS)
    assert counted(url) == (0, 0)


def test_a_contradiction_is_logged_in_one_line_and_counted(
    lab: Lab, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        found = contradicted(lab)
    assert (found.observation.decision, found.command, found.observation.possible) == (
        "unknown",
        None,
        ("commit", "abort", "none"),
    )
    (line,) = [record.getMessage() for record in caplog.records if "contradict" in record.getMessage()]
    assert line.startswith("orders-0@100: two readings contradict each other: first its transaction was committed")
    assert "\n" not in line
    assert counted(url) == (1, 1)


@pytest.mark.parametrize("decision", ["commit", "abort"])
def test_a_contradiction_survives_a_restart_and_counts_once(
    lab: Lab, url: str, decision: str, caplog: pytest.LogCaptureFixture
) -> None:
    """If a restart forgot the contradiction, the next reading would count as the first one, and would change the
    decision again."""
    before = contradicted(lab)
    lab.restart()
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        found = reads(lab, decision, NOW_MS + 20_000)
    assert (found.id, found.observation.decision, found.command) == (before.id, "unknown", None)
    assert found.observation.evidence[-1].text == before.observation.evidence[-1].text
    assert not [record for record in caplog.records if "contradict" in record.getMessage()]
    assert counted(url) == (1, 1)


def test_a_higher_epoch_of_the_producer_does_not_hide_the_contradiction(lab: Lab, url: str) -> None:
    """When the producer writes again, its entry shows a higher epoch: the leader reports only the newest epoch."""
    reads(lab, "commit", NOW_MS)
    lab.restart()
    lab.entry = open_entry(epoch=1)
    reads(lab, "abort", NOW_MS + 10_000)
    lab.restart()
    reads(lab, "commit", NOW_MS + 20_000)
    with lab.reader.connect() as connection:
        (found,) = load(connection, lab.cluster.id, NOW_MS + 30_000).values()
    assert (found.subject.producer_epoch, found.observation.decision) == (0, "unknown")
    assert counted(url) == (1, 1)


def test_a_contradiction_counts_once_if_the_store_refuses_it_at_first(
    lab: Lab, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads(lab, "commit", NOW_MS)
    lab.restart()
    save = FindingWriter.save

    def refuse(*_: object, **__: object) -> None:
        raise StoreUnavailable("locked")

    monkeypatch.setattr(FindingWriter, "save", refuse)
    with pytest.raises(StoreUnavailable):
        reads(lab, "abort", NOW_MS + 10_000)
    monkeypatch.setattr(FindingWriter, "save", save)
    found = reads(lab, "abort", NOW_MS + 20_000)
    assert found.observation.decision == "unknown"
    assert counted(url) == (1, 1)
