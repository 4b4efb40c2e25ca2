"""Tests that a third database needs one backend module and one URL form, and no other change in the store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.helpers.paths import ROOT

THIRD = """
import sys
from types import ModuleType

import sqlalchemy.dialects
from alembic.ddl.impl import DefaultImpl
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from service.store import backends


class Third(SQLiteDialect_pysqlite):
    name = "third"
    supports_statement_cache = True


class ThirdImpl(DefaultImpl):
    __dialect__ = "third"
    transactional_ddl = True


sqlalchemy.dialects.registry.register("third", __name__, "Third")
backends.URL_FORMS["third"] = "third:///FILE"

from service.store.backends.sqlite import Sqlite, sessions
from service.store.backends.backend import Backend, create


class ThirdBackend(Backend):
    data_version = Sqlite.data_version
    row_id = Sqlite.row_id
    insert = Sqlite.insert
    larger, smaller = Sqlite.larger, Sqlite.smaller

    def resolve(self, url):
        return url

    def open_writer(self, url, *, may_create, wait_s):
        engine = create(url, sessions.arguments(url, wait_s=wait_s), pool_size=1, max_overflow=0)
        sessions.Sessions(engine, writes=True, may_create=may_create)
        return engine

    def open_reader(self, url, *, wait_s):
        engine = create(url, sessions.arguments(url, wait_s=wait_s))
        sessions.Sessions(engine, writes=False, may_create=False)
        return engine

    def rebuild(self, url, now_ms):
        raise NotImplementedError


module = ModuleType("service.store.backends.third")
module.BACKEND = ThirdBackend()
sys.modules[module.__name__] = module

from tests.helpers.stores import NOW, SeededCluster, client_of, mixed_ids

url = sys.argv[1]
cluster = SeededCluster(url)
assert cluster.engine.dialect.name == "third"
cluster.read(mixed_ids())
cluster.close()
with client_of(url) as client:
    answer = client.get("/api/v1/clusters/orders/transactions?q=app-0012&limit=200").json()
assert answer["as_of"] == NOW
print(len(answer["items"]))
"""


def test_the_store_works_on_a_database_without_special_support(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", THIRD, f"third:///{tmp_path / 'store.db'}"], cwd=ROOT, capture_output=True, text=True
    )
    assert (run.stdout, run.stderr) == ("9\n", "")
