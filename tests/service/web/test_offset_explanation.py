"""Tests of the explanation of an offset on the page of its partition: who wrote the record, and what became of the
record. A list of batches stands in for Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.api.http.kafka import Kafka
from service.app import create_app
from service.domain.findings.finding import Evidence, Subject
from service.domain.findings.lost_records import EndedBy, lost_records
from service.domain.findings.rules import Rule
from service.domain.partitions.facts import BatchOffsets, MarkerType, PartitionEnds
from service.domain.partitions.offset_spans import SpanBuilder
from service.domain.worlds.markers import Marker
from service.views.partitions import offsets_reading
from service.web.partitions.partition_page import Asked, asked
from tests.helpers.partitions import WithPartitions, moving_partition
from tests.helpers.stores import NOW_MS, Id
from tests.service.web.page_text import PageText, page_of, shows

HERE = "/clusters/orders/partitions/orders/0"


@pytest.mark.parametrize(
    ("query", "status", "says"),
    [
        ("offset=5", 200, "Offset 5 cannot be explained now. This request needs Kafka"),
        ("offset=5&to=", 200, "Offset 5 cannot be explained now"),
        ("offset=x", 422, "'x' is no offset"),
        ("offset=-1", 422, "This cannot be explained"),
        ("offset=9&to=9", 422, "'9' is no end"),
        ("offset=&to=7", 422, "first offset"),
        ("offset=&to=", 200, "Who wrote the record"),
    ],
)
def test_an_offset_without_explanation_has_a_sentence_on_the_page(
    cluster: WithPartitions, query: str, status: int, says: str
) -> None:
    cluster.look(moving_partition())
    page = page_of(cluster.url, f"{HERE}?{query}", status)
    assert says in page.texts["explained"]
    assert "orders-0 hides nothing" in page.texts["verdict"], "the rest of the page is still shown"


class _Log(Kafka):
    """Stands in for the service's connection to Kafka. Yields None in place of a client, and counts in `asked` how
    often a client was requested."""

    def __init__(self) -> None:
        super().__init__(None)
        self.asked = 0

    @contextmanager
    def asking(self, cluster: Any) -> Iterator[Any]:
        self.asked += 1
        yield None


@pytest.fixture
def explain(cluster: WithPartitions, monkeypatch: pytest.MonkeyPatch) -> Callable[..., PageText]:
    """Returns a function that renders the page of orders-0 for a query. The result's `texts["asked"]` is the number of
    times that a Kafka client was requested so far.

    The log has an aborted, a committed and an open transaction, records outside of transactions, and no record at the
    offsets 0 to 2.
    """
    pieces = [
        BatchOffsets(3, 6, 7, 3, True),
        BatchOffsets(6, 7, 7, 3, True, True, MarkerType.ABORT, NOW_MS - 1_000),
        BatchOffsets(7, 9, 8, 0, True),
        BatchOffsets(9, 10, 8, 0, True, True, MarkerType.COMMIT, NOW_MS - 500),
        BatchOffsets(10, 12, -1, -1, False),
        BatchOffsets(12, 15, 9, 0, True),
    ]
    truncated: list[int | None] = [None]

    def read_(client: Any, place: PartitionEnds, walk: SpanBuilder, *bounds: Any) -> int | None:
        for piece in pieces:
            walk.add_batch(piece)
        walk.finish(15, 12, is_whole=True)
        return truncated[0]

    monkeypatch.setattr(offsets_reading, "find", lambda *_: PartitionEnds("orders", 0, "T", 1, 5, 0, 12, 15))
    monkeypatch.setattr(offsets_reading, "read", read_)
    log = _Log()

    def page(query: str, headers: dict[str, str] | None = None, stopped_at: int | None = None) -> PageText:
        truncated[0] = stopped_at
        app = create_app(cluster.url, "1.2.3", now_ms=lambda: NOW_MS)
        app.state.txnscope = replace(app.state.txnscope, kafka=log)
        with TestClient(app) as client:
            answer = client.get(f"{HERE}?{query}", headers=headers or {})
        assert answer.status_code == 200, answer.text
        found = PageText(answer.text)
        found.texts["asked"] = str(log.asked)
        return found

    cluster.read([Id(b"pay", producer_id=7), Id(b"a<b>", producer_id=8)])
    cluster.look(moving_partition())
    return page


@pytest.mark.usefixtures("explain")
def test_what_kafka_answered_is_not_kept_for_the_next_request(cluster: WithPartitions) -> None:
    log = _Log()
    app = create_app(cluster.url, "1.2.3", now_ms=lambda: NOW_MS)
    app.state.txnscope = replace(app.state.txnscope, kafka=log)
    with TestClient(app) as client:
        for asked_times in (1, 2):
            assert client.get(f"{HERE}?offset=5").status_code == 200
            assert log.asked == asked_times


def test_an_offset_is_shown_with_its_owner_and_outcome(explain: Callable[..., PageText]) -> None:
    aborted = explain("offset=4").texts["explained"]
    assert aborted.startswith("Aborted. Offset 4")
    assert shows(aborted, "pay (producer id 7, epoch 3)", "ABORT marker at 6, 2026-09-21 14:13:49.123", "skip it")
    page = explain("offset=8")
    assert page.texts["explained"].startswith("Committed. Offset 8")
    assert "a<b> (producer id 8, epoch 0)" in page.texts["explained"]
    assert page.links["a<b>"] == "/clusters/orders/transaction?id=a%3Cb%3E"
    assert page.links["This page as JSON"].endswith("/partitions/orders/0/offsets/8?to=9")
    assert shows(explain("offset=9").texts["explained"], "A marker. Offset 9", "COMMIT marker of a<b>")
    assert explain("offset=1").texts["explained"].startswith("Not in the log. Offset 1")
    assert "belongs to no transaction" in explain("offset=10").texts["explained"]
    assert shows(explain("offset=12").texts["explained"], "Still open. Offset 12", "(producer id 9, epoch 0)")


def test_a_range_of_offsets_is_a_table(explain: Callable[..., PageText]) -> None:
    reported = explain("offset=3&to=1,000", stopped_at=15).texts["explained"].replace("\N{EN DASH}", " to ")
    rows = (
        "3 to 5 aborted pay (producer id 7, epoch 3)",
        "6 a marker",
        "10 to 11 written without",
        "12 to 14 still open",
    )
    assert shows(reported, *rows)
    assert "stopped at offset 15" in reported


def test_a_run_of_aborted_records_is_summed_up(explain: Callable[..., PageText]) -> None:
    reported = explain("offset=4").texts
    assert shows(
        reported["only-aborted"], "from 4 to 6", "1 transaction of pay", "2 records", "first readable record is at 7"
    )
    assert "only-aborted" not in explain("offset=8").texts


def test_records_that_a_finding_calls_lost_are_not_only_called_aborted(
    explain: Callable[..., PageText], cluster: WithPartitions
) -> None:
    """The records were committed, but the ABORT of the next transaction of the same producer id and epoch ended
    them."""
    subject, decision = Subject("orders", 0, b"pay", 7, 3, 3), (Evidence(NOW_MS, "log", "fact"),)
    marker = Marker(6, 3, NOW_MS, is_commit=False)
    cluster.see(lost_records(subject, "pay", 4, EndedBy.OTHER_TRANSACTION, marker, decision, Rule()))
    for query in ("offset=4", "offset=3&to=10"):
        reported = explain(query).texts["explained"]
        assert shows(reported, "ABORT at 6", "may cover two transactions", "decided COMMIT", "missing"), query
    assert "may cover" not in explain("offset=8").texts["explained"]


def test_a_refresh_of_the_page_sends_no_request_to_kafka(explain: Callable[..., PageText]) -> None:
    """The browser keeps the explanation that it shows (hx-morph-skip)."""
    assert explain("offset=4").texts["asked"] == "1"
    page = explain("offset=4", {"X-Refresh": "1"})
    assert page.texts["asked"] == "1"
    assert "Aborted" not in page.texts["explained"]


def test_pasted_offsets_may_contain_separators() -> None:
    assert asked(" 48,211,900 ", "") == Asked(48_211_900, 48_211_901)
    assert asked("48_211_900", "48 211 910") == Asked(48_211_900, 48_211_910)
    assert asked("", "") == Asked()
    assert asked(str(2**63 - 1), "").mistake is not None
    assert asked("1,2", "").mistake is not None
    assert asked("٣", "").mistake is not None
