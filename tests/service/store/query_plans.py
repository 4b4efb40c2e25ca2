"""Records the statements that a test executes on SQLite, and SQLite's query plans for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, event

Ran = list[tuple[str, Any]]
"""Statements with their parameters."""


@contextmanager
def statements(of: Engine | Connection) -> Iterator[Ran]:
    """Yields a list that collects the statements executed within the `with` block."""
    ran: Ran = []

    def keep(_conn: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        ran.append((statement, parameters))

    event.listen(of, "before_cursor_execute", keep)
    try:
        yield ran
    finally:
        event.remove(of, "before_cursor_execute", keep)


def plans(engine: Engine, ask: Callable[[Connection], object]) -> list[str]:
    """Returns the steps of the query plans of all SELECT and DELETE statements that `ask` executes. Fails if there are
    none."""
    with engine.connect() as connection, statements(connection) as ran:
        ask(connection)
    return steps_of(engine, ran)


def steps_of(engine: Engine, ran: Ran) -> list[str]:
    with engine.connect() as connection:
        steps = [
            row[3]
            for statement, parameters in ran
            if statement.startswith(("SELECT", "DELETE"))
            for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        ]
    assert steps
    return steps
