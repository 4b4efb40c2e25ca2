"""Tests of a SQLite store that is locked, replaced, deleted or damaged while the application runs, with real brokers
and real Spark. The application continues by itself, and counts every transaction once. If the store was deleted, it
counts from zero."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from deploy.demo.broker import Broker
from service.store.errors import StoreError
from tests.helpers.damaged_pages import all_of, file_of, overwrite, pages_of
from tests.helpers.paths import ROOT
from tests.helpers.waiting import wait_for, wait_until_equal
from tests.integration.application import Ingest
from tests.integration.producers import create_topic, open_producer, transact

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns]

ID = "store-faults"


class Supervised(Ingest):
    """Runs `txnscope ingest`, which consists of the application and of the supervisor that restarts it."""

    def start(self, module: str = "service.cli") -> Supervised:
        self._run(module, "ingest", *self._flags)
        return self

    @property
    def file(self) -> Path:
        return file_of(self.url)

    def wait_for_text(self, text: str, after: int = 0) -> int:
        """Waits until the log contains the text. Ignores the first `after` characters of the log. Returns the position
        in the log after the text."""
        wait_for(lambda: text in self.log.read_text()[after:], f"{text!r} in {self.log}")
        return self.log.read_text().index(text, after) + len(text)

    def wait_for_id(self, commits: int, aborts: int) -> None:
        """Waits until this test's id has these counts. The broker also has ids of other tests."""
        not_yet = (StoreError, OperationalError)  # the store has no file or no tables yet
        wait_until_equal(lambda: self.counts().get(ID), (commits, aborts), f"the counts ({self.log})", retry_on=not_yet)


@pytest.fixture
def app(broker_431: Broker, tmp_path: Path) -> Iterator[Supervised]:
    app = Supervised(broker_431.bootstrap, tmp_path)
    app.start()
    try:
        app.wait_until_counting()
        yield app
    finally:
        assert app.stop() == 0
    assert "Traceback" not in app.log.read_text()


@contextmanager
def locked(file: Path) -> Iterator[None]:
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


def replace(file: Path, other: Path) -> None:
    """Replaces the file by another one, as an operator does to restore a backup."""
    for path in all_of(file):
        path.unlink()
    other.rename(file)


def test_store_faults_neither_lose_nor_repeat_a_count(app: Supervised, broker_431: Broker, tmp_path: Path) -> None:
    create_topic(broker_431.bootstrap, ID)
    producer = open_producer(broker_431.bootstrap, ID)
    transact(producer, ID)
    app.wait_for_id(1, 0)
    backup = tmp_path / "backup.db"
    with closing(sqlite3.connect(app.file)) as raw:
        raw.execute("VACUUM INTO ?", (str(backup),))

    with locked(app.file):
        transact(producer, ID, commit=False)
        app.wait_for_text("database is locked")
        transact(producer, ID, commit=False)
    app.wait_for_id(1, 2)

    overwrite(backup, pages_of(backup, "transitions"))
    replace(app.file, backup)
    replaced = app.wait_for_text(f"ERROR store {app.url}: its file was replaced by another one")
    transact(producer, ID, commit=False)
    app.wait_for_text("malformed; `txnscope migrate --rebuild`", replaced)
    transact(producer, ID)
    rebuilt = subprocess.run(
        [sys.executable, "-m", "service.cli", "migrate", "--rebuild", "--store", app.url],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (rebuilt.returncode, rebuilt.stdout) == (0, "")
    assert "tables that could be read only in part: transitions\n" in rebuilt.stderr
    app.wait_for_id(2, 3)
    assert set(app.gaps()) == {"away"}

    for path in all_of(app.file):
        path.unlink()
    app.wait_for_text(f"ERROR store {app.url}: its file was deleted")
    app.wait_for_id(0, 0)
    transact(producer, ID)
    app.wait_for_id(1, 0)
