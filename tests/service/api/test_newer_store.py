"""Tests that the service answers over a store that a newer version has migrated, and reports that the store is
newer."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import insert, select

from service.app import create_app
from service.store.engine import open_engine
from service.store.finding_events import events_after
from service.store.schema import finding_events, findings
from tests.helpers.next_version import migrate_by_next_version
from tests.helpers.postgres import Postgres
from tests.helpers.stores import NOW_MS
from tests.helpers.waiting import LIMIT_S
from tests.service.api.every_answer import API, LIST, PAGE, PAGES, PATHS, fill, samples

NOTICE: Final = re.compile(r'<div class="notice notice--info" id="newer">.*\n')
SAYS: Final = "The store is newer than this service."


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Yields the URL of a store with ids, partitions and a finding; a test runs on each kind of database."""
    if request.param == "sqlite":
        fill(f"sqlite:///{tmp_path / 'store.db'}")
        yield f"sqlite:///{tmp_path / 'store.db'}"
        return
    server: Postgres = request.getfixturevalue("postgres")
    with server.database() as url:
        fill(url)
        yield url


def service(url: str) -> TestClient:
    return TestClient(create_app(url, "1.2.3", now_ms=lambda: NOW_MS + 1_200))


def migrated_by_next_version(url: str, directory: Path, *, only_adds: bool = True) -> None:
    engine = open_engine(url)
    migrate_by_next_version(engine, directory, only_adds=only_adds)
    engine.dispose()


def test_every_answer_stays_the_same_after_the_next_version_added_to_the_store(url: str, tmp_path: Path) -> None:
    """The service runs on while the store is migrated, as in a rolling upgrade."""
    with service(url) as client:
        (finding,) = client.get(f"{API}/orders/findings").json()["items"]
        addresses = [*PATHS, *PAGES, f"{PAGE}/findings/{finding['id']}"]
        before = {path: _answer(client, path) for path in addresses}
        metrics = samples(client)
        migrated_by_next_version(url, tmp_path)
        assert {path: _answer(client, path) for path in addresses} == before
        assert samples(client) == metrics
    with service(url) as restarted:
        assert {path: _answer(restarted, path) for path in addresses} == before


def _answer(client: TestClient, path: str) -> tuple[int, str]:
    """Returns the status of an answer, and its text without the notice about the newer store."""
    answer = client.get(path, follow_redirects=False)
    assert answer.status_code < 500, (path, answer.text)
    text = re.sub(r"OK\n.+\n", "OK\n", answer.text) if path == "/-/ready" else NOTICE.sub("", answer.text)
    return answer.status_code, text


def test_pages_and_readiness_say_that_the_store_is_newer(url: str, tmp_path: Path) -> None:
    with service(url) as client:
        assert client.get("/-/ready").text == "OK\n"
        assert SAYS not in client.get("/").text
        migrated_by_next_version(url, tmp_path)
        ready = client.get("/-/ready")
        assert (ready.status_code, ready.text.partition("\n")[0]) == (200, "OK")
        assert "(revision r9998; this version knows r0001)" in ready.text
        for page in ("/", PAGE, f"{PAGE}/transactions", f"{PAGE}/pipeline"):
            assert client.get(page).text.count(SAYS) == 1, page


def test_a_store_that_is_too_new_is_a_problem_of_its_own(url: str, tmp_path: Path) -> None:
    with service(url) as client:
        assert client.get(LIST).status_code == 200
        migrated_by_next_version(url, tmp_path, only_adds=False)
        for path in ("/-/ready", API, LIST):
            answer = client.get(path)
            assert (answer.status_code, answer.json()["type"]) == (503, "urn:txnscope:store-too-new")
            assert "has the tables of revision r9998: it is newer than this version" in answer.json()["detail"]
        for page in ("/", PAGE):
            answer = client.get(page)
            assert answer.status_code == 503
            assert "it is newer than this version of txnscope; update txnscope" in answer.text
        assert client.get("/-/healthy").status_code == 200


@pytest.mark.parametrize("column", ["kind", "severity", "status", "confidence"])
def test_a_finding_with_a_word_of_a_newer_version_is_left_out(url: str, column: str) -> None:
    """A newer version that was rolled back may have stored a kind, severity, status or confidence that this version
    does not know."""
    with service(url) as client:
        (finding,) = client.get(f"{API}/orders/findings").json()["items"]
        engine = open_engine(url)
        with engine.begin() as connection:
            connection.exec_driver_sql(f"UPDATE findings SET {column} = 'newer_word'")
            assert events_after(connection, 0, 10) == []
        engine.dispose()
        for path in (*PATHS, *PAGES):
            answer = client.get(path, follow_redirects=False)
            assert answer.status_code < 500, (path, answer.text)
        assert client.get(f"{API}/orders/findings").json()["items"] == []
        assert client.get(f"{API}/orders/findings/{finding['id']}").status_code == 404
        assert samples(client)


def test_events_of_newer_findings_do_not_hide_the_events_behind_them(url: str) -> None:
    """A newer version of txnscope may write kinds of findings that this version does not know. If all
    events of a page are about such findings, the reader goes on to the next page."""
    engine = open_engine(url)
    with engine.begin() as connection:
        last = events_after(connection, 0, 10)[-1]
        of_last = finding_events.c.sequence == last.sequence
        event = connection.execute(select(finding_events).where(of_last)).one()._asdict()
        finding = connection.execute(select(findings).where(findings.c.id == last.finding.id)).one()._asdict()
        connection.execute(insert(findings), finding | {"id": "newer", "severity": "newer_word"})
        for number in range(1, 6):
            event["sequence"] = last.sequence + number
            event["finding_id"] = "newer" if number < 5 else last.finding.id
            connection.execute(insert(finding_events), event)
        assert [event.sequence for event in events_after(connection, last.sequence, 2)] == [last.sequence + 5]
        assert events_after(connection, last.sequence + 5, 2) == []
    engine.dispose()


def test_a_migration_gets_through_while_pages_are_asked_for(url: str, tmp_path: Path) -> None:
    """Each page reads several tables. The migration must not lock one table and then wait for a second one."""
    over = threading.Event()

    def ask(client: TestClient) -> Counter[int]:
        seen = Counter[int]()
        while not over.is_set() or not seen:
            seen.update(
                client.get(path, follow_redirects=False).status_code for path in (PAGE, f"{PAGE}/findings", LIST)
            )
        return seen

    with service(url) as client, ThreadPoolExecutor(3) as at_once:
        asking = [at_once.submit(ask, client) for _ in range(3)]
        try:
            migrated_by_next_version(url, tmp_path)
        finally:
            over.set()
        for future in asking:
            assert future.result(LIMIT_S).keys() <= {200, 503}, (
                "only 200, or 503 while the tables are locked for longer than a reader waits"
            )
        assert "(revision r9998" in client.get("/-/ready").text
