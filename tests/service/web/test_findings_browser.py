"""Tests of findings in a real browser: buttons copy commands, the ruler shows the LSO on a phone, and pages do not
scroll sideways."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from service.domain.findings.finding import Subject
from tests.helpers.partitions import LSO, PID, WithPartitions, entry, owner, read, stalled_partition
from tests.helpers.stores import NOW_MS
from tests.service.web.browser import DESK, PHONE, Browse, is_wider_than_the_window
from tests.service.web.every_kind import ABORT, EVERY, hanging
from tests.service.web.test_findings_pages import LIST, address, the

LONG = b"warehouse-flink-sink-" + b"8f2c41d9" * 23


def stored(cluster: WithPartitions) -> None:
    cluster.read([owner(LONG, state=5)])
    cluster.look(stalled_partition(log_start=0, high_watermark=900_000), read(entry(records=3)))
    own = Subject("orders", 0, LONG, PID, 3, LSO)
    others = [observation for kind, observation in EVERY.items() if kind != "hanging_transaction"]
    cluster.see(hanging(subject=own, owner="team-of-the-night", muted_until_ms=NOW_MS + 60_000), *others)


pytestmark = pytest.mark.cluster(stored=stored)


@pytest.mark.parametrize("width", [PHONE, 768, 1024, DESK, 1920])
def test_pages_of_findings_do_not_scroll_sideways(cluster: WithPartitions, browse: Browse, width: int) -> None:
    tab = browse(cluster.url, width=width)
    for path in (LIST, address(the(cluster)), address(the(cluster, "stuck_completion"))):
        page = tab.open(path)
        page.locator("h1").wait_for()
        assert not is_wider_than_the_window(page), path


def test_the_lso_is_in_the_middle_of_the_ruler_on_a_phone(cluster: WithPartitions, browse: Browse) -> None:
    page = browse(cluster.url, width=PHONE).open(address(the(cluster)))
    page.locator("button[data-copy]").first.wait_for()
    region = page.locator("#ruler").bounding_box()
    line = page.locator("#ruler line.ax--lso").last.bounding_box()
    assert region is not None
    assert line is not None
    assert abs(line["x"] - region["x"] - region["width"] / 2) < 30
    page.locator("#ruler").focus()
    before = page.evaluate("document.getElementById('ruler').scrollLeft")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#ruler")).not_to_have_js_property("scrollLeft", before)


def test_a_command_is_copied_unchanged(cluster: WithPartitions, browse: Browse) -> None:
    tab = browse(cluster.url, permissions=["clipboard-read", "clipboard-write"])
    page = tab.open(f"{address(the(cluster))}#do")
    page.locator("button[data-copy]").nth(1).click()
    expect(page.locator("button[data-copy]").nth(1)).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == ABORT


def test_the_page_without_script_lacks_only_the_copy_buttons(cluster: WithPartitions, browse: Browse) -> None:
    page = browse(cluster.url, script=False).open(address(the(cluster)))
    assert ABORT in " ".join(page.locator("code").all_inner_texts())
    assert page.locator("button[data-copy]:visible").count() == 0
    page.locator("summary").click()
    assert page.locator("#spans table").is_visible()
