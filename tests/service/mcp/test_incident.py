"""Tests that a language model gets all facts of an incident in a few calls, by each transport."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client

from service.domain.reasons.hanging import HangCause, HangReason, Proven
from service.store.writers.groups import GroupWriter
from tests.helpers.partitions import (
    LSO,
    PID,
    WithPartitions,
    entry,
    hanging_finding,
    moving_partition,
    read,
    stalled_partition,
)
from tests.helpers.stores import NOW, NOW_MS, Id
from tests.service.mcp.talking import TRANSPORTS, ask, served, talk_to
from tests.service.waiting_groups import group

ABORT = "kafka-transactions.sh --bootstrap-server b:9092 abort --topic orders --partition 0 --start-offset 100"


def hang(cluster: WithPartitions) -> None:
    """Stores an incident: a late write of `pay` hangs on orders-0, and the group `billing` waits behind it."""
    cluster.read([Id(b"pay", producer_id=PID, producer_epoch=4, aborts=1, commits=3)])
    cluster.look(stalled_partition(), moving_partition(1), read(entry()))
    GroupWriter(cluster.engine, cluster.lease).replace([group("billing", LSO)], NOW_MS)
    reason = HangReason(HangCause.LATE, 0, False, Proven("none"), is_behind=False)
    found = hanging_finding(decision="none", bootstrap="b:9092", reason=reason, blocked_groups=("billing",))
    cluster.see(found)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.cluster(stored=hang)
def test_an_incident_is_understood_in_three_calls(cluster: WithPartitions, transport: str) -> None:
    async def investigate(client: Client) -> list[dict[str, Any]]:
        first = await ask(client, "what_is_wrong")
        (seen,) = first["clusters"]
        (finding,) = seen["findings"]
        (waiting,) = finding["blocked_groups"]
        blocked = await ask(client, "why_is_group_blocked", cluster=seen["cluster"], group=waiting)
        id_ = finding["subject"]["transactional_id"]
        return [seen, blocked, await ask(client, "history_of", cluster=seen["cluster"], transactional_id=id_)]

    with served(cluster.url) as url:
        seen, blocked, history = talk_to(url, transport)(investigate)
    assert (seen["cluster"], seen["verdict"], seen["hanging_transactions"], seen["as_of"]) == (
        "orders",
        "hangs",
        1,
        NOW,
    )
    (finding,) = seen["findings"]
    assert finding["subject"] == {
        "partition": 0,
        "producer_id": PID,
        "producer_epoch": 3,
        "start_offset": LSO,
        "transactional_id": "pay",
        "topic": "orders",
    }
    assert (finding["kind"], finding["severity"], finding["status"]) == ("hanging_transaction", "critical", "confirmed")
    assert finding["cause"] == (
        "written after the marker of its transaction, or without adding the partition to a transaction"
    )
    assert finding["outlook"] == "no coordinator is set to end it"
    assert (finding["decision"], finding["command"]) == ("none", ABORT)
    assert finding["dry_run"] == f"txnscope resolve {finding['id']} --cluster orders --key-file FILE"
    assert "write an ABORT marker with the command" in finding["advice"]
    assert finding["runbook"] == "txnscope://runbooks/KafkaTransactionHanging"

    assert blocked["is_blocked"] is True
    (place,) = blocked["partitions"]
    assert (place["topic"], place["partition"], place["relation"], place["lag_to_lso"]) == ("orders", 0, "stopped", 0)
    assert place["held_up_by"]["start_offset"] == LSO
    assert [finding["id"] for finding in place["findings"]] == [finding["id"]]

    assert (history["transactional_id"], history["producer_epoch"], history["counts"]["commits"]) == ("pay", 4, 3)
    assert history["counts"]["aborts"]["unattributed"] == 1
