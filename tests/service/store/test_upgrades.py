"""A store that an earlier version wrote comes up under this one with the same answers.

`tests/golden/stores` has, for each revision of the tables, a store that the program of its time wrote (SQL), and what
its service answered then (JSON).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from service.store import migrate
from service.store.engine import open_engine
from tests.helpers.paths import ROOT
from tests.helpers.stores import client_of

STORES: Final = ROOT / "tests" / "golden" / "stores"
REVISIONS: Final = sorted(path.stem for path in STORES.glob("*.sql"))
GONE: Final = {"summary"}
"""Fields that had another text, or are no more."""


@pytest.fixture(params=REVISIONS)
def revision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(revision: str, tmp_path: Path) -> str:
    """A store as the program of that revision left it."""
    file = tmp_path / "store.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript((STORES / f"{revision}.sql").read_text())
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(revision,)]
    return f"sqlite:///{file}"


def test_an_earlier_store_gives_the_answers_that_it_gave(url: str, revision: str) -> None:
    engine = open_engine(url)
    migrate.upgrade(engine)
    engine.dispose()
    before: dict[str, Any] = json.loads((STORES / f"{revision}.json").read_text())
    assert sum(len(body.get("items", ())) for body in before.values()) >= 40
    with client_of(url) as client:
        now = {path: client.get(path).json() for path in before}
    assert list(differences(before, now, "")) == []


def differences(before: Any, now: Any, place: str) -> Iterator[str]:
    """Yields where the answers differ. New fields are no difference."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key, value in before.items():
            if key not in GONE:
                yield from differences(value, now.get(key, "(nothing)"), f"{place}/{key}")
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, value in enumerate(before):
            yield from differences(value, now[number], f"{place}/{number}")
    elif before != now:
        yield f"{place}: {before!r} is {now!r} now"
