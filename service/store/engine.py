"""Opens the store's engines: those that write, and those that only read."""

from __future__ import annotations

from typing import Final

from sqlalchemy import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError

from service.store.backends import DEFAULT_URL, URL_FORMS, backends
from service.store.backends.backend import Backend
from service.store.errors import StoreError, redact_text, redact_url

API_WAIT_S: Final = 30.0
"""Time that a request that writes waits for a lock before it is answered with 503."""

_LOCK_WAIT_S: Final = 5.0


def open_engine(url: str, *, must_exist: bool = False, wait_s: float = _LOCK_WAIT_S) -> Engine:
    """Returns the writer's engine. A transaction takes the write lock of the whole store at once, or locks rows.

    A file that is missing is created by the first connection, unless it `must_exist`. From then on the engine keeps to
    that file: StoreReplaced is raised once it was deleted or replaced. `wait_s`: time to wait for a lock.

    StoreError: the URL is no store. Whatever is executed raises StoreUnavailable while the store is locked, full,
    read-only or down, and StoreDamaged.
    """
    backend, parsed = resolve(url)
    return backend.open_writer(parsed, may_create=not must_exist, wait_s=wait_s)


def open_reader(url: str) -> Engine:
    """Returns an engine that cannot write; one transaction sees one state of the store. Errors as `open_engine`, but no
    StoreReplaced: it opens the new file. It never creates one.

    It reads only from a server that can be written, unless the URL says otherwise.
    """
    backend, parsed = resolve(url)
    return backend.open_reader(parsed, wait_s=_LOCK_WAIT_S)


def resolve(url: str) -> tuple[Backend, URL]:
    """Returns the database that the URL names, and the URL with its driver. StoreError: it names no store, or the
    folder of its file is not there."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise StoreError(f"store {redact_text(url)!r}: not a URL like {DEFAULT_URL}") from error
    backend = backends().get(parsed.get_backend_name())
    found = None if backend is None else backend.resolve(parsed)
    if backend is None or found is None:
        raise StoreError(f"store {redact_url(parsed)}: neither {' nor '.join(URL_FORMS.values())}")
    return backend, found
