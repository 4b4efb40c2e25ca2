"""Fixtures of the pages' tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.partitions import WithPartitions
from tests.service.web.breaking import well
from tests.service.web.browser import browse, chromium
from tests.service.web.stories import empty_store

__all__ = ["browse", "chromium", "well"]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture
def cluster(url: str) -> Iterator[WithPartitions]:
    """prod-eu, of which nothing was read yet."""
    cluster = empty_store(url)
    yield cluster
    cluster.close()
