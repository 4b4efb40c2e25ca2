"""Fixtures of the pages' tests."""

from tests.service.web.breaking import well
from tests.service.web.browser import browse, chromium

__all__ = ["browse", "chromium", "well"]
