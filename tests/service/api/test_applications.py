"""Tests of applications over REST and on the command line: the numbers of each application, and the filter
`application` of every list."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from tests.helpers.partitions import SINCE_MS, WithPartitions
from tests.helpers.stores import NOW, NOW_MS, client_of
from tests.helpers.terminal import Ask
from tests.service.api.answers import get, items
from tests.service.applications import SHOP, assign, with_applications

CLUSTER = "/api/v1/clusters/orders"
PATH = f"{CLUSTER}/applications"

pytestmark = pytest.mark.cluster(stored=with_applications)


def test_an_application_has_every_promised_field(cluster: WithPartitions) -> None:
    page = get(cluster, PATH)
    assert page["as_of"] == NOW
    idle, shop = page["items"]
    assert shop == {
        "name": SHOP,
        "kinds": ["kafka_streams"],
        "ids": 2,
        "states": {
            "Empty": 0,
            "Ongoing": 1,
            "PrepareCommit": 0,
            "PrepareAbort": 0,
            "CompleteCommit": 1,
            "CompleteAbort": 0,
            "Unknown": 0,
        },
        "open": 1,
        "oldest_open_at": "2026-09-21T14:13:30.123Z",
        "counts": {
            "since": None,
            "commits": 0,
            "aborts": {"client": 0, "timeout": 0, "fenced": 0, "admin": 0, "unattributed": 0},
        },
        "failed_share": None,
        "blocked_partitions": [{"topic": "orders", "partition": 0}],
        "blocked_groups": ["at", "below"],
        "href": f"{PATH}/{quote(SHOP, safe='')}",
    }
    assert SINCE_MS < NOW_MS
    assert (idle["name"], idle["kinds"], idle["open"], idle["oldest_open_at"]) == ("batch", [], 0, None)
    assert (idle["counts"]["since"], idle["counts"]["commits"], idle["failed_share"]) == (NOW, 1, 0.0)
    assert idle["counts"]["aborts"]["client"] == 1
    assert (idle["blocked_partitions"], idle["blocked_groups"]) == ([], [])


def test_one_application_is_found_by_its_link(cluster: WithPartitions) -> None:
    _, shop = get(cluster, PATH)["items"]
    one = get(cluster, shop["href"])
    assert one.pop("as_of") == NOW
    assert one == shop


@pytest.mark.parametrize("name", ["nobody", "shop", "%00", "x" * 300])
def test_an_unknown_application_is_named_in_the_error(cluster: WithPartitions, name: str) -> None:
    problem = get(cluster, f"{PATH}/{name}", 404)
    assert problem["type"] == "urn:txnscope:no-such-application"
    assert "cluster 'orders' has no application" in problem["detail"]


def test_applications_come_page_by_page(cluster: WithPartitions) -> None:
    with client_of(cluster.url) as client:
        assert [one["name"] for one in items(client, f"{PATH}?limit=1")] == ["batch", SHOP]


@pytest.mark.parametrize(
    ("path", "field", "found"),
    [
        ("transactions?", "transactional_id", ["shop-1", "shop-2"]),
        ("transactions?sort=last_updated&", "transactional_id", ["shop-1", "shop-2"]),
        ("expiring?within=9999d&", "transactional_id", ["shop-2"]),
        ("findings?", "application", [SHOP]),
        ("hanging?", "id", []),
        ("partitions?", "topic", ["orders"]),
        ("groups?", "group", ["at", "below", "beyond", "idle"]),
        ("groups?blocked=true&", "group", ["at", "below"]),
    ],
)
def test_every_list_selects_by_application(cluster: WithPartitions, path: str, field: str, found: list[str]) -> None:
    with client_of(cluster.url) as client:
        listed = items(client, f"{CLUSTER}/{path}application={quote(SHOP, safe='')}&limit=2")
        assert [one[field] for one in listed] == found
        assert items(client, f"{CLUSTER}/{path}application=nobody&limit=2") == []


def test_the_application_is_a_field_wherever_an_id_is(cluster: WithPartitions) -> None:
    names: dict[str, Any] = {}
    with client_of(cluster.url) as client:
        for one in items(client, f"{CLUSTER}/transactions?limit=200"):
            names[one["transactional_id"]] = one["application"]
        assert names == {"shop-1": SHOP, "shop-2": SHOP, "batch-1": "batch", "plain": None}
        assert get(client, f"{CLUSTER}/transaction?id=shop-1")["application"] == SHOP
        found = {one["subject"]["transactional_id"]: one for one in items(client, f"{CLUSTER}/findings?limit=9")}
        assert {name: one["application"] for name, one in found.items()} == {"shop-1": SHOP, "plain": None}
        (partition,) = items(client, f"{CLUSTER}/partitions?topic=orders&lagging=true")
        assert partition["blocker"]["application"] == SHOP
        assert [open_transaction["application"] for open_transaction in partition["open_transactions"]] == [SHOP]
        groups = {one["group"]: one["application"] for one in items(client, f"{CLUSTER}/groups?limit=9")}
    assert groups == {"at": SHOP, "below": SHOP, "beyond": SHOP, "idle": SHOP, "eos": None}


def test_an_open_finding_follows_its_id_to_another_application(cluster: WithPartitions) -> None:
    assign(cluster, "till", b"shop-1")
    with client_of(cluster.url) as client:
        assert items(client, f"{CLUSTER}/findings?application={quote(SHOP)}&limit=9") == []
        (one,) = items(client, f"{CLUSTER}/findings?application=till&limit=9")
    assert one["subject"]["transactional_id"] == "shop-1"


def test_the_applications_command_prints_a_table(ask: Ask) -> None:
    code, out, err = ask("applications")
    heads, idle, shop = out.splitlines()
    assert (code, heads.split()[:4]) == (0, ["APPLICATION", "KIND", "IDS", "OPEN"])
    assert idle.split() == ["batch", "-", "1", "0", "-", "1", "1", "0", "0", "0", "0", "0.00%", "0", "-"]
    assert shop.startswith(f"{SHOP}  kafka_streams")
    assert shop.endswith("at,below")
    assert err.startswith("2 rows as of 2026")


@pytest.mark.parametrize("command", ["transactions", "findings", "partitions", "groups", "expiring", "hanging"])
def test_every_command_of_a_list_takes_an_application(ask: Ask, command: str) -> None:
    _, out, _ = ask(command, "--application", SHOP, "--json")
    assert {one["application"] for one in json.loads(out)["items"] if "application" in one} <= {SHOP}
    _, out, _ = ask(command, "--application", "nobody", "--json")
    assert json.loads(out)["items"] == []
