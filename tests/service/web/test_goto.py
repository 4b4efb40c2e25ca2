"""Tests of the search. An input leads to one page, to a choice of pages, or to an answer with the reason why nothing
was found."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from service.domain.transaction_log import states
from service.store.schema import producer_ids
from tests.helpers.partitions import WithPartitions, entry, hanging_finding, moving_partition, read, stalled_partition
from tests.helpers.stores import NOW_MS, Id, open_id
from tests.service.web.page_text import PageText

C = "/clusters/orders"


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WithPartitions]:
    cluster = WithPartitions(f"sqlite:///{tmp_path_factory.mktemp('goto') / 'store.db'}")
    cluster.read(
        [
            Id(b"payments-3", producer_id=7),
            Id(b"payments-30", producer_id=8),
            Id(b"settlement-nightly", producer_id=9),
            Id(b"odd\x00\xff/?&", producer_id=10),
            Id(b"123", producer_id=11),
            Id(b"twin-0", producer_id=12),
            Id(b"gone-1", states.EXPIRED, producer_id=13),
            *(Id(b"many-%03d" % number, producer_id=1_000 + number) for number in range(30)),
            open_id("x" * 200, 5_000, producer_id=14),
        ]
    )
    cluster.look(
        stalled_partition(),
        read(entry(4_711)),
        moving_partition(1),
        moving_partition(0, "twin"),
        moving_partition(3, "a.b-c"),
    )
    cluster.see(hanging_finding(0, 7, b"payments-3"))
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def store(orders: WithPartitions) -> str:
    return orders.url


def leads(client: TestClient, typed: str) -> str:
    """Enters `typed` into the search of the pages. Returns the address to which the answer redirects."""
    answer = client.get(f"{C}/goto", params={"q": typed}, follow_redirects=False)
    assert answer.status_code == 303, PageText(answer.text).texts["content"]
    return answer.headers["location"]


def shows(client: TestClient, typed: str) -> PageText:
    answer = client.get(f"{C}/goto", params={"q": typed}, follow_redirects=False)
    assert answer.status_code == 200
    return PageText(answer.text)


@pytest.mark.parametrize(
    ("typed", "address"),
    [
        ("payments-3", f"{C}/transaction?id=payments-3"),
        ("  payments-3 ", f"{C}/transaction?id=payments-3"),
        ("settle", f"{C}/transaction?id=settlement-nightly"),
        ("NIGHTLY", f"{C}/transaction?id=settlement-nightly"),
        ("odd\\u{0}\\x{ff}/?&", f"{C}/transaction?id=odd%00%FF%2F%3F%26"),
        ("odd\\x00\\xff/?&", f"{C}/transaction?id=odd%00%FF%2F%3F%26"),
        ("gone-1", f"{C}/transaction?id=gone-1"),
        ("x" * 200, f"{C}/transaction?id={'x' * 200}"),
        ("9", f"{C}/transaction?id=settlement-nightly"),
        ("4711", f"{C}/partitions/orders/0"),
        ("orders-1", f"{C}/partitions/orders/1"),
        ("orders-1@105", f"{C}/partitions/orders/1?offset=105"),
        ("a.b-c-3@7", f"{C}/partitions/a.b-c/3?offset=7"),
        ("a.b-c", f"{C}/partitions?topic=a.b-c"),
    ],
)
def test_a_search_with_one_result_leads_to_its_page(client: TestClient, typed: str, address: str) -> None:
    assert leads(client, typed) == address


def test_a_finding_is_found_by_its_id(client: TestClient) -> None:
    (found,) = client.get(f"/api/v1{C}/hanging").json()["items"]
    assert leads(client, found["id"]) == f"{C}/findings/{found['id']}"


def test_several_results_are_a_list_to_choose_from(client: TestClient) -> None:
    page = shows(client, "payments")
    assert page.texts["content"].startswith("2 pages may be meant")
    assert page.links["payments-3"] == f"{C}/transaction?id=payments-3"
    assert page.links["payments-30"] == f"{C}/transaction?id=payments-30"


def test_an_id_with_the_name_of_a_partition_is_found_beside_it(client: TestClient) -> None:
    page = shows(client, "twin-0")
    assert "transactional.id" in page.texts["hits"]
    assert "partition" in page.texts["hits"]


def test_a_number_may_be_a_transactional_id(client: TestClient) -> None:
    assert leads(client, "123") == f"{C}/transaction?id=123"


def test_too_many_results_lead_to_the_list_with_filters(client: TestClient) -> None:
    page = shows(client, "many-")
    assert page.texts["content"].startswith("20 pages and more may be meant")
    assert page.links["All ids that contain this text"] == f"{C}/transactions?q=many-"


def test_owners_of_a_producer_id_have_dates(orders: WithPartitions, client: TestClient) -> None:
    """After the transaction log was read again, a producer id may have two owners. Each owner is shown with its
    dates."""
    with orders.engine.begin() as connection:
        earlier = {"first_seen_ms": NOW_MS - 90_000, "last_seen_ms": NOW_MS - 80_000, "first_epoch": 0, "last_epoch": 2}
        row = {"cluster_id": orders.id, "producer_id": 8, "transactional_id": b"before"}
        connection.execute(producer_ids.insert().values(**row, **earlier))
    try:
        page = shows(client, "8")
        assert "had producer id 8: seen from 2026-09-21 14:12:20.123 to" in page.texts["hits"]
        assert "has producer id 8" in page.texts["hits"]
        assert page.texts["hits"].index("payments-30") < page.texts["hits"].index("before")
    finally:
        with orders.engine.begin() as connection:
            connection.execute(producer_ids.delete().where(producer_ids.c.transactional_id == b"before"))


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("nobody", "No known id contains this text"),
        ("99999", "This one belonged to no known transactional.id"),
        ("99999999999999999999", "No known id contains this text"),
        ("orders-9", "Only watched partitions are found: 4 are"),
        ("orders-1@", "Only watched partitions are found"),
        ("orders-1@99999999999999999999", "Only watched partitions are found"),
        ("<script>", "No known id contains this text"),
        ("\x00", "No known id contains this text"),
        ("%", "No known id contains this text"),
    ],
)
def test_a_search_without_results_shows_what_was_searched_and_why(client: TestClient, typed: str, why: str) -> None:
    page = shows(client, typed)
    assert page.texts["content"].startswith("Nothing was found")
    assert why in page.texts["why"]


def test_an_empty_search_shows_what_can_be_searched(client: TestClient) -> None:
    assert shows(client, " ").texts["content"].startswith("What are you looking for?")
    assert client.get(f"{C}/goto").status_code == 200


def test_bytes_that_are_no_text_are_not_found(client: TestClient) -> None:
    assert client.get(f"{C}/goto?q=%ff%00", follow_redirects=False).status_code == 200


def test_every_page_has_the_search(client: TestClient) -> None:
    html = client.get(C).text
    assert f'action="{C}/goto"' in html
    assert 'name="q"' in html
    assert quote("orders") in html
