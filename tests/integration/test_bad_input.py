"""Tests of bad input in a cluster: no record is lost or skipped silently, and reading continues."""

from __future__ import annotations

import sqlite3
import struct
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from deploy.demo.broker import Broker
from service.domain.reasons.unread import NoPermission
from service.domain.transaction_log.states import TOPIC
from service.store.schema import partition_watch, rejects
from tests.conftest import MakeBroker
from tests.helpers.builders.transaction_log import key
from tests.helpers.waiting import ANSWER_S, wait_for, wait_until, wait_until_equal
from tests.integration.application import Ingest, ingesting, log_starts
from tests.integration.producers import (
    admin_of,
    configure_topic,
    create_topic,
    internal_producer,
    open_producer,
    transact,
)

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns]

US = (ResourceType.TOPIC, TOPIC, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*")
ONE_PARTITION = {"transaction.state.log.num.partitions": 1}


def observed_at_ms(app: Ingest) -> int:
    (row,) = app.rows(partition_watch)
    return int(row.observed_at_ms)


def plant(broker: Broker, record_key: bytes | None, value: bytes | None) -> None:
    producer = internal_producer(broker.bootstrap)
    producer.produce(TOPIC, key=record_key, value=value, partition=0)
    assert producer.flush(ANSWER_S) == 0


def test_records_of_unknown_versions_are_kept_raw_and_reading_continues(
    make_broker: MakeBroker, tmp_path: Path
) -> None:
    broker = make_broker("4.3.1", **ONE_PARTITION)
    create_topic(broker.bootstrap, "future")
    with ingesting(broker.bootstrap, tmp_path) as app:
        good = open_producer(broker.bootstrap, "good")
        transact(good, "future")
        app.wait_for_counts({"good": (1, 0)})  # a commit returns before its last record is written
        plant(broker, key(b"later"), struct.pack(">h", 7) + b"of the future")
        plant(broker, struct.pack(">h", 5) + b"\x00\x02id", b"anything")
        plant(broker, key(b"good"), struct.pack(">h", 9))
        app.wait_until_read()
        assert sorted((r.reason, r.transactional_id, r.value) for r in app.rows(rejects)) == [
            ("unknown_key_version", None, b"anything"),
            ("unknown_value_version", b"good", struct.pack(">h", 9)),
            ("unknown_value_version", b"later", struct.pack(">h", 7) + b"of the future"),
        ]
        assert (app.ids()["later"].state, app.ids()["good"].state) == ("Unknown", "Unknown")
        transact(good, "future")
        app.wait_for_counts({"good": (2, 0), "later": (0, 0)})
        assert app.ids()["good"].state == "CompleteCommit"


def test_records_deleted_by_retention_before_the_read_are_a_gap(make_broker: MakeBroker, tmp_path: Path) -> None:
    broker = make_broker("3.9.2", **ONE_PARTITION, **{"log.retention.check.interval.ms": 300})
    create_topic(broker.bootstrap, "retained")
    with ingesting(broker.bootstrap, tmp_path) as app:
        producer = open_producer(broker.bootstrap, "retained")
        transact(producer, "retained")
        app.wait_for_counts({"retained": (1, 0)})
        assert app.stop() == 0
        configure_topic(broker.bootstrap, TOPIC, {"cleanup.policy": "delete", "retention.ms": "1", "segment.ms": "100"})

        def passed() -> bool:
            transact(producer, "retained")
            time.sleep(0.3)
            return log_starts(broker.bootstrap)[0] > 4

        wait_for(passed, "the log start to pass the stored position")
        configure_topic(broker.bootstrap, TOPIC, {"cleanup.policy": "compact"})
        app.start()
        wait_for(app.gaps, f"the gap; {app.log}")
        app.wait_until_read()
        assert app.gaps() == ["retention"]
        assert app.ids()["retained"].state == "CompleteCommit"


def test_a_locked_store_takes_the_batch_once_it_is_unlocked(make_broker: MakeBroker, tmp_path: Path) -> None:
    broker = make_broker("4.3.1", **ONE_PARTITION)
    create_topic(broker.bootstrap, "locked")
    with ingesting(broker.bootstrap, tmp_path) as app:
        producer = open_producer(broker.bootstrap, "locked")
        transact(producer, "locked")
        app.wait_for_counts({"locked": (1, 0)})
        other = sqlite3.connect(tmp_path / "txnscope.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        for _ in range(5):
            transact(producer, "locked", commit=False)
        wait_for(
            lambda: "the store does not take the batch" in app.log.read_text(),
            "the log line about the unavailable store",
        )
        other.execute("ROLLBACK")
        other.close()
        app.wait_for_counts({"locked": (1, 5)})
        assert app.gaps() == []


@pytest.mark.parametrize(
    ("version", "allowed", "grant"),
    [("4.3.1", [], "DESCRIBE and READ"), ("3.9.2", [AclOperation.DESCRIBE], "READ")],
    ids=["nothing allowed", "only DESCRIBE allowed"],
)
def test_a_missing_permission_is_named_with_what_to_grant(
    version: str, make_broker: MakeBroker, tmp_path: Path, allowed: list[AclOperation], grant: str
) -> None:
    authorizing = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    broker = make_broker(version, **ONE_PARTITION, **authorizing)
    create_topic(broker.bootstrap, "secret")
    with ingesting(broker.bootstrap, tmp_path) as app:
        producer = open_producer(broker.bootstrap, "secret")
        transact(producer, "secret")
        app.wait_for_counts({"secret": (1, 0)})
        acls = [AclBinding(*US, operation, AclPermissionType.ALLOW) for operation in allowed]
        acls.append(AclBinding(*US, AclOperation.READ, AclPermissionType.DENY))
        admin = admin_of(broker.bootstrap)
        for created in admin.create_acls(acls).values():
            created.result(ANSWER_S)
        transact(producer, "secret")
        reported = NoPermission(TOPIC, tuple(grant.split(" and ")))
        wait_until_equal(app.log_trouble, reported, f"the reported error ({app.log})")
        (as_of,), then = [r.as_of_ms for r in app.log_status()], observed_at_ms(app)
        wait_until(lambda: observed_at_ms(app), lambda now: now > then + 2_000, "later samples of the partitions")
        assert [r.as_of_ms for r in app.log_status()] == [as_of]
        ours = AclBindingFilter(*US, AclOperation.ANY, AclPermissionType.ANY)
        for revoked in admin.delete_acls([ours]).values():
            revoked.result(ANSWER_S)
        app.wait_for_counts({"secret": (2, 0)})
