"""Tests of live pages in a real browser: the parts that a refresh replaces, the state that it keeps, and the notice
after a failed refresh."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from service.app import create_app
from service.domain.findings.kinds import Kind
from service.domain.partitions.facts import MarkerType
from service.domain.partitions.group_offsets import GroupOffset
from service.domain.partitions.marker_causes import MarkerCause
from service.domain.partitions.offset_spans import Span, SpanKind
from service.domain.transaction_log.causes import Cause, CauseCode, Confidence
from service.domain.transaction_log.facts import Participants
from service.store.clusters import describe
from service.store.queries import clusters
from service.store.writers.groups import GroupWriter
from service.views.partitions.explained_span import ExplainedSpan
from service.views.partitions.offsets import ExplainedOffsets
from service.web.partitions import partition_page
from tests.helpers.findings import observe
from tests.helpers.partitions import LSO, WithPartitions, entry, moving_partition, owner, read, stalled_partition
from tests.helpers.stores import DESCRIPTION, NOW_MS
from tests.service.web.browser import (
    DESK,
    HANGS,
    PHONE,
    WAIT_MS,
    Browse,
    Clock,
    breaks,
    is_wider_than_the_window,
    take,
    title,
)
from tests.service.web.stories import PAGE, hanging, tell

QUIET = "Nothing hangs. Nothing is blocked."


def test_a_finding_appears_and_disappears_without_a_reload(well: WithPartitions, browse: Browse) -> None:
    page = browse(well.url).open(PAGE)
    title(page, QUIET)
    page.evaluate("window.same = true")
    breaks(well)
    title(page, HANGS)
    expect(page).to_have_title("1 hanging · prod-eu · txnscope")
    expect(page.locator("#nav .n--critical")).to_contain_text("1")
    well.look(moving_partition(7, "payments", stalled_since_ms=None))
    well.see()
    title(page, QUIET)
    assert page.evaluate("window.same"), "the page must be refreshed without a reload"


def test_the_page_polls_every_five_seconds_without_events(well: WithPartitions, browse: Browse) -> None:
    tab = browse(well.url)
    tab.page.route("**/events?*", lambda route: route.fulfill(status=204))
    page = tab.open(PAGE)
    title(page, QUIET)
    breaks(well)
    title(page, HANGS)
    asked = """() => performance.getEntriesByType("resource")
        .filter((one) => one.initiatorType === "fetch").map((one) => one.startTime)"""
    first, *_ = page.evaluate(asked)
    assert first > 4_500, "the first refresh came before five seconds had passed"


def test_ages_tick_between_refreshes(well: WithPartitions, browse: Browse) -> None:
    breaks(well)
    page = browse(well.url).open(PAGE)
    page.locator("#pause").click()
    age = page.locator("#verdict time").first
    first = age.inner_text()
    expect(age).not_to_have_text(first)
    assert re.fullmatch(r"2\d s", age.inner_text())
    old = page.locator(".live__old")
    assert old.get_attribute("aria-live") == "off", "a screen reader must not announce every tick"
    expect(old).to_have_text(re.compile(r"^[1-9]\.\d s old$"))


def test_pause_keeps_the_page_and_counts_missed_changes(well: WithPartitions, browse: Browse) -> None:
    page = browse(well.url).open(PAGE)
    pause = page.get_by_role("button", name="Pause")
    pause.click()
    live = page.get_by_role("status")
    expect(live).to_contain_text(re.compile(r"Paused at 14:13:5\d, 0 changes since, data \d\.\d s old"))
    breaks(well, "late")
    expect(live).to_contain_text("2 changes since")
    title(page, QUIET)
    page.get_by_role("button", name="Go on").click()
    title(page, HANGS)
    expect(live).to_contain_text("Live, data")
    expect(pause).to_have_attribute("aria-pressed", "false")


def test_scroll_position_and_selection_survive_a_refresh(well: WithPartitions, browse: Browse) -> None:
    page = browse(well.url, width=PHONE).open(PAGE)
    page.evaluate(
        """() => {
            scrollTo(0, 300);
            const word = document.querySelector("#chain h2").firstChild;
            getSelection().setBaseAndExtent(word, 0, word, 3);
        }"""
    )
    breaks(well)
    title(page, HANGS)
    assert page.evaluate("getSelection().toString()") == "Who"
    assert page.evaluate("scrollY") > 0
    search = page.locator("#q")
    search.fill("payments-")
    page.keyboard.press("Shift+Home")
    link = page.locator("#chain a.tid")
    well.see(hanging(), observe(Kind.OVERDUE, b"late"))
    expect(page.locator("#others tbody tr")).to_have_count(1)
    assert page.evaluate("document.activeElement.id") == "q"
    assert page.evaluate("getSelection().toString()") == "payments-"
    link.focus()
    well.see(hanging(), observe(Kind.OVERDUE, b"late"), observe(Kind.OVERDUE, b"later"))
    expect(page.locator("#others tbody tr")).to_have_count(2)
    assert page.evaluate("document.activeElement.textContent") == "payments-3"
    assert search.input_value() == "payments-"


def test_opened_details_stay_open_after_a_refresh(well: WithPartitions, browse: Browse) -> None:
    page = browse(well.url).open(PAGE)
    page.evaluate(
        """() => {
            const fetched = window.fetch;
            window.fetch = async (...asked) => {
              const text = await (await fetched(...asked)).text();
              const more = '<details id="d"><summary>more</summary>said</details><section class="card" id="others">';
              return new Response(text.replace('<section class="card" id="others">', more));
            };
        }"""
    )
    details = page.locator("#d")
    breaks(well)
    expect(details).to_be_attached()
    details.locator("summary").click()
    well.see(hanging(), observe(Kind.OVERDUE, b"late"))
    expect(page.locator("#others tbody tr")).to_have_count(1)
    expect(details).to_have_attribute("open", "")


def test_a_hidden_tab_pauses_itself(well: WithPartitions, browse: Browse) -> None:
    tab = browse(well.url)
    with tab.page.expect_request("**/events?*"):
        page = tab.open(PAGE)
    other = browse(tab.address)
    other.page.route("**/events?*", lambda route: route.fulfill(status=204))
    title(other.open(PAGE), QUIET)
    hide = """(hidden) => {
        Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    asked: list[str] = []
    page.evaluate(hide, True)
    page.on("request", lambda request: asked.append(request.url))
    breaks(well)
    title(other.page, HANGS)  # five seconds later
    assert asked == []
    page.evaluate(hide, False)
    title(page, HANGS)


def test_a_lost_connection_is_reported_and_data_become_last_known(well: WithPartitions, browse: Browse) -> None:
    tab = browse(well.url)
    page = tab.open(PAGE)
    title(page, QUIET)
    page.context.set_offline(True)
    notice = page.get_by_role("alert")
    expect(notice).to_contain_text("This page has lost its connection to txnscope")
    expect(notice).to_contain_text("It shows 14:13:50.")
    expect(notice).to_contain_text("alerts come from Prometheus and still work")
    expect(page.get_by_role("status")).to_contain_text("Not connected, data")
    expect(page).to_have_title("Not connected · prod-eu · txnscope")
    title(page, f"Last known: {QUIET}")
    expect(page.locator("#verdict")).not_to_have_class(re.compile("verdict--ok"))
    expect(page.locator("#content")).to_have_class(re.compile("is-old"))
    page.context.set_offline(False)
    page.get_by_role("button", name="Retry now").click()
    title(page, QUIET)
    expect(page.locator("#verdict")).to_have_class(re.compile("verdict--ok"))
    expect(notice).to_have_count(0)
    expect(page.get_by_role("status")).to_contain_text("Live, data")
    assert take(tab, "ERR_INTERNET_DISCONNECTED")


def test_a_missing_store_is_not_reported_as_a_lost_connection(well: WithPartitions, browse: Browse) -> None:
    tab = browse(well.url)
    page = tab.open(PAGE)
    with well.engine.begin() as connection:
        revision = clusters.revision(connection)
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'future'")
        connection.exec_driver_sql("UPDATE readable_since SET revision = 'future'")
    notice = page.get_by_role("alert")
    expect(notice).to_contain_text("txnscope began to answer with an error")
    expect(notice).to_contain_text("has the tables of revision future")
    with well.engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{revision}'")
    expect(notice).to_have_count(0)
    assert take(tab, "503")


def test_a_paused_page_does_not_stay_green(well: WithPartitions, browse: Browse) -> None:
    page = browse(well.url).open(PAGE)
    page.locator("#pause").click()
    page.evaluate("txnscope.skewMs += 30000")
    title(page, f"Last known: {QUIET}")
    expect(page.locator("#verdict")).not_to_have_class(re.compile("verdict--ok"))


def test_countdowns_that_end_go_on_as_due(well: WithPartitions, browse: Browse) -> None:
    tell(well.url.replace("store.db", "other.db")).close()
    clock = Clock(NOW_MS + 47_900)
    page = browse(create_app(well.url.replace("store.db", "other.db"), "1", now_ms=clock)).open(PAGE)
    page.locator("#pause").click()
    heal = page.locator("#chain-settlements-2 .heal")
    expect(heal).to_have_text(re.compile(r"aborts itself any moment now"))
    page.evaluate("txnscope.skewMs += 12000")
    expect(heal).to_have_text(re.compile(r"aborts itself \(due \d\.\d s ago\)"))


def test_a_page_of_search_results_is_not_refreshed(well: WithPartitions, browse: Browse) -> None:
    page = browse(well.url).open(f"{PAGE}/goto?q=nobody")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    breaks(well)
    expect(page.get_by_role("status")).to_contain_text(re.compile(r"Late, data [5-9]\."))
    assert [url for url in asked if "/clusters/" in url or "/events" in url] == []
    expect(page.locator("#pause")).to_be_hidden()


HERE = "/clusters/orders/partitions/orders/0"
LONG = "warehouse-flink-sink-" + "x" * 179
SPAN = ExplainedSpan(
    Span(4, 5, SpanKind.ABORTED, 7, 3, MarkerType.ABORT, 6, NOW_MS),
    LONG.encode(),
    MarkerCause(Cause(CauseCode.CLIENT_ABORT, Confidence.CERTAIN)),
)


def stored(cluster: WithPartitions) -> None:
    """Stores an id and a group with names of 200 characters."""
    describe(cluster.engine, cluster.id, DESCRIPTION, NOW_MS)
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
    expect(page.locator("#verdict h1")).to_contain_text("orders-0 hides 10 offsets.")
    page.get_by_label("Offset", exact=True).fill("99")
    cluster.look(moving_partition(at_ms=NOW_MS + 1_000), at_ms=NOW_MS + 1_000)
    expect(page.locator("#verdict h1")).to_contain_text("orders-0 hides nothing", timeout=WAIT_MS)
    expect(page.locator("#explained")).to_contain_text("Client abort", ignore_case=True)
    expect(page.get_by_label("Offset", exact=True)).to_have_value("99")
    assert len(asked) == 1


@pytest.mark.parametrize("width", [PHONE, 768, 1024, DESK, 1920])
def test_no_page_with_long_names_scrolls_sideways(cluster: WithPartitions, browse: Browse, width: int) -> None:
    tab = browse(cluster.url, width=width)
    for path in (f"{HERE}?offset=4", "/clusters/orders/partitions", "/clusters/orders/groups"):
        assert not is_wider_than_the_window(tab.open(path)), path
    for path in ("/clusters/orders/expiring?within=9999d", "/clusters/orders/pipeline"):
        assert not is_wider_than_the_window(tab.open(path)), path
