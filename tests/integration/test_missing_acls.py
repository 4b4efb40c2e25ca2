"""Tests of the whole application without some permissions: missing permissions are reported, and no conclusion is drawn
from missing data."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deploy.demo.workload.raw_producer import Connection
from service.domain.findings.kinds import Kind, Status
from service.domain.transaction_log.causes import Confidence
from service.domain.transaction_log.states import TOPIC as LOG
from service.store.rows.findings import finding_of
from tests.helpers import acls
from tests.helpers.acls import BrokerWithAcls
from tests.helpers.brokers import on
from tests.helpers.waiting import wait_for, wait_until
from tests.integration.application import Ingest
from tests.integration.hang_lab import ALLOWED_DECISIONS, CLUSTER, HangLab, command_of, watching
from tests.lab.hangs import UNGUARDED, commit_one, late_write, old_producer
from tests.lab.readers import waiting_reader

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns]

USER = "scope"


@contextmanager
def reading(version: str, tmp_path: Path, *topics: str) -> Iterator[BrokerWithAcls]:
    """Runs a broker on which transactions may hang. USER may read `topics`, and describe the cluster, all groups and
    all ids."""
    with BrokerWithAcls(version, tmp_path, [USER], UNGUARDED) as there:
        for topic in topics:
            there.allow(USER, acls.topic(topic), "READ")
        there.allow(USER, acls.group(), "DESCRIBE")
        there.allow(USER, acls.transactional_id(), "DESCRIBE")
        there.allow(USER, acls.cluster(), "DESCRIBE", "DESCRIBE_CONFIGS")
        yield there


@pytest.fixture
def guarded(version: str, tmp_path: Path) -> Iterator[BrokerWithAcls]:
    with reading(version, tmp_path, "*") as there:
        yield there


@contextmanager
def watching_as_user(guarded: BrokerWithAcls, directory: Path) -> Iterator[HangLab]:
    """Runs the application as USER. The test itself connects to the listener without authentication."""
    with Connection(guarded.admin, threading.Event()) as connection:
        old_producer(connection, "before")  # brokers create the log for the first producer
        as_user = ["--bootstrap-servers", guarded.bootstrap, "--kafka-config", str(guarded.properties(USER))]
        app = Ingest(guarded.admin, directory, *as_user, name=CLUSTER)
        with watching(app, guarded.broker, connection) as lab:
            yield lab


def partition(lab: HangLab, topic: str) -> Any:
    """Returns the partition, or None if the service does not have it yet."""
    answer = lab.rest.get(f"/api/v1/clusters/{CLUSTER}/partitions/{topic}/0")
    return answer.json() if answer.status_code == 200 else None


def grants(lab: HangLab) -> list[str]:
    """Returns the permissions that are missing, according to the REST answer about the cluster."""
    return [one["grant"] for one in lab.get("")["unknown"] if one["grant"]]


def not_judged(lab: HangLab, topic: str, because: str) -> Any:
    """Waits until the partition is reported as not judged for the reason `because`. Returns the partition."""

    return wait_until(
        lambda: partition(lab, topic),
        lambda found: bool(found) and not found["judged"] and because in (found["why"] or ""),
        f"{topic} to be not judged because of {because!r}; {lab.app.log}",
    )


@on("4.3.1")
def test_a_hidden_id_topic_or_group_causes_gaps_but_no_wrong_hang(
    version: str, guarded: BrokerWithAcls, tmp_path: Path
) -> None:
    guarded.deny(USER, acls.transactional_id("secret"), "DESCRIBE")
    guarded.deny(USER, acls.topic("vault"), "READ")
    guarded.deny(USER, acls.group("auditors"), "DESCRIBE")
    with watching_as_user(guarded, tmp_path) as lab:
        lab.app.wait_until_read()
        for topic in ("orders", "vault", "open"):
            lab.create_topic(topic)
        shop = old_producer(lab.connection, "shop-0")
        # the tested entries must not begin at the log start, because the owner of such an entry is not named
        for topic in ("orders", "open"):
            commit_one(shop, topic, 0)
        # a healthy transaction that ListTransactions hides: Kafka's find-hanging would call it hanging
        secret = old_producer(lab.connection, "secret", timeout_ms=600_000)
        secret.add("open", 0)
        secret.produce("open", 0, [b"still at it"])
        unseen = late_write(old_producer(lab.connection, "shop-1"), "vault", 0)
        seen = late_write(old_producer(lab.connection, "shop-2"), "orders", 0)
        with waiting_reader(guarded.admin, "auditors", "orders", expected=1):
            lab.wait_until_confirmed(seen)
            not_judged(lab, "vault", "grant READ on it")
            assert lab.wait_for_blocker("open", 0, "open")["transactional_id"] == "secret"
            gap = lab.wait_for_finding(Kind.COVERAGE_GAP, lambda one: True, group="auditors")
            assert "DESCRIBE" in finding_of(gap).observation.advice
            assert lab.groups("auditors") == []
            gap = lab.wait_for_finding(Kind.COVERAGE_GAP, lambda one: True, topic="vault")
            assert "READ" in finding_of(gap).observation.advice
        vault = lab.partition("vault")
        assert (vault["last_stable_offset"], vault["blocker"]) == (unseen.start_offset, None)
        assert "READ on topic vault" in grants(lab)
        lab.assert_nothing_hung("vault")
        lab.assert_nothing_hung("open")
        assert [one["subject"]["topic"] for one in lab.get("/hanging")["items"]] == ["orders"]


@on("3.9.2")
def test_hangs_are_likely_from_coordinator_answers_without_the_log(version: str, tmp_path: Path) -> None:
    topics = ("orders", "open", "hidden")
    with reading(version, tmp_path, *topics) as guarded:
        guarded.allow(USER, acls.topic(LOG), "DESCRIBE")
        guarded.deny(USER, acls.transactional_id("secret"), "DESCRIBE")
        with watching_as_user(guarded, tmp_path) as lab:
            for topic in topics:
                lab.create_topic(topic)
            keeper = old_producer(lab.connection, "keeper", timeout_ms=600_000)
            # the tested entries must not begin at the log start, because the owner of such an entry is not named
            for topic in topics:
                commit_one(keeper, topic, 0)
            keeper.add("open", 0)
            keeper.produce("open", 0, [b"still at it"])
            hang = late_write(old_producer(lab.connection, "shop-1"), "orders", 0)
            old_producer(lab.connection, "shop-1")  # the id continues with another epoch
            late_write(old_producer(lab.connection, "secret"), "hidden", 0)

            row = lab.wait_for_finding(Kind.HANGING, lambda one: one.status == Status.CONFIRMED, topic="orders")
            reported = (row.transactional_id, row.producer_id, row.producer_epoch, row.start_offset)
            assert reported == (b"shop-1", hang.producer_id, hang.producer_epoch, hang.start_offset)
            assert (row.confidence, row.decision, command_of(row)) == (Confidence.LIKELY, "unknown", None)
            assert lab.wait_for_blocker("orders", 0, "hanging")["blocking_now"]
            for topic in ("open", "hidden"):
                why = not_judged(lab, topic, "grant READ on it")["why"]
                assert LOG in why
                assert lab.partition(topic)["blocker"]["relation"] == "unknown"
            assert f"READ on topic {LOG}" in grants(lab)
            # the finding comes after half a minute, because brokers may be restarting
            (gap,) = wait_for(
                lambda: lab.app.findings(Kind.COVERAGE_GAP), f"the finding about the coverage gap; {lab.app.log}"
            )
            assert (gap.topic, "grant READ on it" in finding_of(gap).observation.title) == (LOG, True)
            lab.assert_nothing_hung("open")
            lab.assert_nothing_hung("hidden")

            guarded.allow(USER, acls.topic(LOG), "READ")
            lab.app.wait_until_read()
            known = lab.wait_for_finding(
                Kind.HANGING, lambda one: one.decision in ALLOWED_DECISIONS["none"], topic="orders"
            )
            assert (known.id, known.confidence, command_of(known) is None) == (row.id, Confidence.CERTAIN, False)
            found = lab.wait_for_finding(Kind.HANGING, lambda one: one.status == Status.CONFIRMED, topic="hidden")
            assert found.transactional_id == b"secret"
            assert found.decision in ALLOWED_DECISIONS["none"]
            assert lab.wait_for_blocker("open", 0, "open")["transactional_id"] == "keeper"
            lab.wait_for_finding(Kind.COVERAGE_GAP, lambda one: one.status == Status.RESOLVED, topic=LOG)
            lab.assert_nothing_hung("open")
