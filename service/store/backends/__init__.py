"""The databases that can hold a store. Each database has a package here, named after it, whose `BACKEND` implements
`service.store.backends.backend.Backend`. No other package depends on a particular database. This module loads no
database library, so that a help text can show the forms of URLs."""

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
"""Maps the name of a database to the form of a store's URL. The database's package here and its dialect in SQLAlchemy
have the same name."""

DEFAULT_URL: Final = "sqlite:///txnscope.db"


@cache
def backends() -> Mapping[str, Backend]:
    """Returns a mapping from the database's name in URLs to its backend."""
    return {name: import_module(f"{__name__}.{name}").BACKEND for name in URL_FORMS}


def backend_of(bound: Connection | Engine) -> Backend:
    """Returns the backend of the database behind a connection or an engine."""
    return backend_for(bound.dialect)


def backend_for(dialect: Dialect) -> Backend:
    return backends()[dialect.name]
