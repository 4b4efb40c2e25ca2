"""The judge's tests have a store of their own, on every kind of database."""

from tests.service.store.conftest import cluster, empty_url, engine, new_cluster, reader, url

__all__ = ["cluster", "empty_url", "engine", "new_cluster", "reader", "url"]
