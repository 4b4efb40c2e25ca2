"""The databases that can hold a store. Each has a package or module here with its name, which implements
`service.store.backends.backend.Backend` as `BACKEND`; no other package knows a database.

Whoever only shows what a URL looks like imports this module alone: it loads no database library.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sqlalchemy import Connection, Dialect, Engine

    from service.store.backends.backend import Backend

URL_FORMS: Final = {
    "sqlite": "sqlite:///FILE",
    "postgresql": "postgresql://HOST/DATABASE",
}
"""The form of a store's URL, by the name of the database: the name of its module here, and SQLAlchemy's name of it."""

DEFAULT_URL: Final = "sqlite:///txnscope.db"


@cache
def backends() -> Mapping[str, Backend]:
    """Returns every database by its name."""
    return {name: import_module(f"{__name__}.{name}").BACKEND for name in URL_FORMS}


def backend_of(bound: Connection | Engine) -> Backend:
    """Returns the database behind a connection or an engine."""
    return backend_for(bound.dialect)


def backend_for(dialect: Dialect) -> Backend:
    return backends()[dialect.name]
