"""Tests of `/guide`, which shows all of docs/ as pages, and of `/llms.txt`. Every hyperlink from one page of the guide
to another must lead to a page and a heading that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urldefrag, urljoin, urlsplit

import pytest
from fastapi.testclient import TestClient

from service.app import create_app
from service.web.guide import GUIDE, INDEX, guide_names
from service.web.guide_navigation import DOCS, START, sections
from tests.helpers.paths import ROOT
from tests.service.web.page_text import PageText


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    """Yields a client of a service whose store is missing, because users need the runbooks most at such a time.
    Exceptions of the service reach the test."""
    with TestClient(create_app(f"sqlite:///{tmp_path / 'away.db'}", "1.2.3")) as client:
        yield client


def page(client: TestClient, address: str) -> PageText:
    answer = client.get(address)
    assert answer.status_code == 200, address
    assert answer.headers["content-security-policy"] == "default-src 'self'; frame-ancestors 'none'"
    assert "style=" not in answer.text, "the content security policy would block inline styles"
    assert answer.text.count("<h1") == 1, address
    return PageText(answer.text)


def test_the_guide_contains_all_of_docs() -> None:
    assert DOCS.resolve() == ROOT / "docs"
    assert guide_names() == {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} != set()


def test_every_page_opens_and_every_link_leads_to_its_heading(client: TestClient) -> None:
    pages = {f"{GUIDE}/{name}": page(client, f"{GUIDE}/{name}") for name in guide_names()}
    for address, shown in pages.items():
        for words, link in shown.links.items():
            target, fragment = urldefrag(urljoin(address, link))
            if urlsplit(target).scheme or target == "/":
                continue
            assert target in pages, f"{address}: the hyperlink {words!r} has the unknown target {link}"
            assert not fragment or fragment in pages[target].texts, (
                f"{address}: the target page has no heading for {link}"
            )


def test_a_runbook_is_read_as_a_page(client: TestClient) -> None:
    shown = page(client, f"{GUIDE}/runbooks/KafkaTransactionHanging.md")
    assert "commit: its coordinator committed it. Do not abort it" in shown.texts["main"]
    assert shown.links["docs/hanging.md"] == "../hanging.md#ending-it"
    assert shown.links["Runbooks"] == f"{GUIDE}/{INDEX}"


def test_a_file_outside_the_guide_is_named_without_a_link(client: TestClient) -> None:
    """A page may name a file of the repository. The guide does not serve such a file, so its name is no hyperlink."""
    shown = page(client, f"{GUIDE}/runbooks/KafkaTxnWatchdog.md")
    assert "alertmanager.example.yml" in shown.texts["main"]
    assert "alertmanager.example.yml" not in shown.links


@pytest.mark.parametrize("name", ["nothing.md", "openapi.json", "../pyproject.toml", "%2e%2e/README.md", "runbooks"])
def test_files_outside_the_guide_are_not_served(client: TestClient, name: str) -> None:
    answer = client.get(f"{GUIDE}/{name}")
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")


def test_the_error_names_the_page_that_does_not_exist(client: TestClient) -> None:
    shown = PageText(client.get(f"{GUIDE}/nothing.md").text)
    assert shown.texts["problem"] == "The guide has no page 'nothing.md'. /guide lists them."


@pytest.mark.parametrize("address", [GUIDE, f"{GUIDE}/"])
def test_the_guide_begins_with_the_list_of_pages(client: TestClient, address: str) -> None:
    answer = client.get(address, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{GUIDE}/{START}")


def test_the_list_has_every_page_in_a_section() -> None:
    listed = [name for section in sections() for entry in section.entries for name in entry.names]
    assert sorted(listed) == sorted(guide_names() - {START}), "docs/index.md lacks a page, or has one twice"
    assert [section.title for section in sections()] == [
        "Install",
        "Operate",
        "Secure",
        "Size",
        "Upgrade",
        "Troubleshoot",
        "Reference",
    ]


def test_a_page_shows_the_list_and_the_pages_beside_it(client: TestClient) -> None:
    runbook = page(client, f"{GUIDE}/runbooks/KafkaTxnWatchdog.md")
    assert runbook.links["Container images"] == f"{GUIDE}/install/images.md"
    assert runbook.links["KafkaTxnExporterDown"] == f"{GUIDE}/runbooks/KafkaTxnExporterDown.md"
    assert "KafkaTxnExporterDown" not in page(client, f"{GUIDE}/sizing.md").links


def test_llms_txt_names_addresses_that_answer(client: TestClient) -> None:
    answer = client.get("/llms.txt")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert len(answer.text) < 3_000
    addresses = set(re.findall(r"\]\((/[^)]*)\)", answer.text))
    assert len(addresses) > 5
    statuses = {address: client.get(address).status_code for address in addresses}
    assert statuses == dict.fromkeys(addresses, 200) | {"/mcp": 404, "/api/v1/clusters": 503}, "the store is away"
