"""Fixtures that give each test of the judge its own store, on every kind of database."""

from tests.service.store.conftest import cluster, empty_url, engine, new_cluster, reader, url

__all__ = ["cluster", "empty_url", "engine", "new_cluster", "reader", "url"]
