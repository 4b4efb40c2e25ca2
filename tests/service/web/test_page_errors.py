"""Tests that an error of a page is shown as a page, with the text that the REST API's problem document has."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from service.store.queries.clusters import find_cluster
from service.web.shared.render import is_page
from tests.helpers.stores import client_of
from tests.service.web.page_text import PageText


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/nothing", 404, "Not Found: /nothing"),
        ("/clusters", 404, "Not Found"),
        ("/clusters/nope", 404, "there is no cluster 'nope'; the store knows: 'orders'"),
        ("/clusters/%3Cscript%3E", 404, "there is no cluster '<script>'"),
        ("/clusters/%00", 404, "there is no cluster"),
        ("/clusters/nope/goto?q=a", 404, "there is no cluster 'nope'"),
        ("/go?cluster=nope", 404, "there is no cluster 'nope'"),
        ("/go", 422, "cluster: Field required"),
        ("/wp-admin/setup.php", 404, "Not Found"),
    ],
)
def test_an_error_of_a_page_is_a_page(client: TestClient, path: str, status: int, words: str) -> None:
    answer = client.get(path)
    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-security-policy"] == "default-src 'self'; frame-ancestors 'none'"
    page = PageText(answer.text)
    assert words in page.texts["problem"]
    assert page.links["All clusters"] == "/"
    assert "<script" not in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/api/nothing",
        "/api/v1/clusters/nope",
        "/-/nothing",
        "/metrics/x",
        "/static/x",
        "/events?cluster=nope",
        "/version/x",
    ],
)
def test_paths_for_programs_return_problem_json(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_path_that_only_begins_like_an_api_path_is_a_page() -> None:
    assert not is_page("/api")
    assert is_page("/apiary")
    assert is_page("/eventsource")
    assert not is_page("/-/ready")


def test_a_post_to_a_page_is_refused(client: TestClient) -> None:
    answer = client.post("/clusters/orders")
    assert answer.status_code == 405
    assert "GET" in answer.headers["allow"]
    assert "Method Not Allowed" in PageText(answer.text).texts["problem"]


def test_a_store_that_is_not_ready_is_reported_in_the_same_words(tmp_path: Path) -> None:
    with client_of(f"sqlite:///{tmp_path / 'new.db'}") as client:
        answer, problem = client.get("/clusters/orders"), client.get("/api/v1/clusters/orders").json()
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "5"
    page = PageText(answer.text)
    assert page.texts["problem"] == " ".join(problem["detail"].split())
    assert "Reload the page when the store can be reached again." in page.texts[""]


@pytest.mark.parametrize("path", ["/", "/clusters/orders"])
def test_a_page_waits_for_the_application_that_creates_the_tables(tmp_path: Path, path: str) -> None:
    (tmp_path / "new.db").touch()
    with client_of(f"sqlite:///{tmp_path / 'new.db'}") as client:
        answer = client.get(path)
    assert answer.status_code == 503
    assert '<meta http-equiv="refresh" content="5">' in answer.text
    page = PageText(answer.text)
    assert "txnscope waits for its application" in page.texts[""]
    assert "has no tables yet; the application (`txnscope ingest` or" in page.texts["problem"]


def test_an_internal_error_is_a_page_without_its_details(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(f"{find_cluster.__module__}.find_cluster", broken)
    with client_of(store) as client:
        answer = client.get("/clusters/orders")
    assert answer.status_code == 500
    assert answer.headers["content-security-policy"].startswith("default-src 'self'")
    assert "an error in txnscope; its log has the details" in PageText(answer.text).texts["problem"]
    assert "secret" not in answer.text


def test_the_answer_to_head_has_no_body(client: TestClient) -> None:
    answer = client.head("/clusters/nope")
    assert (answer.status_code, answer.content) == (404, b"")
