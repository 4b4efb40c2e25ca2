"""Tests of the pages of applications, and of the names of applications on the other pages."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.helpers.partitions import WithPartitions
from tests.helpers.stores import client_of
from tests.service.applications import SHOP, with_applications
from tests.service.web.page_text import page_of, shows

CLUSTER = "/clusters/orders"
PATH = f"{CLUSTER}/applications"
OF_SHOP = f"{PATH}/{quote(SHOP, safe='')}"

pytestmark = pytest.mark.cluster(stored=with_applications)


def test_the_list_shows_what_each_application_holds_up(cluster: WithPartitions) -> None:
    page = page_of(cluster.url, PATH)
    assert "3 of 4 ids belong to 2 applications" in page.texts[""]
    shop = page.texts[f"application-{quote(SHOP)}"]
    assert shows(shop, SHOP, "kafka streams", "2 1", "20 s", "none ended", "1 partition", "blocks at, below")
    assert shows(page.texts["application-batch"], "batch", "1 0", "1 1 0", "0 %")
    assert page.links[SHOP] == OF_SHOP


def test_the_list_is_filtered_and_sorted(cluster: WithPartitions) -> None:
    assert page_of(cluster.url, f"{PATH}?q=SHOP").ids("application-") == [f"application-{quote(SHOP)}"]
    by_age = page_of(cluster.url, f"{PATH}?sort=open").ids("application-")
    assert by_age == [f"application-{quote(SHOP)}", "application-batch"]
    assert "No application matches." in page_of(cluster.url, f"{PATH}?q=nobody").texts["applications"]


def test_one_application_has_its_transactions_findings_and_partitions(cluster: WithPartitions) -> None:
    page = page_of(cluster.url, OF_SHOP)
    assert page.title == SHOP
    assert shows(page.texts[""], "made by kafka streams", "2 transactional.ids")
    assert shows(page.texts["open-1"], "shop-1", "20 s", "7 / 3")
    assert shows(page.texts["findings"], "1 finding", "long running transaction")
    assert shows(page.texts["holds"], "1 partition, 2 groups", "orders-0", "Blocks at, below")
    assert page.links["All its ids"] == f"{CLUSTER}/transactions?application=shop%2Feu+%26+co"


def test_an_application_at_rest_says_so(cluster: WithPartitions) -> None:
    page = page_of(cluster.url, f"{PATH}/batch")
    assert "No transaction of it is known to be open." in page.texts["open"]
    assert shows(page.texts["aborts"], "1 commit", "1 abort by the client", "0 timeouts")


def test_an_unknown_application_is_a_page_of_its_own(cluster: WithPartitions) -> None:
    with client_of(cluster.url) as client:
        answer = client.get(f"{PATH}/nobody")
    assert answer.status_code == 404
    assert "has no application" in answer.text


def test_other_pages_name_the_application_and_select_by_it(cluster: WithPartitions) -> None:
    chosen = f"application={quote(SHOP, safe='')}"
    transactions = page_of(cluster.url, f"{CLUSTER}/transactions?{chosen}")
    assert f"application {SHOP}" in transactions.texts["ids"]
    assert "plain" not in transactions.texts["ids"]
    assert page_of(cluster.url, f"{CLUSTER}/transaction?id=shop-1").links[f"application {SHOP}"] == OF_SHOP
    findings = page_of(cluster.url, f"{CLUSTER}/findings?{chosen}")
    (row,) = findings.rows("finding-")
    assert f"application {SHOP}" in row
    assert (
        page_of(cluster.url, findings.links[next(text for text in findings.links if "shop-1" in text)]).links[SHOP]
        == OF_SHOP
    )
    assert f"application {SHOP}" in page_of(cluster.url, f"{CLUSTER}/partitions?{chosen}").texts["partition-orders-0"]
    assert f"application {SHOP}" in page_of(cluster.url, f"{CLUSTER}/groups?{chosen}").texts["group-at-orders-0"]
    expiring = page_of(cluster.url, f"{CLUSTER}/expiring?within=9999d&{chosen}")
    assert expiring.ids("id-") == ["id-shop-2"]


@pytest.mark.parametrize(
    ("path", "section"),
    [("transactions", "ids"), ("findings", "findings"), ("partitions", "partitions"), ("groups", "groups")],
)
def test_a_filter_by_an_unknown_application_shows_nothing(cluster: WithPartitions, path: str, section: str) -> None:
    page = page_of(cluster.url, f"{CLUSTER}/{path}?application=nobody")
    assert "shop-1" not in page.texts[section]
