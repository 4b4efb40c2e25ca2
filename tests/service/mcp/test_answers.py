"""Tests of single answers: their content in special cases, and the limits of their size."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from mcp import Client

from service.api.http.kafka import Kafka
from service.app import create_app
from service.domain.findings.finding import Subject
from service.domain.findings.kinds import Kind, Severity
from service.domain.partitions.facts import BatchOffsets, MarkerType, PartitionEnds
from service.domain.partitions.offset_spans import SpanBuilder
from service.domain.reasons.unread import NoLeader
from service.domain.transaction_log import states
from service.mcp.http import McpEndpoint
from service.store.writers.groups import GroupWriter
from service.views.partitions import offsets_reading
from tests.helpers.findings import observe
from tests.helpers.partitions import (
    LSO,
    PID,
    WithPartitions,
    entry,
    hanging_finding,
    moving_partition,
    read,
    stalled_partition,
    unanswered_partition,
)
from tests.helpers.servers import serving_app
from tests.helpers.stores import NOW_MS, Id, SeededCluster, open_id
from tests.service.mcp.talking import answered, ask, by_http, served, talk_to
from tests.service.store.histories import MINUTE, aborted, committed
from tests.service.store.logs import batch
from tests.service.store.logs import entry as logged
from tests.service.store.logs import read as read_log
from tests.service.waiting_groups import group, wait_behind


def one(stored: WithPartitions, tool: str, /, **arguments: Any) -> dict[str, Any]:
    with served(stored.url) as url:
        return answered(talk_to(url, "http"), tool, **arguments)


def test_only_fresh_data_and_judged_partitions_are_an_all_clear(cluster: WithPartitions) -> None:
    cluster.read([Id(b"pay")])
    cluster.look(moving_partition())
    (seen,) = one(cluster, "what_is_wrong")["clusters"]
    assert (seen["verdict"], seen["findings"]) == ("nothing_hangs", [])
    cluster.look(moving_partition(), unanswered_partition(NoLeader(), 1), at_ms=NOW_MS)
    (seen,) = one(cluster, "what_is_wrong")["clusters"]
    assert (seen["verdict"], seen["partitions"]["unknown"]) == ("not_certain", 1)
    assert {"kind": "partitions", "quoted": {"what": "orders-1", "why": "no leader"}} in seen["not_known"]


def test_a_source_that_stalls_is_named(cluster: WithPartitions) -> None:
    cluster.read([Id(b"pay")], now_ms=NOW_MS - 60_000)
    cluster.look(moving_partition())
    (seen,) = one(cluster, "what_is_wrong")["clusters"]
    assert seen["verdict"] == "not_certain"
    (stalled,) = seen["stalled_sources"]
    assert (stalled["source"], stalled["stalled_since"]) == ("transaction_state", "2026-09-21T14:12:50.123Z")


def test_a_pending_offset_leads_to_the_transaction_that_has_it(cluster: WithPartitions) -> None:
    wait_behind(cluster)
    found = one(cluster, "why_is_group_blocked", cluster="orders", group="eos")
    (place,) = found["partitions"]
    assert (found["is_blocked"], place["relation"], place["topic"]) == (True, "unstable_offsets", "orders")
    assert place["offset_is_pending_on"]["topic"] == "__consumer_offsets"


def test_a_group_that_is_not_seen_to_wait_has_a_note(cluster: WithPartitions) -> None:
    wait_behind(cluster)
    found = one(cluster, "why_is_group_blocked", cluster="orders", group="nobody")
    assert (found["is_blocked"], found["partitions"]) == (False, [])
    assert found["note"].startswith("No group of this name is known at a partition")
    assert "This is not certain: 2 of 52 watched partitions cannot be judged" in found["note"]
    idle = one(cluster, "why_is_group_blocked", cluster="orders", group="idle")
    assert (idle["is_blocked"], idle["partitions"][0]["relation"]) == (False, "inactive")


def test_a_history_explains_its_newest_abort(cluster: WithPartitions) -> None:
    log = [logged(0, states.EMPTY, at_ms=MINUTE - 300_000), *committed(1, MINUTE - 240_000)]
    log += [*aborted(4, MINUTE - 60_000), *committed(7, MINUTE)]
    cluster.writer.apply(batch(log, read_log(0, len(log))), NOW_MS)
    found = one(cluster, "history_of", cluster="orders", transactional_id="pay")
    assert (found["state"], found["counts"]["commits"], found["counts"]["aborts"]["client"]) == ("CompleteCommit", 2, 1)
    assert (found["newest_abort"]["cause"], found["newest_abort"]["confidence"]) == ("client_abort", "likely")
    assert found["newest_abort"]["why"].startswith("Aborted by its own client")
    assert found["timeline"][0]["commits"] == 1


def test_an_open_transaction_says_where_it_is_open_until_when(cluster: WithPartitions) -> None:
    cluster.read([open_id("pay", 20_000, *(f"t-{n}" for n in range(4)))])
    found = one(cluster, "history_of", cluster="orders", transactional_id="pay")
    assert (found["state"], found["times_out_at"]) == ("Ongoing", "2026-09-21T14:14:30.123Z")
    assert found["open_on"][0] == {"topic": "t-0", "partition": 0}
    assert (len(found["open_on"]), found["more_open_on"]) == (5, 3)


class _Log(Kafka):
    """Stands in for a Kafka cluster with one partition. `explained` provides the batches of the partition."""

    def __init__(self) -> None:
        super().__init__(None)

    @contextmanager
    def asking(self, cluster: Any) -> Iterator[Any]:
        yield None


@contextmanager
def explained(cluster: WithPartitions, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yields the address of a service whose partition orders-0 has an aborted, a committed and an open transaction."""
    pieces = [
        BatchOffsets(3, 6, 7, 3, True),
        BatchOffsets(6, 7, 7, 3, True, True, MarkerType.ABORT, NOW_MS - 1_000),
        BatchOffsets(7, 9, 8, 0, True),
        BatchOffsets(9, 10, 8, 0, True, True, MarkerType.COMMIT, NOW_MS - 500),
        BatchOffsets(12, 15, 9, 0, True),
    ]

    def read_(client: Any, place: PartitionEnds, walk: SpanBuilder, *bounds: Any) -> None:
        for piece in pieces:
            walk.add_batch(piece)
        walk.finish(15, 12, is_whole=True)

    monkeypatch.setattr(offsets_reading, "find", lambda *_: PartitionEnds("orders", 0, "T", 1, 5, 0, 12, 15))
    monkeypatch.setattr(offsets_reading, "read", read_)
    app = create_app(cluster.url, "1.2.3", now_ms=lambda: NOW_MS, mcp=McpEndpoint("1.2.3"))
    app.state.txnscope = replace(app.state.txnscope, kafka=_Log())
    with serving_app(app) as url:
        yield url


def test_an_offset_has_its_writer_its_outcome_and_its_readers(
    cluster: WithPartitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.read([Id(b"pay", producer_id=7), Id(b"etl", producer_id=8)])
    cluster.look(moving_partition())

    async def look(client: Client) -> list[dict[str, Any]]:
        place = {"cluster": "orders", "topic": "orders", "partition": 0}
        return [await ask(client, "explain_offset", **place, offset=offset) for offset in (4, 8, 12, 1)]

    with explained(cluster, monkeypatch) as url:
        dead, live, pending, gone = by_http(url, look)
    assert (dead["kind"], dead["transactional_id"], dead["marker"], dead["marker_offset"]) == (
        "aborted",
        "pay",
        "ABORT",
        6,
    )
    assert (dead["ended_at"], dead["readers"]) == ("2026-09-21T14:13:49.123Z", "read_committed consumers skip it.")
    assert (dead["only_aborted"]["records"], dead["only_aborted"]["first_readable"]) == (2, 7)
    assert dead["only_aborted"]["owners"] == [{"producer_id": 7, "transactions": 1, "transactional_id": "pay"}]
    assert (live["kind"], live["transactional_id"], live["last_stable_offset"]) == ("committed", "etl", 110)
    assert pending["kind"] == "open"
    assert pending["readers"] == "read_committed consumers get nothing from here on until its transaction ends."
    assert pending["findings"] == []
    assert gone["kind"] == "gap"


def test_a_committed_hang_has_no_command_of_kafkas(cluster: WithPartitions) -> None:
    cluster.read([Id(b"pay", producer_id=PID)])
    cluster.look(stalled_partition(), read(entry()))
    cluster.see(hanging_finding(decision="commit"))
    (finding,) = one(cluster, "what_is_wrong")["clusters"][0]["findings"]
    assert finding["decision"] == "commit"
    assert "command" not in finding
    assert finding["dry_run"].startswith("txnscope resolve ")
    assert finding["advice"].startswith("Do not abort this transaction")


def test_answers_stay_short_where_everything_is_wrong(cluster: WithPartitions) -> None:
    """Each of 200 ids has a hanging and an overdue transaction, 301 groups wait, and there are 12 more clusters."""
    cluster.read([Id(b"pay-%03d" % n, producer_id=n) for n in range(200)])
    cluster.look(stalled_partition(), *(stalled_partition(n) for n in range(1, 60)), read(entry()))
    names = [f"group-{n:03d}" for n in range(300)]
    waiting = [group("billing", LSO, partition=n) for n in range(60)]
    GroupWriter(cluster.engine, cluster.lease).replace([*waiting, *(group(name, LSO) for name in names)], NOW_MS)
    hangs = [
        hanging_finding(n % 60, n, b"pay-%03d" % n)._replace(
            subject=Subject("orders", n % 60, b"pay-%03d" % n, n, 3, LSO), blocked_groups=tuple(names)
        )
        for n in range(200)
    ]
    overdue = [observe(Kind.OVERDUE, name=b"pay-%03d" % n, severity=Severity.CRITICAL) for n in range(200)]
    cluster.see(*hangs, *overdue)
    others = [SeededCluster(cluster.url, f"other-{n:02d}") for n in range(12)]

    async def look(client: Client) -> list[dict[str, Any]]:
        return [
            await ask(client, "what_is_wrong"),
            await ask(client, "what_is_wrong", cluster="orders"),
            await ask(client, "why_is_group_blocked", cluster="orders", group="billing"),
            await ask(client, "history_of", cluster="orders", transactional_id="pay-007"),
        ]

    with served(cluster.url) as url:
        everything, orders, blocked, history = by_http(url, look)
    for answer in (everything, orders, blocked, history):
        assert len(json.dumps(answer)) < 16_000
    assert [len(everything["clusters"]), len(everything["other_clusters"]), everything["more_clusters"]] == [5, 5, 3]
    assert everything["clusters"][0]["cluster"] == "orders"
    (seen,) = orders["clusters"]
    assert (seen["hanging_transactions"], len(seen["findings"]), seen["more_findings"]) == (200, 8, 392)
    assert {finding["kind"] for finding in seen["findings"]} == {"hanging_transaction"}
    first = seen["findings"][0]
    assert (len(first["blocked_groups"]), first["more_blocked_groups"]) == (5, 295)
    assert (len(blocked["partitions"]), blocked["more_partitions"]) == (3, 57)
    assert len(history["findings"]) == 2
    for other in others:
        other.close()
