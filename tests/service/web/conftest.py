"""Fixtures for the tests of pages."""

from tests.service.web.browser import browse, chromium, well

__all__ = ["browse", "chromium", "well"]
