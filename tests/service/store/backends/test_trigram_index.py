"""Tests that a text search over ids returns the same rows with and without the trigram index, in every state of the
index."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import delete, select
from sqlalchemy.exc import OperationalError

from service.domain.transaction_log import states
from service.store import migrate
from service.store.backends.sqlite import trigram_index
from service.store.engine import open_reader
from service.store.queries import transactions
from service.store.queries.transaction_pages import SORTS, Selection, filters
from service.store.schema import transactional_ids
from tests.helpers.paths import ROOT
from tests.helpers.stores import Id, SeededCluster, mixed_ids, open_id
from tests.service.store.conftest import only_on
from tests.service.store.test_read_transactions import walk

pytestmark = pytest.mark.in_turns

ALL = frozenset(states.NAMES)
ODD = (
    "İstanbul-Σς",
    "straße",
    'say "hi" AND OR',
    "a  b",
    "tab\there",
    "100%_*",
    "a\\b\\c",
    "x" * 1_500,
    "\x00\x00\x00",
)
TEXTS = (
    *(
        "app",
        "APP-00",
        "app-0012",
        "p-0",
        "none of them",
        "stanbul",
        "ΣΣ",
        "σς",
        "STRASSE",
        "raße",
        '"hi" AND',
        "AND OR",
    ),
    *(
        "  b",
        " b",
        "tab\\u{9}",
        "\there",
        "%_*",
        "\\b\\",
        "x" * 40,
        "x" * 1_000,
        "ab",
        "",
        "\x00\x00",
        "café",
        "pp-00 OR x",
    ),
)


@pytest.fixture
def seeded(url: str) -> Iterator[SeededCluster]:
    """Yields a cluster with more than 500 ids of all states and unusual texts, beside another cluster with some of the
    same ids."""
    other = SeededCluster(url, "other")
    other.read(mixed_ids()[:50])
    other.close()
    cluster = SeededCluster(url)
    cluster.read([*mixed_ids(), *(Id(one.encode()) for one in ODD), open_id("Open-APP", 5_000, "a")])
    yield cluster
    cluster.close()


def answers(cluster: SeededCluster, url: str | None = None) -> dict[tuple[str, str, str], list[bytes]]:
    """Returns the ids that each search finds. `url` may name a copy of the cluster's store."""
    found: dict[tuple[str, str, str], list[bytes]] = {}
    engine = open_reader(url or cluster.url)
    with engine.connect() as connection:
        for wanted in TEXTS:
            for sort in SORTS:
                for name, chosen in {
                    "all": Selection(ALL),
                    "open": Selection(states.OPEN, prefix=b"app-"),
                    "young": Selection(ALL, started_until_ms=10**15),
                }.items():
                    rows = walk(connection, cluster.id, chosen._replace(text=wanted.encode()), sort, 20)
                    found[wanted, sort, name] = [row.transactional_id for row in rows]
    engine.dispose()
    return found


def held(cluster: SeededCluster) -> int:
    """Returns the last row id that the index has recorded as indexed."""
    with cluster.engine.connect() as connection:
        return int(connection.exec_driver_sql("SELECT last_row FROM transactional_ids_trigrams_end").scalar_one())


@only_on("sqlite")
def test_the_index_changes_no_answer(seeded: SeededCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = answers(seeded)
    assert sum(map(bool, expected.values())) > 30, "the searches are of little use unless many of them find ids"
    monkeypatch.setattr(trigram_index, "_AT_ONCE", 300)
    trigram_index.extend(seeded.engine)
    assert held(seeded) == 300
    assert answers(seeded) == expected, "the answers differ when half of the ids are indexed"
    trigram_index.extend(seeded.engine)
    assert held(seeded) > 500
    assert answers(seeded) == expected, "the answers differ when all ids are indexed"
    monkeypatch.setattr(transactions, "_FEW", 5)
    assert answers(seeded) == expected, (
        "the answers differ when a text matches more than _FEW ids, so that the index is not used"
    )
    with seeded.engine.connect() as connection:
        assert len(trigram_index.find(connection, ["Stanbul"], 5) or ()) == 1, "the index finds the one matching id"
        assert trigram_index.find(connection, ["app-0"], 5) is None, "more ids match than the limit allows"


@only_on("sqlite")
def test_new_ids_are_found_before_the_index_holds_them(seeded: SeededCluster) -> None:
    trigram_index.extend(seeded.engine)
    seeded.read([Id(b"brand-new")])
    selection = Selection(ALL, text=b"AND-NEW")
    for _ in range(2):
        with seeded.engine.connect() as connection:
            (row,) = walk(connection, seeded.id, selection, "age", 5)
        assert row.transactional_id == b"brand-new"
        trigram_index.extend(seeded.engine)


@only_on("sqlite")
def test_an_id_that_reuses_the_row_id_of_a_deleted_one_is_found(seeded: SeededCluster) -> None:
    seeded.read([Id(b"the-last")])
    trigram_index.extend(seeded.engine)
    with seeded.engine.begin() as connection:
        connection.execute(delete(transactional_ids).where(transactional_ids.c.transactional_id == b"the-last"))
    seeded.read([Id(b"brand-new")])
    for _ in range(2):
        with seeded.engine.connect() as connection:
            (row,) = walk(connection, seeded.id, Selection(ALL, text=b"AND-NEW"), "age", 5)
            assert row.transactional_id == b"brand-new"
            assert walk(connection, seeded.id, Selection(ALL, text=b"the-last"), "age", 5) == []
        trigram_index.extend(seeded.engine)


@only_on("sqlite")
def test_answers_stay_the_same_after_a_vacuum(seeded: SeededCluster, tmp_path: Path) -> None:
    """VACUUM keeps the row ids of this table, although SQLite does not guarantee it."""
    trigram_index.extend(seeded.engine)
    expected = answers(seeded)
    file = seeded.engine.url.database
    assert file
    seeded.engine.dispose()
    copied = tmp_path / "copied.db"
    with sqlite3.connect(file) as connection:
        connection.execute("VACUUM")
        connection.execute("VACUUM INTO ?", (str(copied),))
    connection.close()
    assert answers(seeded) == expected
    assert answers(seeded, f"sqlite:///{copied}") == expected


@only_on("sqlite")
def test_a_new_revision_begins_the_index_anew(seeded: SeededCluster, next_version: Callable[[], str]) -> None:
    """A revision may recreate the table of ids with other row ids, so each new revision drops the index."""
    trigram_index.extend(seeded.engine)
    expected = answers(seeded)
    migrate.upgrade(seeded.engine)
    assert held(seeded) > 500, "an upgrade without a new revision keeps the index"
    next_version()
    migrate.upgrade(seeded.engine)
    assert answers(seeded) == expected
    with pytest.raises(OperationalError, match="no such table"):
        held(seeded)


OPERATORS_INDEX = (
    "CREATE EXTENSION pg_trgm",
    "CREATE INDEX transactional_ids_trigrams ON transactional_ids USING gin (display gin_trgm_ops)",
)


@only_on("postgresql")
def test_an_index_that_the_operator_created_is_used(seeded: SeededCluster) -> None:
    expected = answers(seeded)
    document = (ROOT / "docs" / "running.md").read_text()
    with seeded.engine.begin() as connection:
        for statement in OPERATORS_INDEX:
            assert statement in document
            connection.exec_driver_sql(statement)
    assert answers(seeded) == expected
    with seeded.engine.begin() as connection:
        connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        asked = select(transactional_ids.c.display).where(*filters(seeded.id, Selection(ALL, text=b"stanbul")))
        shown = asked.compile(seeded.engine, compile_kwargs={"literal_binds": True})
        plan = connection.exec_driver_sql(f"EXPLAIN {shown}".replace("%", "%%")).scalars().all()
    assert any("transactional_ids_trigrams" in line for line in plan), plan
