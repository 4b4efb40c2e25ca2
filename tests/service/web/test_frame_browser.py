"""Tests of the frame of every page in a real browser: keyboard, search, copying, narrow windows, dark mode, and use
without JavaScript."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from service.domain.findings.kinds import Kind
from tests.helpers.findings import observe
from tests.helpers.partitions import WithPartitions, entry
from tests.helpers.stores import Id
from tests.service.web.browser import DESK, HANGS, PHONE, Browse, breaks, is_wider_than_the_window, take, title
from tests.service.web.stories import PAGE, empty_store, group, hanging, on, wait


def test_the_search_works_by_keyboard(well: WithPartitions, browse: Browse) -> None:
    page = browse(well.url).open(PAGE)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Go to")).to_be_focused()
    page.keyboard.type("payments-7/")
    assert page.locator("#q").input_value() == "payments-7/", (
        "within a field, / is an ordinary character and no shortcut"
    )
    page.keyboard.press("Backspace")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/clusters/prod-eu/partitions/payments/7$"))


def test_another_cluster_is_chosen_at_once(well: WithPartitions, browse: Browse) -> None:
    empty_store(well.url, "staging").close()
    page = browse(well.url).open(PAGE)
    page.get_by_label("Cluster").select_option("staging")
    expect(page).to_have_url(re.compile(r"/clusters/staging$"))


def test_a_command_is_copied_unchanged(well: WithPartitions, browse: Browse) -> None:
    breaks(well)
    page = browse(well.url, permissions=["clipboard-read", "clipboard-write"]).open(PAGE)
    page.get_by_role("link", name="What to do").first.click()
    page.locator("button[data-copy]").first.click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.split()[0].endswith(("kafka-transactions.sh", "txnscope"))
    assert "  " not in copied
    assert "\n" not in copied


def test_the_page_is_complete_without_script(well: WithPartitions, browse: Browse) -> None:
    breaks(well)
    page = browse(well.url, script=False).open(PAGE)
    title(page, HANGS)
    expect(page.locator("#chain tbody tr")).to_have_count(1)
    expect(page.locator("#pause")).to_be_hidden()
    page.get_by_role("button", name="Go", exact=True).click()
    expect(page).to_have_url(re.compile(r"/clusters/prod-eu$"))


def test_the_page_has_labels_and_announcements_for_screen_readers(well: WithPartitions, browse: Browse) -> None:
    breaks(well)
    page = browse(well.url).open(PAGE)
    assert page.locator("h1").get_attribute("aria-live") == "polite"
    assert page.locator("[aria-live] time").count() == 0, "a screen reader would announce the time every second"
    assert page.locator("table:not(:has(caption))").count() == 0
    assert page.locator("th:not([scope])").count() == 0
    assert page.locator("svg[role=img]:not([aria-label])").count() == 0
    expect(page.locator("nav [aria-current=page]")).to_have_text("Overview")


@pytest.mark.parametrize("dark", [False, True])
def test_no_page_scrolls_sideways(well: WithPartitions, browse: Browse, dark: bool) -> None:
    name = b"warehouse.loader_" * 12
    well.read([Id(name, producer_id=8), Id(b"x" * 200, producer_id=9)])
    well.look(*on("t" * 200, 7, entry(8)), *on("payments", 7, entry(9)))
    wait(well, [group("consumer-group-" * 14, "payments", 7), group("g" * 200, "t" * 200, 7)])
    well.see(hanging("t" * 200, 7, name, 8), observe(Kind.OVERDUE, b"y" * 200))
    tab = browse(well.url, dark=dark)
    for path in (PAGE, "/", f"{PAGE}/goto?q=x", f"{PAGE}/goto?q={'q' * 300}", "/nope"):
        page = tab.open(path)
        for width in (PHONE, 768, 1_024, DESK, 1_920):
            page.set_viewport_size({"width": width, "height": 900})
            assert not is_wider_than_the_window(page), (path, width)
    take(tab, "404")
