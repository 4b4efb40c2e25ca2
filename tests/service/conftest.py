"""Fixtures of the tests of the service."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from tests.helpers.stores import client_of


@pytest.fixture(scope="module")
def client(store: str) -> Iterator[TestClient]:
    """A client of the service over `store`: the URL of a store that serves a whole file, which the file fills."""
    with client_of(store) as client:
        yield client
