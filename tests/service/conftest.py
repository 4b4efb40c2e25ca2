"""Fixtures of the tests of the service."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from tests.helpers.stores import SeededCluster, client_of
from tests.helpers.terminal import Ask, command_line, service_of


@pytest.fixture(scope="module")
def client(store: str) -> Iterator[TestClient]:
    """A client of the service over `store`: the URL of a store that serves a whole file, which the file fills."""
    with client_of(store) as client:
        yield client


@pytest.fixture
def ask(cluster: SeededCluster, capsys: pytest.CaptureFixture[str]) -> Iterator[Ask]:
    """`txnscope …` against a service over the cluster's store, in a thread of this process."""
    with service_of(cluster.url) as url:
        yield command_line(url, capsys)
