"""A real browser and a real server for tests: chromium or Chrome through Playwright, and the application in a
thread."""

from __future__ import annotations

import re
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, expect, sync_playwright
from starlette.types import ASGIApp

from service.app import create_app
from service.domain.findings.kinds import Kind
from tests.helpers.findings import observe
from tests.helpers.partitions import WithPartitions, entry, moving_partition
from tests.helpers.stores import NOW_MS, Id
from tests.helpers.waiting import LIMIT_S, wait_for
from tests.service.web.stories import empty_store, hanging, on

CHROMIUM: Final = shutil.which("chromium") or shutil.which("google-chrome") or "/usr/bin/chromium"
PHONE, DESK = 390, 1280
WAIT_MS: Final = 1000 * LIMIT_S
"""The limit in ms for an action or an expectation of the page."""
HANGS: Final = "1 transaction hangs. No coordinator is set to end it."


class Clock:
    """The service's clock, which stays at the time that a test sets."""

    def __init__(self, at_ms: int = NOW_MS) -> None:
        self.at_ms = at_ms

    def __call__(self) -> int:
        return self.at_ms


class Tab(NamedTuple):
    """A page in the browser.

    `complaints` has console warnings and errors, script errors, and requests to other hosts. A test removes the
    complaints that it expects; any other one fails the test.
    """

    page: Page
    address: str
    complaints: list[str]

    def open(self, path: str) -> Page:
        self.page.goto(self.address + path, wait_until="domcontentloaded")
        return self.page


class Browse(Protocol):
    def __call__(
        self, app: ASGIApp | str, *, width: int = DESK, dark: bool = False, script: bool = True, **context: Any
    ) -> Tab: ...


@contextmanager
def serving(app: ASGIApp) -> Iterator[str]:
    """Serves the application from a thread, and yields its address without a slash at the end."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    try:
        wait_for(lambda: server.started or not thread.is_alive(), "the server to start")
        assert server.started, "the server ended during its start"
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(LIMIT_S)
        listening.close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Yields a browser for one test module. While the browser runs, no other event loop can run in this thread."""
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@pytest.fixture
def browse(chromium: Browser) -> Iterator[Browse]:
    """Yields a function that opens a tab in its own browser context.

    `browse(cluster.url)` and `browse(app)` start a server. `browse("http://…")` uses a running server.
    """
    with ExitStack() as running:
        tabs: list[Tab] = []

        def browse(
            app: ASGIApp | str, *, width: int = DESK, dark: bool = False, script: bool = True, **context: Any
        ) -> Tab:
            if isinstance(app, str) and app.startswith("http://"):
                address = app
            else:
                served = create_app(app, "1.2.3", now_ms=Clock()) if isinstance(app, str) else app
                address = running.enter_context(serving(served))
            opened = chromium.new_context(
                viewport={"width": width, "height": 900},
                color_scheme="dark" if dark else "light",
                java_script_enabled=script,
                **context,
            )
            running.callback(opened.close)
            page = opened.new_page()
            page.set_default_timeout(WAIT_MS)
            tabs.append(Tab(page, address, []))
            _listen(page, address, tabs[-1].complaints.append)
            return tabs[-1]

        yield browse
        for tab in tabs:
            assert not tab.complaints, tab.complaints


def _listen(page: Page, address: str, complain: Callable[[str], None]) -> None:
    page.on("console", lambda reported: complain(reported.text) if reported.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complain(str(error)))
    page.on("request", lambda asked: None if asked.url.startswith(address) else complain(f"asked {asked.url}"))


def is_wider_than_the_window(page: Page) -> bool:
    """Returns whether the page scrolls sideways. A table that scrolls within its own box does not count."""
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))


@pytest.fixture
def well(tmp_path: Path) -> Iterator[WithPartitions]:
    """Yields a store in which payments-7 is not stalled."""
    cluster = empty_store(f"sqlite:///{tmp_path / 'store.db'}")
    cluster.read([Id(b"payments-3", producer_id=7)])
    cluster.look(moving_partition(7, "payments"))
    yield cluster
    cluster.close()


def breaks(cluster: WithPartitions, *more: str) -> None:
    cluster.look(*on("payments", 7, entry(7)))
    cluster.see(hanging(), *(observe(Kind.OVERDUE, name.encode()) for name in more))


def title(page: Page, text: str | re.Pattern[str]) -> None:
    expect(page.locator("h1")).to_have_text(text)


def take(tab: Tab, pattern: str) -> list[str]:
    """Removes and returns the complaints that match `pattern`, which the test has caused on purpose."""
    taken = [complaint for complaint in tab.complaints if re.search(pattern, complaint)]
    tab.complaints[:] = [complaint for complaint in tab.complaints if complaint not in taken]
    return taken
