"""Indexes of ids are built after a first read: none is forgotten, and a store with ids keeps its own."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine, Index, inspect

from service.store import late_indexes
from service.store.errors import StoreUnavailable
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS, batch, read, transaction

TABLES = ("transactional_ids", "producer_ids")


def indexes(engine: Engine) -> list[str]:
    found = (index for table in TABLES for index in inspect(engine).get_indexes(table))
    return sorted(
        f"{index['name']} {index['column_names']} {sorted(map(str, index['dialect_options'].values()))}"
        for index in found
    )


def build_all(engine: Engine, missing: list[Index]) -> None:
    while missing:
        late_indexes.build_one(engine, missing)


def test_what_is_dropped_is_built_as_it_was(engine: Engine) -> None:
    before = indexes(engine)
    assert late_indexes.missing(engine) == []
    late_indexes.drop_where_empty(engine)
    kept = [line.partition(" ")[0] for line in indexes(engine)]
    assert kept == ["ix_transactional_ids_open", "ix_transactional_ids_settles"], "those of few rows"
    missing = late_indexes.missing(engine)
    assert len(missing) == len(before) - len(kept)
    late_indexes.build_one(engine, missing)
    build_all(engine, late_indexes.missing(engine))
    build_all(engine, missing)  # another process has built them meanwhile
    assert indexes(engine) == before


def test_a_store_with_ids_keeps_its_indexes(engine: Engine, cluster: Cluster) -> None:
    """Another cluster's readers use them."""
    before = indexes(engine)
    cluster.start({0: 0})
    cluster.writer.apply(batch(transaction(0, start_ms=1_000), read(0, 3)), NOW_MS)
    late_indexes.drop_where_empty(engine)
    assert indexes(engine) == before


def test_an_index_that_cannot_be_built_now_is_built_later(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    before = indexes(engine)
    late_indexes.drop_where_empty(engine)
    missing = late_indexes.missing(engine)

    def refuse(*_: object, **__: object) -> None:
        raise StoreUnavailable("locked")

    with monkeypatch.context() as locked:
        locked.setattr(Index, "create", refuse)
        with pytest.raises(StoreUnavailable):
            late_indexes.build_one(engine, missing)
    build_all(engine, missing)
    assert indexes(engine) == before
