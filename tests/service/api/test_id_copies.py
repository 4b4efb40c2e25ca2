"""Tests that the name of an id finds the same id everywhere, whether it was copied from the JSON, a page, the metrics
or the terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from service.domain.findings.finding import Subject
from service.domain.findings.kinds import Kind, Severity
from service.store.escaped_text import display_id
from tests.helpers.findings import observe
from tests.helpers.partitions import WithPartitions
from tests.helpers.stores import client_of, open_id
from tests.helpers.terminal import Ask, command_line, service_of
from tests.service.api.answers import get
from tests.service.web.page_text import PageText

API: Final = "/api/v1/clusters/orders"
PAGES: Final = "/clusters/orders"

IDS: Final = [
    *(
        text.encode()
        for text in ("plain", "zürich-☃", "zu\u0308rich-☃", "\N{GRINNING FACE}", "100%", "a/b", "a%2Fb", "../a")
    ),
    *(text.encode() for text in ("tab\tid", r"tab\tid", r"tab\u0009id", r"tab\x09id", "tab%09id", "tab id")),
    *(text.encode() for text in ("nul\0id", r"nul\x00id", r"nul\u0000id", "line\nid", r"line\nid", r"line\\nid")),
    *(text.encode() for text in ('say "hi"', r"say \"hi\"", "it's", "back\\slash", r"back\\slash", "end\\")),
    *(text.encode() for text in (" ends", "ends", "ends ", " ends ", "two  spaces", "two spaces")),
    *(text.encode() for text in ("\x85next", r"\x85next", "\u2028line", "\u202eright", "\ufeffbom", "\u00a0nbsp")),
    *(text.encode() for text in ("é", r"\xe9", "a+b", "a&id=c#d;e", "`x` $(y)", "<b>&amp;</b>")),
    *(b"bytes\xff", rb"bytes\xff", b"surrogate\xed\xa0\x80"),
]
PIDS: Final = {raw: 1_000 + number for number, raw in enumerate(IDS)}
NAMES: Final = [pytest.param(raw, id=ascii(raw)) for raw in IDS]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yields the URL of a store in which every id has an open, hanging transaction."""
    cluster = WithPartitions(f"sqlite:///{tmp_path_factory.mktemp('copies') / 'store.db'}")
    cluster.read([open_id(raw, 5_000, producer_id=pid) for raw, pid in PIDS.items()])
    subjects = {raw: Subject("orders", number, raw, PIDS[raw], 3, 100) for number, raw in enumerate(IDS)}
    cluster.see(
        *(
            observe(Kind.HANGING, subject=subject, severity=Severity.CRITICAL, log_partition=None)
            for raw, subject in subjects.items()
        )
    )
    yield cluster.url
    cluster.close()


def everything(client: TestClient, path: str) -> list[Any]:
    page = get(client, f"{path}?limit=200")
    assert page["next_cursor"] is None
    return list(page["items"])


# ---- the name of an id, as each surface shows it


def in_json(client: TestClient) -> dict[int, str]:
    return {one["producer_id"]: one["transactional_id"] for one in everything(client, f"{API}/transactions")}


def in_findings(client: TestClient) -> dict[int, str]:
    subjects = [one["subject"] for one in everything(client, f"{API}/hanging")]
    return {subject["producer_id"]: subject["transactional_id"] for subject in subjects}


def in_metrics(client: TestClient) -> dict[int, str]:
    families = text_string_to_metric_families(client.get("/metrics").text)
    samples = [sample for family in families for sample in family.samples if sample.name == "kafka_txn_hanging_info"]
    return {1_000 + int(sample.labels["partition"]): sample.labels["transactional_id"] for sample in samples}


def on_pages(client: TestClient) -> dict[int, str]:
    """Returns a mapping from producer id to the text of the hyperlink to its id."""
    found = {}
    for pid in PIDS.values():
        page = PageText(client.get(f"{PAGES}/transactions?producer_id={pid}").text)
        (found[pid],) = {text for text, href in page.links.items() if href.startswith(f"{PAGES}/transaction?id")}
    return found


SURFACES: Final[dict[str, Callable[[TestClient], dict[int, str]]]] = {
    "JSON": in_json,
    "findings": in_findings,
    "metrics": in_metrics,
    "pages": on_pages,
}


@pytest.fixture(scope="module")
def copies(client: TestClient) -> dict[str, dict[int, str]]:
    return {surface: reported(client) for surface, reported in SURFACES.items()}


@pytest.mark.parametrize("raw", NAMES)
def test_json_contains_the_id_itself(client: TestClient, copies: dict[str, dict[int, str]], raw: bytes) -> None:
    body = get(client, f"{API}/transaction?id={quote(raw)}")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        assert body["transactional_id"] == display_id(raw)
        assert get(client, f"{API}/transaction?id_b64={body['transactional_id_b64']}")["producer_id"] == PIDS[raw]
        return
    assert (body["transactional_id"], body["transactional_id_b64"]) == (text, None)
    assert copies["JSON"][PIDS[raw]] == copies["findings"][PIDS[raw]] == text


def test_no_surface_gives_two_ids_one_name(copies: dict[str, dict[int, str]]) -> None:
    for surface, names in copies.items():
        assert names.keys() == set(PIDS.values()), surface
        assert len(set(names.values())) == len(IDS), surface


# ---- the id that each surface finds by that name


def by_route(client: TestClient, name: str) -> int:
    return int(get(client, f"{API}/transaction?id={quote(name, safe='')}")["producer_id"])


def by_timeline(client: TestClient, name: str) -> int:
    """Checks that the timeline and the rates of the id are found. Returns the producer id from the id's own route,
    because the rows of timeline and rates contain no id."""
    get(client, f"{API}/transaction/timeline?id={quote(name, safe='')}")
    get(client, f"{API}/transaction/rates?id={quote(name, safe='')}")
    return by_route(client, name)


def by_findings(client: TestClient, name: str) -> int:
    (one,) = get(client, f"{API}/findings?transactional_id={quote(name, safe='')}")["items"]
    return int(one["subject"]["producer_id"])


def by_page(client: TestClient, name: str) -> int:
    answer = client.get(f"{PAGES}/transaction?id={quote(name, safe='')}")
    assert answer.status_code == 200
    return _of_link(client, PageText(answer.text).links["This page as JSON"])


def by_goto(client: TestClient, name: str) -> int:
    answer = client.get(f"{PAGES}/goto?q={quote(name, safe='')}", follow_redirects=False)
    if answer.status_code == 303:
        return _of_link(client, answer.headers["location"])
    assert answer.status_code == 200
    hrefs = list(PageText(answer.text).links.values())
    return _of_link(client, next(href for href in hrefs if href.startswith(f"{PAGES}/transaction?")))


def by_findings_page(client: TestClient, name: str) -> int:
    page = PageText(client.get(f"{PAGES}/findings?transactional_id={quote(name, safe='')}").text)
    (finding,) = {href for href in page.links.values() if re.search("/findings/[0-9a-f]+$", href)}
    return int(get(client, f"/api/v1{finding}")["subject"]["producer_id"])


def _of_link(client: TestClient, href: str) -> int:
    return int(get(client, href if href.startswith("/api/") else f"/api/v1{href}")["producer_id"])


TAKERS: Final[dict[str, Callable[[TestClient, str], int]]] = {
    "transaction": by_route,
    "timeline and rates": by_timeline,
    "findings": by_findings,
    "page": by_page,
    "go to": by_goto,
    "page of findings": by_findings_page,
}


def names_of(copies: dict[str, dict[int, str]], raw: bytes) -> set[str]:
    return {names[PIDS[raw]] for names in copies.values()}


@pytest.mark.parametrize("raw", NAMES)
def test_a_name_from_one_surface_finds_the_same_id_on_every_surface(
    client: TestClient, copies: dict[str, dict[int, str]], raw: bytes
) -> None:
    for name in names_of(copies, raw):
        found = {taker: take(client, name) for taker, take in TAKERS.items()}
        assert found == dict.fromkeys(TAKERS, PIDS[raw]), name


@pytest.mark.parametrize("raw", NAMES)
@pytest.mark.parametrize("parameter", ["prefix", "q"])
def test_filters_find_an_id_by_each_of_its_names(
    client: TestClient, copies: dict[str, dict[int, str]], parameter: str, raw: bytes
) -> None:
    for name in names_of(copies, raw):
        found = get(client, f"{API}/transactions?limit=200&{parameter}={quote(name, safe='')}")["items"]
        assert PIDS[raw] in [one["producer_id"] for one in found], name
        html = client.get(f"{PAGES}/transactions?{parameter}={quote(name, safe='')}").text
        assert f"id={quote(raw, safe='')}" in {href.partition("?")[2] for href in PageText(html).links.values()}, name


def test_an_equal_id_comes_before_an_id_with_an_equal_display_form(store: str) -> None:
    """If a text equals one id and is also the displayed form of another id, the text finds the id that it equals."""
    tab, literal = b"tab\tid", rb"tab\u{9}id"
    cluster = WithPartitions(store, "billing")
    cluster.read([open_id(tab, 5_000, producer_id=1), open_id(literal, 5_000, producer_id=2)])
    with client_of(store) as client:
        one = f"{API.replace('orders', 'billing')}/transaction?id="
        assert get(client, f"{one}{quote(display_id(tab))}")["producer_id"] == 2
        assert get(client, f"{one}{quote(display_id(literal))}")["producer_id"] == 2
        assert get(client, f"{one}{quote(tab)}")["producer_id"] == 1
        hits = client.get(f"/clusters/billing/goto?q={quote(display_id(tab))}").text
    cluster.close()
    assert PageText(hits).links.keys() >= {display_id(tab), display_id(literal)}, "the user may mean either id"


# ---- the terminal


@pytest.fixture
def ask(store: str, capsys: pytest.CaptureFixture[str]) -> Iterator[Ask]:
    with service_of(store) as url:
        yield command_line(url, capsys)


def test_the_terminal_names_ids_as_pages_do_and_takes_every_name(ask: Ask, copies: dict[str, dict[int, str]]) -> None:
    listed = ask("transactions", "--cluster", "orders", "--limit", "200")[1].splitlines()[1:]
    reported = {int(re.split("  +", line)[4]): re.split("  +", line)[0] for line in listed}
    assert reported == copies["pages"] == copies["metrics"]
    for raw, pid in PIDS.items():
        for name in {reported[pid], copies["JSON"][pid]}:
            if "\0" in name:
                continue  # an argument of a command cannot contain NUL
            code, out, _ = ask("transaction", "--cluster", "orders", "--json", "--", name)
            assert (code, json.loads(out)["producer_id"]) == (0, pid), name
            (finding,) = json.loads(ask("findings", "--cluster", "orders", "--json", f"--transactional-id={name}")[1])[
                "items"
            ]
            assert finding["subject"]["transactional_id"] == copies["JSON"][pid]
        assert (
            ask("transaction", "--cluster", "orders", "--", reported[pid])[1]
            .splitlines()[0]
            .endswith(f"  {reported[pid]}")
        ), raw


def test_json_of_the_terminal_equals_that_of_the_service(ask: Ask, copies: dict[str, dict[int, str]]) -> None:
    items = json.loads(ask("transactions", "--cluster", "orders", "--limit", "200", "--json")[1])["items"]
    assert {one["producer_id"]: one["transactional_id"] for one in items} == copies["JSON"]
