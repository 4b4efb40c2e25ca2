"""Tests that REST names each stalled source, with the time and the cause of its stall."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.api.http.fields import text_of_time
from service.app import create_app
from service.domain.source_state import Stall, StallCause
from service.store import lease
from service.views.cluster.sources import why_stalled
from tests.helpers.partitions import WithPartitions, moving_partition, unanswered_partition
from tests.helpers.reasons import reason
from tests.helpers.stores import NOW, NOW_MS, Id

LATER_MS = 134_000
ERROR = "no broker of kafka:9092 answers"
GONE = "no streaming application has read this cluster since 14:13:50 UTC"


def stored(cluster: WithPartitions) -> None:
    """Stores a successful read of both sources at NOW_MS."""
    cluster.read([Id(b"a")])
    cluster.look(moving_partition())
    lease.renew(cluster.engine, cluster.lease, NOW_MS)


pytestmark = pytest.mark.cluster(stored=stored)


def sources(cluster: WithPartitions, later_ms: int = LATER_MS) -> dict[str, dict[str, Any]]:
    with TestClient(create_app(cluster.url, now_ms=lambda: NOW_MS + later_ms)) as client:
        body = client.get("/api/v1/clusters/orders").json()
        assert client.get("/api/v1/clusters").json()["items"] == [body]
    return {source["source"]: source for source in body["sources"]}


def stalled(cluster: WithPartitions, later_ms: int = LATER_MS) -> dict[str, tuple[str | None, str | None]]:
    return {
        name: (one["stalled_since"], one["stalled_why"])
        for name, one in sources(cluster, later_ms).items()
        if (one["stalled_since"], one["stalled_why"]) != (None, None)
    }


def test_no_source_stalls_while_all_are_read(cluster: WithPartitions) -> None:
    assert stalled(cluster, 10_000) == {}


def test_an_application_that_died_stalls_every_source(cluster: WithPartitions) -> None:
    why = f"{GONE}; the last application died or makes no progress"
    assert stalled(cluster, 10_001) == {"partitions": (NOW, why), "transaction_state": (NOW, why)}


def test_an_application_that_was_stopped_is_the_reason_of_the_stall(cluster: WithPartitions) -> None:
    lease.release(cluster.engine, cluster.lease)
    assert set(stalled(cluster).values()) == {(NOW, f"{GONE}; the last application was stopped")}


def test_a_source_without_progress_stalls_alone(cluster: WithPartitions) -> None:
    at_ms = NOW_MS + LATER_MS - 500
    cluster.read(now_ms=at_ms)
    lease.renew(cluster.engine, cluster.lease, at_ms)
    ((name, (since, why)),) = stalled(cluster).items()
    assert (name, since) == ("partitions", NOW)
    assert why is not None
    assert why.startswith("the streaming application runs but reads nothing new")


def test_the_error_of_a_source_is_the_reason(cluster: WithPartitions) -> None:
    at_ms = NOW_MS + LATER_MS - 500
    cluster.look(at_ms=at_ms)
    cluster.read(now_ms=at_ms, trouble=ERROR)
    lease.renew(cluster.engine, cluster.lease, at_ms)
    assert stalled(cluster) == {"transaction_state": (NOW, ERROR)}
    assert sources(cluster)["transaction_state"]["error"] == ERROR


def test_the_error_of_an_ended_application_says_that_it_is_gone(cluster: WithPartitions) -> None:
    cluster.read(trouble=ERROR)
    assert stalled(cluster)["transaction_state"] == (NOW, f"{ERROR}; {GONE}")


def test_one_broker_that_is_away_stalls_no_sampling(cluster: WithPartitions) -> None:
    """An unreachable broker is reported as an error. Sampling goes on for the partitions of other brokers."""
    at_ms = NOW_MS + LATER_MS
    cluster.read(now_ms=at_ms)
    cluster.look(at_ms=at_ms, trouble="broker 2 does not answer")
    assert stalled(cluster) == {}
    assert sources(cluster)["partitions"]["error"] == "broker 2 does not answer"


def test_sampling_stalls_when_no_partition_answers_any_more(cluster: WithPartitions) -> None:
    """The metadata is still read, but no leader is reachable, or DESCRIBE was revoked."""
    at_ms = NOW_MS + LATER_MS
    cluster.look(unanswered_partition("broker 2 does not answer", 1), at_ms=NOW_MS + 1_000, trouble="1 of 2")
    assert "partitions" not in stalled(cluster, 1_000)
    cluster.read(now_ms=at_ms)
    lease.renew(cluster.engine, cluster.lease, at_ms)
    cluster.look(unanswered_partition(ERROR, 0, at_ms=NOW_MS + 5_000), at_ms=NOW_MS + 5_000, trouble=ERROR)
    cluster.look(at_ms=at_ms, trouble=ERROR)
    assert stalled(cluster) == {"partitions": (text_of_time(NOW_MS + 1_000), ERROR)}
    assert sources(cluster)["partitions"]["as_of"] == text_of_time(NOW_MS + 1_000)


def test_a_source_that_was_never_read_has_no_beginning(tmp_path: Path) -> None:
    cluster = WithPartitions(f"sqlite:///{tmp_path / 'new.db'}")
    cluster.read(trouble=ERROR)
    lease.renew(cluster.engine, cluster.lease, NOW_MS + LATER_MS)
    assert stalled(cluster) == {"transaction_state": (None, ERROR)}
    cluster.close()


def test_a_known_answer_is_sent_again_when_a_source_stalls(cluster: WithPartitions) -> None:
    now_ms = NOW_MS
    with TestClient(create_app(cluster.url, now_ms=lambda: now_ms)) as client:
        tag = client.get("/api/v1/clusters").headers["etag"]
        assert client.get("/api/v1/clusters", headers={"If-None-Match": tag}).status_code == 304
        now_ms += 10_001
        assert client.get("/api/v1/clusters", headers={"If-None-Match": tag}).status_code == 200


@pytest.mark.parametrize("cause", StallCause)
def test_every_cause_has_one_line(cause: StallCause) -> None:
    error = reason(ERROR) if cause is StallCause.FAILING else None
    why = why_stalled(Stall(cause, NOW_MS, error, NOW_MS, NOW_MS + 60_000), NOW_MS)
    assert why
    assert "\n" not in why
    assert not why.endswith(".")


def test_the_reason_of_a_stall_since_another_day_has_the_date() -> None:
    why = why_stalled(Stall(StallCause.LOST, NOW_MS, unread_since_ms=NOW_MS), NOW_MS + 86_400_000)
    assert "since 2026-09-21 14:13:50 UTC" in why
