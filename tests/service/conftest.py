"""Fixtures for the tests of the service."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from tests.helpers.access import Guarded, guarded
from tests.helpers.postgres import Postgres
from tests.helpers.stores import Id, SeededCluster, client_of
from tests.helpers.terminal import Ask, command_line, service_of


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yields the URL of a store that all tests of a file share."""
    cluster = SeededCluster(f"sqlite:///{tmp_path_factory.mktemp('store') / 'store.db'}")
    cluster.read([Id(b"a")])
    yield cluster.url
    cluster.close()


@pytest.fixture(scope="module")
def client(store: str) -> Iterator[TestClient]:
    with client_of(store) as client:
        yield client


@pytest.fixture
def ask(cluster: SeededCluster, capsys: pytest.CaptureFixture[str]) -> Iterator[Ask]:
    """Yields a function that runs `txnscope …` in this process against a service over the cluster's store."""
    with service_of(cluster.url) as url:
        yield command_line(url, capsys)


@pytest.fixture
def here(url: str) -> Iterator[Guarded]:
    """Yields a service that requires a key or a password."""
    with guarded(url) as one:
        yield one


@pytest.fixture(scope="module")
def own_server() -> Iterator[Postgres]:
    """Yields a PostgreSQL server for one test file alone. The tests of the file may restart the server, and change the
    settings of the server."""
    with Postgres() as server:
        yield server
