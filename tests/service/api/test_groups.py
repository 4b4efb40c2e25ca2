"""Tests of consumer groups behind open transactions: over REST, at a terminal, and as a metric."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from service.domain.partitions.group_offsets import OFFSETS_TOPIC, IsolationLevel, offsets_partition
from service.store.writers.groups import GroupWriter
from tests.helpers.partitions import END, LSO, PID, WithPartitions, moving_partition, stalled_partition
from tests.helpers.stores import INT64_MAX, NOW, NOW_MS, client_of
from tests.helpers.terminal import Ask
from tests.service.api.answers import get, items
from tests.service.waiting_groups import HOME, WAITING, group, wait_behind

PATH = "/api/v1/clusters/orders/groups"


pytestmark = pytest.mark.cluster(stored=wait_behind)


def test_each_group_has_both_lags_and_its_relation_to_the_lso(cluster: WithPartitions) -> None:
    page = get(cluster, PATH)
    assert page["as_of"] == NOW
    at, *others = page["items"]
    assert at == {
        "group": "at",
        "topic": "orders",
        "partition": 0,
        "committed_offset": LSO,
        "last_stable_offset": LSO,
        "high_watermark": END,
        "lag_to_lso": 0,
        "lag_to_hw": END - LSO,
        "members": 2,
        "relation": "stopped",
        "confidence": "likely",
        "isolation_level": None,
        "offsets_partition": None,
        "producer_id": None,
        "application": None,
        "observed_at": NOW,
    }
    assert [(one["group"], one["relation"], one["lag_to_lso"], one["lag_to_hw"]) for one in others] == [
        ("below", "will_stop", 5, 15),
        ("beyond", "unknown", LSO - END, 0),
        ("eos", "unstable_offsets", END - 7, END - 7),
        ("idle", "inactive", 0, END - LSO),
    ]
    assert others[2]["partition"] == 1
    assert others[2]["offsets_partition"] == HOME
    assert others[0]["members"] is None


def test_members_without_an_offset_and_share_groups_are_listed(cluster: WithPartitions) -> None:
    share = group("workers", LSO - 3)._replace(
        isolation=IsolationLevel.READ_COMMITTED, lso=LSO, has_records_ahead=False
    )
    dirty = group("dirty", -1)._replace(isolation=IsolationLevel.READ_UNCOMMITTED)
    GroupWriter(cluster.engine, cluster.lease).replace([group("new", -1), share, dirty], NOW_MS)
    first, new, workers = get(cluster, PATH)["items"]
    assert (new["relation"], new["committed_offset"], new["lag_to_lso"], new["members"]) == ("unknown", None, None, 2)
    assert (workers["relation"], workers["isolation_level"]) == ("stopped", "read_committed")
    assert (first["relation"], first["confidence"], first["isolation_level"]) == (
        "reads_uncommitted",
        "certain",
        "read_uncommitted",
    )
    assert [one["group"] for one in get(cluster, PATH + "?blocked=true")["items"]] == ["workers"]


def test_no_group_is_listed_where_the_lso_is_at_the_high_watermark(cluster: WithPartitions) -> None:
    """The size of the group's lag does not matter."""
    later = NOW_MS + 1_000
    cluster.look(moving_partition(at_ms=later), moving_partition(HOME, OFFSETS_TOPIC, at_ms=later), at_ms=later)
    assert get(cluster, PATH)["items"] == []


def test_a_group_whose_first_commit_is_pending_has_no_offset(cluster: WithPartitions) -> None:
    name = next(name for name in (f"first-{n}" for n in range(10_000)) if offsets_partition(name, 50) == HOME)
    seen = group(name, -1, is_unstable=True, partition=3)._replace(producer_id=PID)
    GroupWriter(cluster.engine, cluster.lease).replace([seen], NOW_MS)
    (one,) = get(cluster, PATH)["items"]
    assert (one["offsets_partition"], one["producer_id"]) == (HOME, PID)
    without = seen._replace(members=0, producer_id=None)
    GroupWriter(cluster.engine, cluster.lease).replace([without], NOW_MS)
    (idle,) = get(cluster, PATH)["items"]
    assert (idle["relation"], idle["offsets_partition"], idle["producer_id"]) == ("inactive", HOME, None)
    assert (one["relation"], one["committed_offset"], one["lag_to_lso"], one["lag_to_hw"]) == (
        "unstable_offsets",
        None,
        None,
        None,
    )
    assert (one["last_stable_offset"], one["high_watermark"]) == (None, None), "orders-3 is not watched"


def test_groups_are_filtered_by_blocked_on_every_page(cluster: WithPartitions) -> None:
    assert [one["group"] for one in get(cluster, PATH + "?blocked=true")["items"]] == ["at", "below", "eos"]
    assert [one["group"] for one in get(cluster, PATH + "?blocked=false")["items"]] == ["beyond", "idle"]
    assert [one["group"] for one in get(cluster, PATH + "?group=below")["items"]] == ["below"]
    assert get(cluster, PATH + "?group=below&blocked=false")["items"] == []
    cursor = get(cluster, PATH + "?blocked=true&limit=1")["next_cursor"]
    with client_of(cluster.url) as client:
        assert [one["group"] for one in items(client, PATH + "?blocked=true&limit=1")] == ["at", "below", "eos"]
        assert client.get(f"{PATH}?cursor={cursor}").status_code == 400
        assert client.get(f"{PATH}?cursor=nonsense").status_code == 400
        assert client.get(f"{PATH}?block=true").status_code == 422
        assert client.get(PATH.replace("orders", "other")).status_code == 404


def test_a_group_is_found_by_its_own_name_and_by_the_one_that_is_shown(cluster: WithPartitions) -> None:
    GroupWriter(cluster.engine, cluster.lease).replace([group("odd\n", LSO)], NOW_MS)
    for name in ("odd%0A", "odd%5Cn"):
        (one,) = get(cluster, f"{PATH}?group={name}")["items"]
        assert one["group"] == "odd\\n"


def test_before_the_first_sample_the_list_of_groups_is_empty(tmp_path: Path) -> None:
    cluster = WithPartitions(f"sqlite:///{tmp_path / 'store.db'}")
    assert get(cluster, PATH) == {"items": [], "next_cursor": None, "as_of": None}
    cluster.close()


def test_wide_offsets_of_groups_have_digits_as_text(cluster: WithPartitions) -> None:
    ends: dict[str, Any] = {"last_stable_offset": INT64_MAX - 9, "high_watermark": INT64_MAX}
    cluster.look(stalled_partition(2, **ends))
    GroupWriter(cluster.engine, cluster.lease).replace([group("at", 0, partition=2)], NOW_MS)
    (one,) = get(cluster, PATH)["items"]
    assert one["lag_to_hw_str"] == str(INT64_MAX)
    assert {key for key in one if key.endswith("_str")} == {
        "last_stable_offset_str",
        "high_watermark_str",
        "lag_to_lso_str",
        "lag_to_hw_str",
    }


def test_the_terminal_prints_groups_as_a_table(cluster: WithPartitions, ask: Ask) -> None:
    code, out, err = ask("groups")
    heads, at, below, _, eos, _ = out.splitlines()
    assert (code, heads.split()[:4]) == (0, ["GROUP", "PARTITION", "RELATION", "COMMITTED"])
    assert at.split() == ["at", "orders-0", "stopped,", "likely", "100", "100", "0", "10", "2", NOW]
    assert below.split()[-2] == "-"
    assert f"unstable_offsets (__consumer_offsets-{HOME})" in eos
    assert err == f"5 rows as of {NOW}\n"
    assert len(ask("groups", "--blocked")[1].splitlines()) == 4
    short = group("short", LSO - 1)._replace(lso=LSO, has_records_ahead=False)
    GroupWriter(cluster.engine, cluster.lease).replace([*WAITING, short], NOW_MS)
    assert "stopped, likely" in ask("groups")[1]
    code, out, err = ask("groups", "--blocked", "--limit", "1", "--json")
    page = json.loads(out)
    assert ([one["group"] for one in page["items"]], bool(page["next_cursor"])) == (["at"], True)
    assert "there are more (--limit)" in ask("groups", "--limit", "1")[2]


def test_each_blocked_group_is_a_metric_series(cluster: WithPartitions) -> None:
    with client_of(cluster.url) as client:
        page = client.get("/metrics").text
    lines = [line for line in page.splitlines() if line.startswith("kafka_txn_group_blocked{")]
    assert lines == [
        'kafka_txn_group_blocked{cluster="orders",group="at",partition="0",topic="orders"} 1.0',
        'kafka_txn_group_blocked{cluster="orders",group="below",partition="0",topic="orders"} 1.0',
        'kafka_txn_group_blocked{cluster="orders",group="eos",partition="1",topic="orders"} 1.0',
    ]
