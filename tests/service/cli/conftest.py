"""Fixtures of the tests of commands."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _files_for_their_owner_alone() -> Iterator[None]:
    """Sets a umask with which tests write keys and settings with mode 0600: commands warn of files that others can
    read."""
    before = os.umask(0o077)
    yield
    os.umask(before)
