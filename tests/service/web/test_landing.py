"""Tests of `/`: the verdict on every cluster, the hyperlinks to other pages, and the choice of a cluster."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from service.app import create_app
from service.kafka.settings import ClientSettings
from tests.helpers.partitions import WithPartitions, entry, moving_partition
from tests.helpers.stores import NOW_MS, Id, client_of
from tests.service.web.page_text import PageText, shows
from tests.service.web.stories import empty_store, hanging, on, overview

PROGRAMS = {"/api/v1/clusters", "/metrics", "/openapi.json", "/-/healthy", "/-/ready", "/version"}


def stored(cluster: WithPartitions) -> None:
    cluster.read([Id(b"payments-3", producer_id=7)])
    cluster.look(*on("payments", 7, entry(7)))
    cluster.see(hanging())


pytestmark = pytest.mark.cluster(of=empty_store, name='o"><i>& /x', stored=stored)


def test_each_cluster_has_its_verdict(cluster: WithPartitions, url: str) -> None:
    other = empty_store(url, "quiet")
    other.read([Id(b"a")])
    other.look(moving_partition())
    other.close()
    page = overview(url, path="/")
    assert shows(page.texts["cluster-1"], 'o"><i>& /x 1 transaction hangs', "0 open", "1 blocked", "1 open finding")
    assert page.texts["cluster-2"].startswith("quiet Nothing hangs")
    assert page.links["quiet"] == "/clusters/quiet"


def test_the_worst_cluster_comes_first_and_unreached_ones_are_listed(cluster: WithPartitions, url: str) -> None:
    quiet = empty_store(url, "a-quiet-one")
    quiet.read([Id(b"a")])
    quiet.look(moving_partition())
    quiet.close()
    brokers = ClientSettings.load("nowhere:1", None)
    app = create_app(url, "1.2.3", now_ms=lambda: NOW_MS + 1_200, clusters={"a-quiet-one": brokers, "far": brokers})
    with TestClient(app) as client:
        page = PageText(client.get("/").text)
    assert page.texts["cluster-1"].startswith('o"><i>& /x 1 transaction hangs.')
    assert page.texts["cluster-2"].startswith("far Unknown")
    assert page.texts["cluster-3"].startswith("a-quiet-one Nothing hangs.")
    assert "cluster-4" not in page.texts


def test_old_data_are_marked_as_last_known(cluster: WithPartitions, url: str) -> None:
    assert "Last known: 1 transaction hangs." in overview(url, 43_000, "/").texts["cluster-1"]
    assert "Unknown: nothing of" in overview(url, 372_000, "/").texts["cluster-1"]


def test_every_link_works(cluster: WithPartitions, url: str) -> None:
    with client_of(url) as client:
        page = PageText(client.get("/").text)
        assert set(page.links.values()) >= {*PROGRAMS, "/clusters/o%22%3E%3Ci%3E%26%20%2Fx"}
        for link in page.links.values():
            if not link.startswith("/clusters/"):  # the name of one cluster contains a slash
                assert client.get(link).status_code == 200, link


def test_names_are_escaped_and_the_page_needs_no_script(cluster: WithPartitions, url: str) -> None:
    with client_of(url) as client:
        answer = client.get("/")
    assert answer.headers["content-security-policy"] == "default-src 'self'; frame-ancestors 'none'"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["cache-control"] == "no-cache"
    assert "<script" not in answer.text
    assert "<i>" not in answer.text
    assert "style=" not in answer.text, "the content security policy would block inline styles"


def test_a_cluster_that_was_not_read_yet_is_unknown(url: str) -> None:
    cluster = empty_store(url, "new")
    cluster.close()
    assert "Unknown: nothing of new" in overview(url, path="/").texts["cluster-1"]


def test_a_store_without_clusters_says_how_to_begin(url: str) -> None:
    cluster = empty_store(url)
    with cluster.engine.begin() as connection:
        for table in ("leases", "log_partitions", "clusters"):
            connection.exec_driver_sql(f"DELETE FROM {table}")
    cluster.close()
    words = overview(url, path="/").texts[""]
    assert shows(words, "No cluster has been read yet.", "its log says what it waits for", "txnscope watch")


def test_an_unreadable_store_is_reported_and_the_links_stay(url: str) -> None:
    with client_of(url) as client:
        answer = client.get("/")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "5"
    assert answer.headers["content-type"].startswith("text/html")
    page = PageText(answer.text)
    assert "there is no such file" in page.texts["trouble"]
    assert set(page.links.values()) >= PROGRAMS


def test_a_cluster_is_chosen_without_script(url: str) -> None:
    names = ("orders", "a b&c")
    for name in names:
        empty_store(url, name).close()
    with client_of(url) as client:
        html = client.get("/clusters/orders").text
        assert 'action="/go"' in html
        assert "<option>a b&amp;c</option><option selected>orders</option>" in html
        answer = client.get("/go", params={"cluster": "a b&c"}, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, "/clusters/a%20b%26c")
        assert client.get(answer.headers["location"]).status_code == 200
        assert client.get("/go", params={"cluster": "nope"}).status_code == 404
        assert client.get("/go").status_code == 422
