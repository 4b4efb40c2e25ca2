"""Fixtures of the pages' tests."""

from tests.service.web.browser import browse, chromium, well

__all__ = ["browse", "chromium", "well"]
