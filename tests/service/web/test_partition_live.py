"""The page of one partition in a real browser: its own refresh keeps an answer that Kafka was asked for once."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from service.app import create_app
from service.domain.partitions.blocked_groups import GroupOffset
from service.domain.partitions.facts import MarkerType
from service.domain.partitions.marker_causes import MarkerCause
from service.domain.partitions.offset_spans import Span, SpanKind
from service.domain.transaction_log.causes import Cause, CauseCode, Confidence
from service.domain.transaction_log.facts import Participants
from service.store import clusters
from service.store.writers.groups import GroupWriter
from service.views.partitions.explained_span import ExplainedSpan
from service.views.partitions.offsets import ExplainedOffsets
from service.web.partitions import partition_page
from tests.helpers.partitions import LSO, WithPartitions, entry, moving_partition, owner, read, stalled_partition
from tests.helpers.stores import DESCRIPTION, NOW_MS
from tests.service.web.browser import DESK, PHONE, WAIT_MS, Browse, Clock, is_wider_than_the_window

HERE = "/clusters/orders/partitions/orders/0"
LONG = "warehouse-flink-sink-" + "x" * 179
SPAN = ExplainedSpan(
    Span(4, 5, SpanKind.ABORTED, 7, 3, MarkerType.ABORT, 6, NOW_MS),
    LONG.encode(),
    MarkerCause(Cause(CauseCode.CLIENT_ABORT, Confidence.CERTAIN)),
)


def stored(cluster: WithPartitions) -> None:
    """An id and a group of 200 characters."""
    clusters.describe(cluster.engine, cluster.id, DESCRIPTION, NOW_MS)
    places = (Participants("orders", (0,)),)
    cluster.read([owner(LONG.encode(), topics=places, last_update_ms=NOW_MS, timestamp_ms=NOW_MS)])
    cluster.look(stalled_partition(), read(entry()), moving_partition(1))
    GroupWriter(cluster.engine, cluster.lease).replace([GroupOffset("g" * 200, "orders", 0, LSO, 2, False)], NOW_MS)


pytestmark = pytest.mark.cluster(stored=stored)


def test_the_answer_and_the_typed_text_survive_a_refresh(
    cluster: WithPartitions, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def explained(*arguments: object) -> ExplainedOffsets:
        asked.append(1)
        return ExplainedOffsets([SPAN], None, None, NOW_MS)

    monkeypatch.setattr(partition_page, "explained", explained)
    tab = browse(create_app(cluster.url, "1.2.3", now_ms=Clock()))
    page = tab.open(f"{HERE}?offset=4")
    expect(page.locator("#explained")).to_contain_text("Aborted. Offset 4 belongs to")
    expect(page.locator("#verdict h1")).to_contain_text("orders-0 hides 10 records.")
    page.get_by_label("Offset", exact=True).fill("99")
    cluster.look(moving_partition(at_ms=NOW_MS + 1_000), at_ms=NOW_MS + 1_000)
    expect(page.locator("#verdict h1")).to_contain_text("orders-0 hides nothing", timeout=WAIT_MS)
    expect(page.locator("#explained")).to_contain_text("Client abort", ignore_case=True)
    expect(page.get_by_label("Offset", exact=True)).to_have_value("99")
    assert len(asked) == 1


@pytest.mark.parametrize("width", [PHONE, 768, 1024, DESK, 1920])
def test_no_page_scrolls_sideways_whatever_is_long(cluster: WithPartitions, browse: Browse, width: int) -> None:
    tab = browse(cluster.url, width=width)
    for path in (f"{HERE}?offset=4", "/clusters/orders/partitions", "/clusters/orders/groups"):
        assert not is_wider_than_the_window(tab.open(path)), path
    for path in ("/clusters/orders/expiring?within=9999d", "/clusters/orders/pipeline"):
        assert not is_wider_than_the_window(tab.open(path)), path
