"""One partition that can be made to hang while a browser looks on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from service.domain.findings.kinds import Kind
from tests.helpers.findings import observe
from tests.helpers.partitions import WithPartitions, entry, moving_partition
from tests.helpers.stores import Id
from tests.service.web.browser import Tab
from tests.service.web.stories import empty_store, hanging, on

PAGE = "/clusters/prod-eu"
HANGS = "1 transaction hangs. It will not heal by itself."


@pytest.fixture
def well(tmp_path: Path) -> Iterator[WithPartitions]:
    """payments-7 is well."""
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
    """Complaints that a test brings about itself."""
    taken = [one for one in tab.complaints if re.search(pattern, one)]
    tab.complaints[:] = [one for one in tab.complaints if one not in taken]
    return taken
