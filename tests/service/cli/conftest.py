"""Fixtures for the tests of commands."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _files_for_their_owner_alone() -> Iterator[None]:
    """Sets the umask 077, so that tests write keys and settings with mode 0600. Commands warn of a secret in a file
    that others can read."""
    before = os.umask(0o077)
    yield
    os.umask(before)
