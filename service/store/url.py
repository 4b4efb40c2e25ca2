"""The URL of a store: which database it names, and how it is shown without its passwords."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from service.store.errors import StoreError

SECRETS: Final = ("password", "sslpassword")
"""libpq's settings that are secret, where the URL has them behind the question mark."""

_IN_QUERY: Final = re.compile(r"(?i)(password=)[^&]*")
_CREDENTIALS: Final = re.compile(r"(?s)(^[^:/@]*:/*)?.*@")
"""Matches, in a text that no parser takes for a URL, everything after the scheme up to the last @."""

_DRIVERS: Final = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}


def redact_url(url: URL) -> str:
    """Returns the URL with *** for passwords."""
    return _IN_QUERY.sub(r"\1***", url.render_as_string(hide_password=True))


def redact_text(url: str) -> str:
    """Hides the credentials of a text that is no URL as `redact_url` does. User names go too, because nothing shows
    where they end."""
    return _IN_QUERY.sub(r"\1***", _CREDENTIALS.sub(r"\1***@", url, count=1))


def parse_store_url(url: str) -> URL:
    """Returns the URL with its driver. StoreError: it names no store, or the folder of its file is not there."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise StoreError(f"store {redact_text(url)!r}: not a URL like sqlite:///txnscope.db") from error
    backend = parsed.get_backend_name()
    if parsed.drivername not in (backend, _DRIVERS.get(backend)) or backend not in _DRIVERS:
        raise StoreError(f"store {redact_url(parsed)}: neither sqlite:///FILE nor postgresql://HOST/DATABASE")
    if backend == "sqlite":
        if parsed.database in (None, "", ":memory:"):
            raise StoreError(f"store {redact_url(parsed)}: needs a file, it is shared by two processes")
        _check_folder(parsed)
    return parsed.set(drivername=_DRIVERS[backend])


def _check_folder(url: URL) -> None:
    folder = Path(url.database or "").parent
    try:
        is_there = folder.is_dir()
    except OSError as error:  # the name is too long, or access is denied
        raise StoreError(f"store {redact_url(url)}: {folder}: {error.strerror}") from error
    if not is_there:
        raise StoreError(f"store {redact_url(url)}: no directory {folder}")
