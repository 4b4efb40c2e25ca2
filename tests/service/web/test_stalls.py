"""Tests that every page shows, above its content, which source is stalled, since when and why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.domain.partitions.ledger import LedgerBatch
from service.domain.reasons.unread import READ
from service.domain.source_state import SourceName, Stall, StallCause
from service.store import lease
from service.store.writers.partitions import LedgerWriter
from service.views.cluster.sources import stall_lines
from service.web.guide import RUNBOOKS, guide_names
from tests.helpers.partitions import WithPartitions
from tests.helpers.reasons import denied
from tests.helpers.stores import NOW_MS
from tests.service.web.browser import DESK, PHONE, Browse, is_wider_than_the_window
from tests.service.web.page_text import shows
from tests.service.web.stories import PAGE, empty_store, overview, tell

pytestmark = pytest.mark.cluster(of=empty_store)

LATER_MS = 134_000
GONE = "the transaction log and the data partitions since 14:13:50 (2 m 14 s): no streaming application"
PATHS = [
    PAGE,
    "/",
    *(f"{PAGE}/{name}" for name in ("findings", "transactions", "partitions", "groups", "expiring", "pipeline")),
    f"{PAGE}/transaction?id=payments-3",
    f"{PAGE}/partitions/payments/7",
    f"{PAGE}/goto?q=nothing-of-that-name",
]


@pytest.fixture
def story(url: str) -> Iterator[WithPartitions]:
    """Yields the main scenario. The lease was last renewed at NOW_MS."""
    cluster = tell(url)
    lease.renew(cluster.engine, cluster.lease, NOW_MS)
    yield cluster
    cluster.close()


@pytest.mark.parametrize("path", PATHS)
def test_every_page_reports_a_stalled_source_once(story: WithPartitions, url: str, path: str) -> None:
    assert overview(url, LATER_MS, path).texts[""].count(GONE) == 1


@pytest.mark.parametrize("path", PATHS)
def test_no_page_reports_a_stall_while_all_sources_are_read(story: WithPartitions, url: str, path: str) -> None:
    words = overview(url, 10_000, path).texts[""]
    assert "Nothing new of" not in words
    assert "No complete read of" not in words


def test_the_report_of_a_stall_leads_to_its_runbook(story: WithPartitions, url: str) -> None:
    runbook = f"{RUNBOOKS}/KafkaTxnPipelineStale.md"
    assert "runbooks/KafkaTxnPipelineStale.md" in guide_names()
    for path in (PAGE, f"{PAGE}/transactions", f"{PAGE}/pipeline"):
        assert runbook in overview(url, LATER_MS, path).links.values()


def test_a_starved_source_is_named_alone(story: WithPartitions, url: str) -> None:
    at_ms = NOW_MS + LATER_MS
    story.read(now_ms=at_ms)
    lease.renew(story.engine, story.lease, at_ms)
    page = overview(url, LATER_MS)
    assert page.title == "Unknown: nothing new of the data partitions for 2 m 14 s."
    words = page.texts["verdict"]
    assert shows(words, "the data partitions", "14:13:50 (2 m 14 s)", "the streaming application runs")
    assert "transaction log" not in words


def test_a_ledger_that_is_not_read_makes_no_verdict_old(story: WithPartitions, url: str) -> None:
    """No verdict depends on the ledger."""
    at_ms = NOW_MS + LATER_MS
    ledger = LedgerWriter(story.engine, story.lease)
    ledger.apply(LedgerBatch(()), NOW_MS)
    ledger.apply(LedgerBatch((), trouble=denied("payments", READ)), at_ms)
    story.read(now_ms=at_ms)
    story.look(at_ms=at_ms)
    lease.renew(story.engine, story.lease, at_ms)
    page = overview(url, LATER_MS)
    assert "Unknown" not in page.title
    assert shows(page.texts["notice"], "the ledger of markers", "14:13:50", "torn transactions")
    assert "Nothing new is judged" not in page.texts["notice"]


def test_an_old_error_of_a_gone_application_does_not_blame_the_brokers(story: WithPartitions, url: str) -> None:
    story.read(trouble="no broker of kafka:9092 answers")
    page = overview(url, LATER_MS)
    assert page.title == "Unknown: nothing of prod-eu has been read for 2 m 14 s."
    facts = ("the transaction log", "14:13:50 (2 m 14 s)", "kafka:9092", "no streaming application")
    assert shows(page.texts["verdict"], *facts)


def test_the_page_shows_if_the_application_runs_before_the_first_read(tmp_path: Path) -> None:
    cluster = WithPartitions(f"sqlite:///{tmp_path / 'new.db'}", "prod-eu")
    words = overview(cluster.url).texts["verdict"]
    assert shows(words, "no streaming application", "14:03:50 UTC")
    lease.renew(cluster.engine, cluster.lease, NOW_MS)
    words = overview(cluster.url).texts["verdict"]
    assert "the streaming application is starting; no read has succeeded yet" in words
    assert "starting" not in overview(cluster.url, path=f"{PAGE}/transactions").texts[""]
    cluster.close()


def test_sources_that_stall_together_share_a_line() -> None:
    lost = Stall(StallCause.LOST, NOW_MS, unread_since_ms=NOW_MS)
    near = Stall(StallCause.LOST, NOW_MS - 5_000, unread_since_ms=NOW_MS)
    far = Stall(StallCause.LOST, NOW_MS - 600_000, unread_since_ms=NOW_MS)
    together, alone = stall_lines(
        {SourceName.TRANSACTION_LOG: lost, SourceName.PARTITIONS: near, SourceName.LEDGER: far}, NOW_MS + LATER_MS
    )
    assert together.names == "the transaction log and the data partitions"
    assert together.since_ms == NOW_MS - 5_000
    assert "14:13" not in together.why, "the reason does not repeat the time that the line already shows"
    assert alone.names == "the ledger of markers"
    assert "since 14:13:50 UTC" in alone.why


@pytest.mark.parametrize("dark", [False, True])
def test_the_line_of_a_stall_fits_the_window(story: WithPartitions, browse: Browse, dark: bool) -> None:
    story.read(trouble=f"no broker of {','.join(f'broker-{n}.kafka.internal.example:9092' for n in range(9))} answers")
    tab = browse(story.url, dark=dark)
    for path in (PAGE, f"{PAGE}/transactions", f"{PAGE}/pipeline", "/"):
        page = tab.open(path)
        for width in (PHONE, DESK):
            page.set_viewport_size({"width": width, "height": 900})
            assert not is_wider_than_the_window(page), (path, width)
