"""Fixtures of the pages' tests."""

from __future__ import annotations

from tests.web.browser import browse, chromium

__all__ = ["browse", "chromium"]
