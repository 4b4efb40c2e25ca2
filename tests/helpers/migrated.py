"""Gives tests stores at the newest revision. A copy of a migrated store takes a hundredth of the time of a
migration."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Engine

from service.store import migrate
from service.store.engine import open_engine


def migrated(engine: Engine) -> Engine:
    """Creates all tables in the store of `engine`, and returns `engine`. A new SQLite file is made by copying a
    migrated store. Any other store is migrated."""
    file = engine.url.database
    if engine.dialect.name == "sqlite" and file is not None and not Path(file).exists():
        shutil.copyfile(Path(_of_this_process().name) / "store.db", file)
    else:
        migrate.upgrade(engine)
    return engine


@cache
def _of_this_process() -> TemporaryDirectory[str]:
    """Returns a directory with a migrated SQLite store. Each process makes its own directory, and removes it at its
    end."""
    directory = TemporaryDirectory(prefix="txnscope-migrated-")
    engine = open_engine(f"sqlite:///{directory.name}/store.db")
    migrate.upgrade(engine)
    engine.dispose()
    return directory
