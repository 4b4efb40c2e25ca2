"""Tests the pages in a real browser. The pages come from the real service over the demo's real broker."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from deploy.demo.scenarios import INVOICES_ID, LATE_OFFSET, REFUNDS, REFUNDS_ID
from deploy.demo.tour import CLUSTER
from service.web.guide import GUIDE, RUNBOOKS
from service.web.guide_navigation import START
from tests.deploy.demo.running import Demo, showing
from tests.helpers.paths import ROOT
from tests.helpers.waiting import LIMIT_S, wait_until
from tests.service.web.browser import DESK, PHONE, Browse, browse, chromium, is_wider_than_the_window

__all__ = ["browse", "chromium"]

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns("file")]

PAGE: Final = f"/clusters/{CLUSTER}"
LEVELS: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
OF_COLORS: Final = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
"""The axe rules whose result depends on the color scheme."""
DRAWN_APART: Final = ("inventory", "nightly-report", INVOICES_ID)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with showing(tmp_path_factory.mktemp("demo")) as demo:
        yield demo


@pytest.fixture(scope="module")
def service(demo: Demo) -> str:
    first, *_ = demo.urls()
    return first.removesuffix(PAGE)


@pytest.fixture(scope="module")
def paths(demo: Demo, service: str) -> list[str]:
    """Returns paths that cover every kind of page: the first page; the pages of the tour, with one transaction page for
    each kind of drawing (bars, swimlane, stuck); the lists that the tour omits; and three pages of the guide, which are
    its first page, the list of runbooks and one runbook."""
    toured = [url.removeprefix(service) for url in demo.urls() if "/api/" not in url and not url.endswith("/metrics")]
    toured = [path for path in toured if "/transaction?" not in path or path.endswith(DRAWN_APART)]
    lists = [f"{PAGE}/{name}" for name in ("findings", "transactions?state=Ongoing", "partitions", "goto?q=refunds")]
    guide = [f"{GUIDE}/{START}", *(f"{RUNBOOKS}/{name}.md" for name in ("README", "KafkaTransactionHanging"))]
    return list(dict.fromkeys(["/", *toured, *lists, *guide]))


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_every_page_fits_the_window_and_is_accessible(
    browse: Browse, service: str, paths: list[str], width: int
) -> None:
    """Each page also passes axe: roles, names, labels, and contrast in both color schemes. The browser tab fails the
    test on errors and on requests to other hosts."""
    tab = browse(service, width=width)
    for path in paths:
        tab.page.emulate_media(color_scheme="light")
        page = tab.open(path)
        expect(page.locator("h1")).to_have_count(1)
        assert not is_wider_than_the_window(page), path
        _has_no_violations(page, LEVELS, path)
        page.emulate_media(color_scheme="dark")
        _has_no_violations(page, OF_COLORS, f"{path}, dark")


def _has_no_violations(page: Page, rules: Any, where: str) -> None:
    found = Axe().run(page, options={"runOnly": rules, "resultTypes": ["violations"]})
    assert found.violations_count == 0, f"{where}\n{found.generate_report()}"


def test_the_search_leads_to_the_page_of_the_typed_name(browse: Browse, service: str) -> None:
    page = browse(service).open(PAGE)
    for typed, where in (
        (REFUNDS_ID, f"{PAGE}/transaction?id={REFUNDS_ID}"),
        (f"{REFUNDS}-0", f"{PAGE}/partitions/{REFUNDS}/0"),
        (f"{REFUNDS}-0@{LATE_OFFSET}", f"{PAGE}/partitions/{REFUNDS}/0?offset={LATE_OFFSET}"),
        (_producer_id(page, service), f"{PAGE}/transaction?id={REFUNDS_ID}"),
    ):
        page.keyboard.press("/")
        page.get_by_role("searchbox", name="Go to").fill(typed)
        page.keyboard.press("Enter")
        expect(page).to_have_url(service + where)
    page = browse(service).open(f"{PAGE}/partitions/{REFUNDS}/0?offset={LATE_OFFSET}")
    expect(page.locator("#explained")).to_contain_text(f"Offset {LATE_OFFSET} belongs to")
    expect(page.locator("#explained")).to_contain_text(REFUNDS_ID)


def test_the_keyboard_reaches_every_element_and_the_focus_is_visible(browse: Browse, service: str) -> None:
    page = browse(service).open(PAGE)
    reached: list[str] = []
    while True:
        page.keyboard.press("Tab")
        now = page.evaluate(FOCUSED)
        if now is None:
            break
        assert now["name"], f"the element has no name for a screen reader: {now['html']}"
        assert now["seen"], f"the focus is not visible on {now['html']}"
        if now["name"] == "Pause":
            page.keyboard.press("Space")  # from now on the counts do not change
        reached.append(now["html"])
    assert len(reached) == page.locator(REACHABLE).count(), reached
    page.locator("#chain tbody a").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text(re.compile("refunds|invoices|archive"))


def test_an_open_page_shows_that_a_hanging_transaction_was_ended(browse: Browse, service: str, demo: Demo) -> None:
    finding = next(url for url in demo.urls() if "/findings/" in url)
    looks_on = browse(service, permissions=["clipboard-read", "clipboard-write"])
    page = looks_on.open(finding.removeprefix(service))
    expect(page.locator("h1")).to_contain_text(f"{REFUNDS}-0")
    page.locator(".cmd").filter(has_text=" abort ").get_by_role("button", name="Copy").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert f"--topic {REFUNDS} --partition 0 --start-offset {LATE_OFFSET}" in copied

    paused = browse(service).open(PAGE)
    paused.get_by_role("button", name="Pause").click()
    before = paused.locator("h1").inner_text()
    overview = browse(service).open(PAGE)
    expect(overview.locator("#chain")).to_contain_text(REFUNDS)
    overview.evaluate("window.same = true")

    _end(demo)
    expect(overview.locator("#chain")).not_to_contain_text(REFUNDS)
    expect(page.locator("#content")).to_contain_text("Resolved")
    assert overview.evaluate("window.same"), "the page must be refreshed without a reload"
    expect(paused.get_by_role("status")).to_contain_text(re.compile("Paused at .*, [1-9][0-9]* changes? since"))
    expect(paused.locator("h1")).to_contain_text(before)  # possibly after "Last known: "
    paused.get_by_role("button", name="Go on").click()
    expect(paused.locator("h1")).not_to_contain_text(before)


REACHABLE: Final = ", ".join(
    f"{it}:visible" for it in ("a[href]", "button", "input", "select", "summary", "[tabindex='0']")
)
FOCUSED: Final = """() => {
    const at = document.activeElement;
    if (!at || at === document.body) return null;
    const style = getComputedStyle(at);
    const box = at.getBoundingClientRect();
    const named = at.innerText || at.ariaLabel || at.title || [...(at.labels || [])].map(l => l.innerText).join(" ");
    const shown = style.outlineStyle !== "none" || style.boxShadow !== "none";
    const inside = box.bottom > 0 && box.top < innerHeight;
    return { html: at.outerHTML.slice(0, 200), name: named.trim(), seen: shown && inside };
}"""


def _producer_id(page: Page, service: str) -> str:
    answer: Any = page.request.get(f"{service}/api/v1{PAGE}/transaction?id={quote(REFUNDS_ID)}")
    return str(answer.json()["producer_id"])


def _end(demo: Demo) -> None:
    """Repeats the tour's command that ends the hanging transaction, until the service accepts the command. This takes a
    minute, because the id of the transaction has to expire first."""
    command = next(line for line in demo.said.splitlines() if "txnscope resolve" in line)
    wait_until(
        lambda: _run(command),
        lambda done: done.returncode == 0,
        "the service to accept the command that ends the transaction",
    )


def _run(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(shlex.split(command), cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
