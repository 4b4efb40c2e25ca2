"""Tests that an upsert of many rows at once gives the same result as an upsert row by row, also through PostgreSQL's
COPY."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import Engine, event
from sqlalchemy.exc import IntegrityError

from service.store import clusters, schema
from service.store.backends.postgresql.copy_in import COPIES_FROM
from service.store.many_rows import Upsert
from tests.service.store.conftest import only_on
from tests.service.store.logs import NOW_MS, rows

ADD = Upsert(schema.counters, add=("value",))
REPLACE = Upsert(schema.counters, replace=("value",))
KEEP = Upsert(schema.counters)
PRODUCERS = Upsert(schema.producer_ids, replace=("last_seen_ms", "last_epoch"))

NO_END = (None, None, None)

Rows = Sequence[tuple[Any, ...]]


def counted(cluster_id: int, count: int, names: int, seed: int) -> Rows:
    """Returns `count` rows with at most `names` different names."""
    rng = random.Random(seed)
    return [(cluster_id, f"n{rng.randrange(names)}", "", rng.randrange(-(2**40), 2**40)) for _ in range(count)]


def distinct(cluster_id: int, count: int, first: int = 0) -> Rows:
    return [(cluster_id, f"n{number}", "", number) for number in range(first, first + count)]


def at_once(engine: Engine, upsert: Upsert, *pieces: Rows) -> None:
    with engine.begin() as connection:
        for piece in pieces:
            upsert.write(connection, piece)


@pytest.mark.parametrize("upsert", [ADD, REPLACE, KEEP], ids=["add", "replace", "keep"])
@pytest.mark.parametrize("names", [10**9, 50], ids=["few repeat", "most repeat"])
def test_rows_written_at_once_equal_rows_written_one_by_one(engine: Engine, upsert: Upsert, names: int) -> None:
    one, many = (clusters.bind(engine, name, name, NOW_MS) for name in ("one", "many"))
    for seed in range(2):
        at_once(engine, upsert, *([row] for row in counted(one, 2 * COPIES_FROM, names, seed)))
        at_once(engine, upsert, counted(many, 2 * COPIES_FROM, names, seed))
    assert rows(engine, schema.counters, many) == rows(engine, schema.counters, one)


def test_several_copies_in_one_database_transaction_do_not_collide(engine: Engine) -> None:
    cluster = clusters.bind(engine, "c", "c", NOW_MS)
    at_once(engine, ADD, distinct(cluster, COPIES_FROM), distinct(cluster, COPIES_FROM, first=100))
    at_once(engine, ADD, distinct(cluster, COPIES_FROM, first=100))
    found = {row["name"]: row["value"] for row in rows(engine, schema.counters, cluster)}
    assert (found["n99"], found["n100"], found["n599"]) == (99, 300, 2 * 599)
    assert len(found) == COPIES_FROM + 100


def test_every_value_that_a_column_can_have_is_stored(engine: Engine) -> None:
    cluster = clusters.bind(engine, "c", "c", NOW_MS)
    rejects = Upsert(schema.rejects, columns=[c.name for c in schema.rejects.c if c.name != "id"], key=("id",))
    odd = [None, b"", b"\x00", bytes(range(256)), b"\\N\t\n", b"x" * 40_000]
    texts = ["", "\\N", "a\tb\nc", "zürich-\N{SNOWMAN}\U0001f600", "'\"%s"]
    written = [
        (
            cluster,
            texts[n % 5],
            "t",
            2**31 - 1,
            -1,
            n * 2**50,
            texts[n % 5],
            odd[n % 6],
            odd[(n + 1) % 6],
            None,
            -(2**63),
        )
        for n in range(COPIES_FROM)
    ]
    at_once(engine, rejects, written)
    found = rows(engine, schema.rejects, cluster)
    assert [(cluster, *tuple(row.values())[1:]) for row in found] == written  # the order is the same, too
    assert [row["id"] for row in found] == sorted(row["id"] for row in found)


def test_a_value_that_does_not_fit_is_refused_and_nothing_is_written(engine: Engine) -> None:
    cluster = clusters.bind(engine, "c", "c", NOW_MS)
    with pytest.raises(Exception, match=r"(?i)too (large|big)|out of range"):
        at_once(engine, KEEP, [*distinct(cluster, COPIES_FROM), (cluster, "big", "", 2**63)])
    assert rows(engine, schema.counters, cluster) == []
    at_once(engine, KEEP, distinct(cluster, COPIES_FROM))
    assert len(rows(engine, schema.counters, cluster)) == COPIES_FROM


@only_on("postgresql")
@pytest.mark.parametrize(("count", "copies"), [(COPIES_FROM - 1, False), (COPIES_FROM, True)])
def test_only_many_rows_are_written_by_copy(engine: Engine, count: int, copies: bool) -> None:
    cluster = clusters.bind(engine, "c", "c", NOW_MS)
    seen: list[str] = []
    with engine.begin() as connection:
        event.listen(connection, "after_cursor_execute", lambda *a: seen.append(a[1].statusmessage))
        ADD.write(connection, distinct(cluster, count))
    assert (seen == ["TRUNCATE TABLE"]) is copies


def test_a_row_that_comes_twice_in_a_batch_keeps_its_first_seen_time(engine: Engine) -> None:
    """A batch has the same key twice if, within one read, an id changes its producer id and later gets the first
    producer id again."""
    cluster = clusters.bind(engine, "c", "c", NOW_MS)
    many = [(cluster, n, b"id", n, n, 0, 0, *NO_END) for n in range(COPIES_FROM)]
    at_once(engine, PRODUCERS, [*many, (cluster, 7, b"id", 900, 950, 5, 6, *NO_END)])
    (found,) = (row for row in rows(engine, schema.producer_ids, cluster) if row["producer_id"] == 7)
    assert found["first_seen_ms"] == 7
    assert (found["last_seen_ms"], found["first_epoch"], found["last_epoch"]) == (950, 0, 6)


@pytest.mark.parametrize("number", [1, COPIES_FROM])
def test_new_rows_are_refused_where_one_of_them_exists(engine: Engine, number: int) -> None:
    cluster, upsert = clusters.bind(engine, "c", "c", NOW_MS), Upsert(schema.counters, only_new=True)
    at_once(engine, upsert, distinct(cluster, number))
    with pytest.raises(IntegrityError):
        at_once(engine, upsert, distinct(cluster, number, first=number - 1))
    at_once(engine, upsert, distinct(cluster, number, first=number))
    assert len(rows(engine, schema.counters, cluster)) == 2 * number
