"""Tests that the pages of ids together have every row once and in order, for every sort, and that each page is read
through an index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Connection

from service.domain.transaction_log import states
from service.domain.transaction_log.states import FIRST_TIME_MS, LAST_TIME_MS
from service.store.engine import open_reader
from service.store.queries.transaction_pages import SORTS, PageCursor, Selection
from service.store.queries.transactions import find, participants, read_page
from service.store.rows.ids import IdRow
from tests.helpers.stores import INT64_MAX, NOW_MS, Id, SeededCluster, mixed_ids, open_id
from tests.service.store.conftest import BACKENDS, new_store, only_on
from tests.service.store.query_plans import plans

ALL = frozenset(states.NAMES)
LIVE = ALL - {states.EXPIRED}


@pytest.fixture(scope="module", params=BACKENDS)
def mixed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeededCluster]:
    """Yields a cluster with 500 ids of all states and unusual times, beside another cluster with the same ids."""
    with new_store(request, tmp_path_factory.mktemp("mixed")) as url:
        other = SeededCluster(url, "other")
        other.read(mixed_ids())
        other.close()
        cluster = SeededCluster(url)
        cluster.read(mixed_ids())
        yield cluster
        cluster.close()


@pytest.fixture
def connection(mixed: SeededCluster) -> Iterator[Connection]:
    engine = open_reader(mixed.url)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def walk(connection: Connection, cluster: int, selection: Selection, sort: str, limit: int) -> list[IdRow]:
    rows: list[IdRow] = []
    after: PageCursor | None = None
    while True:
        page = read_page(connection, cluster, selection, sort, after, limit)
        assert len(page.rows) <= limit
        rows += page.rows
        if page.after is None:
            return rows
        assert len(page.rows) == limit, "only the last page may be short"
        after = page.after


def order(sort: str, row: IdRow) -> tuple[Any, ...]:
    """Returns the sort key of a row, computed independently of the store. Rows without an age, and rows whose time is
    before FIRST_TIME_MS or after LAST_TIME_MS, come after the others."""
    if sort == "age":
        started = row.started_at_ms
        if started is None:
            return (3, row.transactional_id)
        group = 0 if FIRST_TIME_MS <= started <= LAST_TIME_MS else 1 if started < FIRST_TIME_MS else 2
        return (group, started, row.transactional_id)
    if sort == "last_updated":
        updated = row.record.last_update_ms
        if FIRST_TIME_MS <= updated <= LAST_TIME_MS:
            return (0, -updated, row.transactional_id)
        return (1 if updated > LAST_TIME_MS else 2, updated, row.transactional_id)
    return (row.transactional_id,)


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("limit", [7, 50, 200])
@pytest.mark.parametrize(
    "selection",
    [Selection(ALL), Selection(LIVE), Selection(states.OPEN), Selection(LIVE, prefix=b"app-001")],
    ids=["all", "live", "open", "prefix"],
)
def test_a_walk_finds_every_id_once_and_in_order(
    mixed: SeededCluster, connection: Connection, sort: str, limit: int, selection: Selection
) -> None:
    rows = walk(connection, mixed.id, selection, sort, limit)
    expected = {one.id for one in mixed_ids() if one.state in selection.states and one.id.startswith(selection.prefix)}
    assert [row.transactional_id for row in rows] == [
        row.transactional_id for row in sorted(rows, key=lambda row: order(sort, row))
    ]
    assert len(rows) == len(expected)
    assert {row.transactional_id for row in rows} == expected


@pytest.mark.parametrize("sort", SORTS)
def test_filters_together_return_only_ids_that_match_all_of_them(
    mixed: SeededCluster, connection: Connection, sort: str
) -> None:
    until_ms = NOW_MS - 20_000
    selection = Selection(LIVE, prefix=b"app-0", started_until_ms=until_ms, topic="payments", text=b"APP-00")
    found = {row.transactional_id for row in walk(connection, mixed.id, selection, sort, 10)}
    assert found == {
        one.id
        for one in mixed_ids()
        if one.state in states.OPEN and 0 <= one.start_ms <= until_ms and one.id.startswith(b"app-0")
    }


@pytest.mark.parametrize("sort", SORTS)
def test_a_filter_by_producer_id_finds_its_id(mixed: SeededCluster, connection: Connection, sort: str) -> None:
    (one,) = (one for one in mixed_ids() if one.producer_id == 240)
    rows = walk(connection, mixed.id, Selection(LIVE, producer_id=240), sort, 10)
    assert [row.transactional_id for row in rows] == [one.id]


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        (b"\xff", [b"\xff", b"\xff\xff", b"\xff\xffz"]),
        (b"\xff\xff", [b"\xff\xff", b"\xff\xffz"]),
        (b"a\xff", [b"a\xff", b"a\xffb"]),
        (b"a_", [b"a_%"]),
        (b"", [b"", b"a\xff", b"a\xffb", b"a_%", b"b", b"\xff", b"\xff\xff", b"\xff\xffz"]),
    ],
)
def test_a_prefix_is_compared_by_bytes(url: str, prefix: bytes, expected: list[bytes]) -> None:
    cluster = SeededCluster(url)
    cluster.read(Id(raw) for raw in (b"", b"b", b"a\xff", b"a\xffb", b"a_%", b"\xff", b"\xff\xff", b"\xff\xffz"))
    with cluster.engine.connect() as connection:
        rows = walk(connection, cluster.id, Selection(LIVE, prefix=prefix), "transactional_id", 2)
    cluster.close()
    assert sorted(expected) == [row.transactional_id for row in rows]


def test_a_text_is_not_taken_as_a_pattern(url: str) -> None:
    cluster = SeededCluster(url)
    cluster.read(Id(raw) for raw in (b"100%", b"1000", b"a_b", b"axb", b"a\\b", b"A\\B"))
    found = {}
    with cluster.engine.connect() as connection:
        for text in ("0%", "a_b", "a\\b"):
            rows = walk(connection, cluster.id, Selection(LIVE, text=text.encode()), "age", 50)
            found[text] = {row.transactional_id for row in rows}
    cluster.close()
    assert found == {"0%": {b"100%"}, "a_b": {b"a_b"}, "a\\b": {b"a\\b", b"A\\B"}}


def test_an_id_is_found_with_its_partitions(url: str) -> None:
    cluster = SeededCluster(url)
    cluster.read([open_id("pay", 5_000, "b", "a"), Id(b"done")])
    with cluster.engine.connect() as connection:
        row = find(connection, cluster.id, b"pay")
        absent = find(connection, cluster.id, b"Pay")
        taking_part = participants(connection, cluster.id, [b"pay", b"done"])
    cluster.close()
    assert row is not None
    assert row.state == states.ONGOING
    assert absent is None
    assert taking_part == {b"pay": [("a", 0), ("a", 1), ("b", 0), ("b", 1)]}


def plan(mixed: SeededCluster, selection: Selection, sort: str, after: PageCursor | None = None) -> list[str]:
    return plans(mixed.engine, lambda connection: read_page(connection, mixed.id, selection, sort, after, 200))


AFTER = {
    "age": PageCursor(0, NOW_MS - 30_000, b"app-00100"),
    "transactional_id": PageCursor(0, None, b"app-00100"),
    "last_updated": PageCursor(0, NOW_MS - 10_000, b"app-00100"),
}
INDEXES = {
    "age": {"ix_transactional_ids_open", "ix_transactional_ids_cluster_id_state_transactional_id"},
    "transactional_id": {"ix_transactional_ids_cluster_id_state_transactional_id"},
    "last_updated": {"ix_transactional_ids_cluster_id_state_last_update_ms"},
}


# SQLite only: PostgreSQL's planner does not choose an index for a table of 500 rows
@only_on("sqlite", "mixed")
@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("is_first", [True, False], ids=["first page", "later page"])
def test_pages_follow_an_index_and_sort_nothing(mixed: SeededCluster, sort: str, is_first: bool) -> None:
    steps = plan(mixed, Selection(LIVE), sort, None if is_first else AFTER[sort])
    assert not [step for step in steps if step.startswith("SCAN")]
    # allowed: SQLite sorts rows of the same millisecond ("... FOR RIGHT PART OF ORDER BY")
    assert "USE TEMP B-TREE FOR ORDER BY" not in steps
    used = {step.split("INDEX ")[1].split(" ")[0] for step in steps if "INDEX " in step}
    assert used - {"sqlite_autoindex_transactional_ids_1"} == INDEXES[sort]


@only_on("sqlite", "mixed")
@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize(
    "selection",
    [
        Selection(LIVE, prefix=b"app-001"),
        Selection(LIVE, producer_id=7),
        Selection(LIVE, topic="payments"),
        Selection(LIVE, started_until_ms=NOW_MS),
        Selection(states.OPEN),
        Selection(frozenset({states.EMPTY, states.UNKNOWN})),
    ],
    ids=["prefix", "producer_id", "topic", "min_age", "open", "empty or unknown"],
)
def test_a_narrow_selection_uses_an_index(mixed: SeededCluster, sort: str, selection: Selection) -> None:
    """SQLite finds the selected ids by an index. In the worst case, SQLite walks through the ids of the selected
    states. For a prefix, a producer id or a topic, no such walk is needed."""
    steps = plan(mixed, selection, sort)
    assert not [step for step in steps if step.startswith("SCAN")]
    walks = [step for step in steps if "last_update_ms" in step]
    names_ids = selection.prefix or selection.producer_id is not None or selection.topic is not None
    assert not (walks and names_ids)
    assert all("state=?" in step for step in walks)


@pytest.mark.parametrize("wide", [1, 20_000])
def test_a_prefix_of_many_ids_gives_the_same_page_as_one_of_few(
    mixed: SeededCluster, connection: Connection, monkeypatch: pytest.MonkeyPatch, wide: int
) -> None:
    monkeypatch.setattr("service.store.queries.transactions._WIDE", wide)
    rows = walk(connection, mixed.id, Selection(LIVE, prefix=b"app-00"), "last_updated", 7)
    expected = {one.id for one in mixed_ids() if one.state in LIVE and one.id.startswith(b"app-00")}
    assert {row.transactional_id for row in rows} == expected
    assert rows == sorted(rows, key=lambda row: order("last_updated", row))


def test_int64_limits_are_no_times_and_come_last(url: str) -> None:
    cluster = SeededCluster(url)
    cluster.read(
        [
            open_id("a-max", 0)._replace(start_ms=INT64_MAX, last_update_ms=INT64_MAX),
            open_id("b-min", 0)._replace(start_ms=-(2**63), last_update_ms=-(2**63)),
            open_id("c-last", 0)._replace(start_ms=LAST_TIME_MS, last_update_ms=LAST_TIME_MS),
            open_id("d-first", 0)._replace(start_ms=FIRST_TIME_MS, last_update_ms=FIRST_TIME_MS),
            Id(b"e-done", last_update_ms=FIRST_TIME_MS + 5),
            open_id("f-zero", 0)._replace(start_ms=0, last_update_ms=0),
        ]
    )
    with cluster.engine.connect() as connection:
        walks = {sort: walk(connection, cluster.id, Selection(LIVE), sort, 1) for sort in ("age", "last_updated")}
    cluster.close()
    names = {sort: [row.display for row in rows] for sort, rows in walks.items()}
    assert names == {
        "age": ["d-first", "c-last", "b-min", "f-zero", "a-max", "e-done"],
        "last_updated": ["c-last", "e-done", "d-first", "a-max", "b-min", "f-zero"],
    }
