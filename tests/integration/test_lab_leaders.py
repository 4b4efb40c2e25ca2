"""Tests in clusters of three brokers, in which the leader of a participating partition is unavailable when the
transaction is decided."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from service.domain.doctor.tried_versions import SKIPPED_MARKER
from service.domain.findings.kinds import Kind, Resolution, Severity, Status
from service.kafka.client import KafkaClient
from service.kafka.cluster import cluster_id
from service.kafka.settings import ClientSettings
from service.store.rows.findings import finding_of
from tests.helpers.brokers import SKIPS_THE_LOST, Cluster, on, on_those
from tests.helpers.waiting import wait_for
from tests.integration.hang_lab import HangLab, hang_lab
from tests.lab.asking import mark
from tests.lab.lost_leaders import (
    LOST,
    PROPERTIES,
    aborts,
    begin,
    commits_and_aborts_the_next,
    commits_and_goes_on_elsewhere,
    frozen_leader,
    goes_on,
    outage,
    still_hangs,
    stopped_leader,
)
from tests.matrix.recorder import SEEN

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns]

BACK_SOON = PROPERTIES | {"broker.session.timeout.ms": "3000"}
"""Settings with a short session timeout of brokers, so that a stopped broker can start again soon. On 4.3, a broker can
start only after its former session has expired."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Callable[..., tuple[Cluster, HangLab]]]:
    """Yields a function that starts three brokers and the application."""
    with ExitStack() as everything:

        def start(version: str, properties: dict[str, str]) -> tuple[Cluster, HangLab]:
            brokers = everything.enter_context(Cluster(version, tmp_path / "kafka", properties))
            first = brokers.nodes[1]
            return brokers, everything.enter_context(hang_lab(first, tmp_path, brokers.bootstrap))

        yield start


@on("3.9.2")
def test_the_leader_of_a_participant_is_frozen(cluster: Callable[..., tuple[Cluster, HangLab]], version: str) -> None:
    brokers, here = cluster(version, PROPERTIES)
    with frozen_leader(brokers, "k-frozen") as torn:
        missing = f"no marker yet on k-frozen-{LOST} (leader broker {torn.victim})"
        row = here.wait_for_finding(
            Kind.STUCK_COMPLETION, lambda one: missing in str(one.evidence), transactional_id=b"k-frozen"
        )
        assert (row.severity, row.decision) == (Severity.WARNING, None)
        assert f"k-frozen-{1 - LOST}" not in finding_of(row).summary
        wait_for(lambda: here.is_unjudged("k-frozen", LOST), "the partition of the frozen leader to be not judged")
        for _ in range(4):  # the client connects to the brokers in random order
            with KafkaClient(ClientSettings.load(brokers.bootstrap, None)) as client:
                assert cluster_id(client)
    here.wait_for_finding(
        Kind.STUCK_COMPLETION, lambda one: one.status == Status.RESOLVED, transactional_id=b"k-frozen"
    )
    here.wait_until_free("k-frozen", LOST)
    here.assert_nothing_hung("k-frozen")


@on("4.3.1")
def test_a_committed_transaction_loses_a_participant(
    cluster: Callable[..., tuple[Cluster, HangLab]], version: str, record_property: Callable[[str, object], None]
) -> None:
    """KAFKA-20734: the coordinator skips a COMMIT marker. An ABORT would then destroy one half of a committed
    transaction."""
    brokers, here = cluster(version, BACK_SOON)
    with stopped_leader(brokers, "k2-lost") as torn:
        if version not in SKIPS_THE_LOST:
            here.wait_for_finding(Kind.STUCK_COMPLETION, lambda _: True, transactional_id=b"k2-lost")
    if version in SKIPS_THE_LOST:
        assert still_hangs(brokers, torn)
        record_property(SEEN, SKIPPED_MARKER)
        row = here.wait_until_confirmed(torn.hang())
        assert "COMMIT" in finding_of(row).observation.advice
        mark(here.connection, "k2-lost", LOST, torn.hang().open, commit=True)
        here.wait_until_resolved(torn.hang(), Resolution.FOREIGN_COMMIT)
    else:
        here.wait_for_finding(
            Kind.STUCK_COMPLETION, lambda one: one.status == Status.RESOLVED, transactional_id=b"k2-lost"
        )
        here.assert_nothing_hung("k2-lost")
    here.wait_until_free("k2-lost", LOST)


@on_those(SKIPS_THE_LOST, "4.3.1")
def test_committed_records_share_the_fate_of_the_next_transaction(
    cluster: Callable[..., tuple[Cluster, HangLab]], tmp_path: Path, version: str
) -> None:
    """The coordinator skips a COMMIT marker. The client's next transaction adopts the committed records that lack this
    marker, so nothing hangs. After that, txnscope starts on an empty store."""
    brokers, here = cluster(version, BACK_SOON)
    here.app.stop()
    with stopped_leader(brokers, "k3-next") as torn:
        pass
    with here.connection as connection:
        producer = goes_on(connection, torn)
        with hang_lab(brokers.nodes[1], _made(tmp_path / "later"), brokers.bootstrap) as later:
            row = later.wait_for_finding(
                Kind.ADOPTED, lambda one: one.severity == Severity.CRITICAL, transactional_id=b"k3-next"
            )
            assert (row.status, row.start_offset) == (Status.CONFIRMED, torn.start_offset)
            assert later.wait_for_blocker("k3-next", LOST, "adopted")["transactional_id"] == "k3-next"
            producer.end(commit=False)
            lost = later.wait_for_finding(Kind.LOST_RECORDS, lambda _: True, transactional_id=b"k3-next")
            assert (lost.topic, lost.partition, lost.start_offset) == ("k3-next", LOST, torn.start_offset)
            assert (lost.status, lost.severity) == (Status.CONFIRMED, Severity.CRITICAL)
            later.wait_until_free("k3-next", LOST)
            assert later.app.findings(Kind.LOST_RECORDS)[0].status == Status.CONFIRMED, (
                "the finding stays open until it is acknowledged"
            )


STORIES = {
    "k2-aborted": (aborts, "abort"),
    "k2-next-aborted": (commits_and_aborts_the_next, "commit"),
    "k2-goes-on": (commits_and_goes_on_elsewhere, "commit"),
}
"""A mapping from id to (what its client does during the outage, the right decision on the records that hang
afterwards)."""
NEEDS_SAMPLES = "k2-next-aborted"
"""The id whose decision needs samples. Two of its transactions list the partition under one epoch. Only samples taken
between these transactions prove which of them wrote the records."""


@on_those(SKIPS_THE_LOST, "4.3.1")
def test_what_follows_a_skipped_marker_does_not_change_the_decision(
    cluster: Callable[..., tuple[Cluster, HangLab]], tmp_path: Path, version: str
) -> None:
    """The transaction that wrote the hanging records need not be the id's last transaction on the partition. The
    decisions are the same after a restart. On an empty store, the decision of NEEDS_SAMPLES may be `unknown`, because
    the earlier samples are missing."""
    brokers, here = cluster(version, BACK_SOON)
    torn = {name: begin(brokers, name) for name in STORIES}
    for name in STORIES:
        here.wait_for_blocker(name, LOST, "open")
    with outage(brokers, {torn[name]: story for name, (story, _) in STORIES.items()}):
        pass
    hangs = {name: torn[name].hang(decision) for name, (_, decision) in STORIES.items()}
    expected = {name: decision for name, (_, decision) in STORIES.items()}
    assert all(still_hangs(brokers, one) for one in torn.values())
    assert {name: here.wait_until_confirmed(hang).decision for name, hang in hangs.items()} == expected
    here.app.kill()
    here.app.start()
    here.wait_until_judged_again()
    assert {name: here.wait_until_confirmed(hang).decision for name, hang in hangs.items()} == expected
    here.app.stop()
    with hang_lab(brokers.nodes[1], _made(tmp_path / "empty"), brokers.bootstrap) as anew:
        for name, hang in hangs.items():
            where = {"topic": hang.topic, "producer_id": hang.producer_id}
            row = anew.wait_for_finding(Kind.HANGING, lambda one: one.status == Status.CONFIRMED, **where)
            may_be_said = {expected[name], "unknown"} if name == NEEDS_SAMPLES else {expected[name]}
            assert row.decision in may_be_said, row.evidence


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
