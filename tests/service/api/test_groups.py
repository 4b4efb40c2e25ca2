"""Consumer groups behind open transactions, over REST, at a terminal, and as a metric."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from service.app import create_app
from service.cli import main
from service.domain.partitions.blocked_groups import OFFSETS_TOPIC, GroupOffset, IsolationLevel, offsets_partition
from service.store.writers.groups import GroupWriter
from tests.helpers.partitions import END, LSO, PID, WithPartitions, moving_partition, stalled_partition
from tests.helpers.stores import INT64_MAX, NOW, NOW_MS, client_of

PATH = "/api/v1/clusters/orders/groups"
HOME = offsets_partition("eos", 50)
HOMES = [moving_partition(number, OFFSETS_TOPIC) for number in range(50) if number != HOME]

Ask = Callable[..., tuple[int, str, str]]


def group(
    name: str, offset: int, *, partition: int = 0, members: int | None = 2, is_unstable: bool = False
) -> GroupOffset:
    return GroupOffset(name, "orders", partition, offset, members, is_unstable)


SEEN = [
    group("at", LSO),
    group("below", LSO - 5, members=None),
    group("beyond", END),
    group("idle", LSO, members=0),
    group("healthy", END - 1, partition=1),
    group("eos", 7, partition=1, is_unstable=True),
    group("first", -1, partition=1, is_unstable=True),
]


def stored(cluster: WithPartitions) -> None:
    """orders-0 and the home of the offsets of `eos` stand; orders-1 does not."""
    cluster.look(stalled_partition(), moving_partition(1), stalled_partition(HOME, OFFSETS_TOPIC), *HOMES)
    GroupWriter(cluster.engine, cluster.lease).replace(SEEN, NOW_MS)


pytestmark = pytest.mark.cluster(stored=stored)


def get(cluster: WithPartitions, query: str = "") -> Any:
    with client_of(cluster.url) as client:
        response = client.get(PATH + query)
    assert response.status_code == 200, response.text
    return response.json()


def test_each_group_with_both_lags_and_its_relation(cluster: WithPartitions) -> None:
    page = get(cluster)
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


def test_members_without_an_offset_and_share_groups(cluster: WithPartitions) -> None:
    share = group("workers", LSO - 3)._replace(
        isolation=IsolationLevel.READ_COMMITTED, lso=LSO, has_records_ahead=False
    )
    dirty = group("dirty", -1)._replace(isolation=IsolationLevel.READ_UNCOMMITTED)
    GroupWriter(cluster.engine, cluster.lease).replace([group("new", -1), share, dirty], NOW_MS)
    first, new, workers = get(cluster)["items"]
    assert (new["relation"], new["committed_offset"], new["lag_to_lso"], new["members"]) == ("unknown", None, None, 2)
    assert (workers["relation"], workers["isolation_level"]) == ("stopped", "read_committed")
    assert (first["relation"], first["confidence"], first["isolation_level"]) == (
        "reads_uncommitted",
        "certain",
        "read_uncommitted",
    )
    assert [one["group"] for one in get(cluster, "?blocked=true")["items"]] == ["workers"]


def test_nobody_is_listed_where_the_lso_is_at_the_high_watermark(cluster: WithPartitions) -> None:
    """Whatever was seen before, and however far behind they are."""
    later = NOW_MS + 1_000
    cluster.look(moving_partition(at_ms=later), moving_partition(HOME, OFFSETS_TOPIC, at_ms=later), at_ms=later)
    assert get(cluster)["items"] == []


def test_a_first_commit_that_is_pending_has_no_offset(cluster: WithPartitions) -> None:
    name = next(name for name in (f"first-{n}" for n in range(10_000)) if offsets_partition(name, 50) == HOME)
    seen = group(name, -1, is_unstable=True, partition=3)._replace(producer_id=PID)
    GroupWriter(cluster.engine, cluster.lease).replace([seen], NOW_MS)
    (one,) = get(cluster)["items"]
    assert (one["offsets_partition"], one["producer_id"]) == (HOME, PID)
    without = seen._replace(members=0, producer_id=None)
    GroupWriter(cluster.engine, cluster.lease).replace([without], NOW_MS)
    (idle,) = get(cluster)["items"]
    assert (idle["relation"], idle["offsets_partition"], idle["producer_id"]) == ("inactive", HOME, None)
    assert (one["relation"], one["committed_offset"], one["lag_to_lso"], one["lag_to_hw"]) == (
        "unstable_offsets",
        None,
        None,
        None,
    )
    assert (one["last_stable_offset"], one["high_watermark"]) == (None, None), "orders-3 is not watched"


def test_blocked_or_not_page_after_page(cluster: WithPartitions) -> None:
    assert [one["group"] for one in get(cluster, "?blocked=true")["items"]] == ["at", "below", "eos"]
    assert [one["group"] for one in get(cluster, "?blocked=false")["items"]] == ["beyond", "idle"]
    seen: list[str] = []
    query = "?blocked=true&limit=1"
    while True:
        page = get(cluster, query)
        seen += [one["group"] for one in page["items"]]
        if page["next_cursor"] is None:
            break
        query = f"?blocked=true&limit=1&cursor={page['next_cursor']}"
    assert seen == ["at", "below", "eos"]
    cursor = get(cluster, "?blocked=true&limit=1")["next_cursor"]
    with client_of(cluster.url) as client:
        assert client.get(f"{PATH}?cursor={cursor}").status_code == 400
        assert client.get(f"{PATH}?cursor=nonsense").status_code == 400
        assert client.get(f"{PATH}?block=true").status_code == 422
        assert client.get(PATH.replace("orders", "other")).status_code == 404


def test_before_anything_was_looked_at_there_is_nothing_to_say(tmp_path: Path) -> None:
    cluster = WithPartitions(f"sqlite:///{tmp_path / 'store.db'}")
    assert get(cluster) == {"items": [], "next_cursor": None, "as_of": None}
    cluster.close()


def test_wide_offsets_are_spelt_out(cluster: WithPartitions) -> None:
    ends: dict[str, Any] = {"last_stable_offset": INT64_MAX - 9, "high_watermark": INT64_MAX}
    cluster.look(stalled_partition(2, **ends))
    GroupWriter(cluster.engine, cluster.lease).replace([group("at", 0, partition=2)], NOW_MS)
    (one,) = get(cluster)["items"]
    assert one["lag_to_hw_str"] == str(INT64_MAX)
    assert {key for key in one if key.endswith("_str")} == {
        "last_stable_offset_str",
        "high_watermark_str",
        "lag_to_lso_str",
        "lag_to_hw_str",
    }


@pytest.fixture
def ask(cluster: WithPartitions, capsys: pytest.CaptureFixture[str]) -> Iterator[Ask]:
    """`txnscope groups …` against a service of the cluster's store: exit code, stdout, stderr."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(cluster.url, "1.2.3"), log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["groups", "--url", f"http://127.0.0.1:{listening.getsockname()[1]}", *arguments])
        return code, *capsys.readouterr()

    yield run
    server.should_exit = True
    thread.join()
    listening.close()


def test_a_table_for_people(cluster: WithPartitions, ask: Ask) -> None:
    code, out, err = ask()
    heads, at, below, _, eos, _ = out.splitlines()
    assert (code, heads.split()[:4]) == (0, ["GROUP", "PARTITION", "RELATION", "COMMITTED"])
    assert at.split() == ["at", "orders-0", "stopped,", "likely", "100", "100", "0", "10", "2", NOW]
    assert below.split()[-2] == "-"
    assert f"unstable_offsets (__consumer_offsets-{HOME})" in eos
    assert err == f"5 rows as of {NOW}\n"
    assert len(ask("--blocked")[1].splitlines()) == 4
    short = group("short", LSO - 1)._replace(lso=LSO, has_records_ahead=False)
    GroupWriter(cluster.engine, cluster.lease).replace([*SEEN, short], NOW_MS)
    assert "stopped, likely" in ask()[1]
    code, out, err = ask("--blocked", "--limit", "1", "--json")
    page = json.loads(out)
    assert ([one["group"] for one in page["items"]], bool(page["next_cursor"])) == (["at"], True)
    assert "there are more (--limit)" in ask("--limit", "1")[2]


def test_blocked_groups_are_series(cluster: WithPartitions) -> None:
    with client_of(cluster.url) as client:
        page = client.get("/metrics").text
    lines = [line for line in page.splitlines() if line.startswith("kafka_txn_group_blocked{")]
    assert lines == [
        'kafka_txn_group_blocked{cluster="orders",group="at",partition="0",topic="orders"} 1.0',
        'kafka_txn_group_blocked{cluster="orders",group="below",partition="0",topic="orders"} 1.0',
        'kafka_txn_group_blocked{cluster="orders",group="eos",partition="1",topic="orders"} 1.0',
    ]
