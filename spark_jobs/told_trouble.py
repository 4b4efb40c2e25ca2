"""What ends a query is said in the store, in one line, before it is raised on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from service.store.errors import StoreError
from service.store.writers.source import SourceWriter
from spark_jobs.runtime.error_summary import reason


@contextmanager
def trouble_is_told(writer: SourceWriter) -> Iterator[None]:
    """If the store takes it."""
    try:
        yield
    except Exception as e:
        with suppress(StoreError):
            writer.report_trouble(reason(e))
        raise
