"""Tests that the service answers over PostgreSQL as it does over SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from service.app import create_app
from tests.helpers.findings import Listener, WithFindings, observe
from tests.helpers.postgres import Postgres
from tests.helpers.stores import NOW_MS, client_of
from tests.service.api.answers import pages
from tests.service.api.every_answer import API, LIST, LONG, PAGE, PAGES, PATHS, fill, samples


@pytest.fixture
def both(tmp_path: Path, postgres: Postgres) -> Iterator[tuple[str, str]]:
    """Yields the URLs of two stores with the same contents: one of SQLite, one of PostgreSQL."""
    with postgres.database() as url:
        urls = (f"sqlite:///{tmp_path / 'store.db'}", url)
        for one in urls:
            fill(one)
        yield urls


def test_every_answer_is_the_same_as_with_sqlite(both: tuple[str, str]) -> None:
    with client_of(both[0]) as sqlite, client_of(both[1]) as postgresql:
        for path in PATHS:
            expected, found = sqlite.get(path), postgresql.get(path)
            assert expected.status_code < 500
            assert (found.status_code, found.text) == (expected.status_code, expected.text), path
        assert pages(postgresql, f"{LIST}?limit=90") == pages(sqlite, f"{LIST}?limit=90")
        assert samples(postgresql) == samples(sqlite) != []


def test_every_page_is_the_same_as_with_sqlite(both: tuple[str, str]) -> None:
    sqlite, postgresql = (TestClient(create_app(url, "1.2.3", now_ms=lambda: NOW_MS + 1_200)) for url in both)
    with sqlite, postgresql:
        (finding,) = sqlite.get(f"{API}/orders/findings").json()["items"]
        for path in (*PAGES, f"{PAGE}/findings/{finding['id']}"):
            expected, found = (client.get(path, follow_redirects=False) for client in (sqlite, postgresql))
            assert expected.status_code < 500, path
            assert (found.status_code, found.text) == (expected.status_code, expected.text), path


def test_an_id_of_30_kb_is_listed_linked_and_found(both: tuple[str, str]) -> None:
    for url in both:
        with client_of(url) as client:
            (listed,) = client.get(f"{LIST}?prefix={LONG[:2_000]}").json()["items"]
            assert (listed["transactional_id"], listed["transactional_id_b64"]) == (LONG, None)
            one = client.get(listed["href"]).json()
            assert (one["transactional_id"], one["state"]) == (LONG, "Ongoing")
            assert one["partitions"] == listed["partitions"] != []


def test_a_client_that_moves_to_another_service_gets_each_event_once(postgres: Postgres) -> None:
    """Two services behind a load balancer read the same store."""
    with postgres.database() as url, closing(WithFindings(url)) as cluster:
        cluster.read(now_ms=NOW_MS)
        with closing(Listener(url)) as first:
            assert first.hear() == {"retry": 2_000}
            cluster.see(observe())
            opened = first.hear()
        cluster.see(now_ms=NOW_MS + 1)
        with closing(Listener(url, opened["id"])) as second, closing(Listener(url, opened["id"])) as third:
            for listener in (second, third):
                listener.hear()
            cluster.see(observe(), now_ms=NOW_MS + 2)
            heard = [[listener.hear()["event"] for _ in range(2)] for listener in (second, third)]
    assert (opened["event"], heard) == ("opened", [["resolved", "reopened"]] * 2)
