"""Sums up in one line what ended a query (Spark wraps a cause in pages of plans and stacks), and stores that line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from service.store.errors import StoreError
from service.store.writers.source import SourceWriter

# the last line of a Python traceback, wherever it stands in the text: "package.module.Name: message"
_RAISED = re.compile(r"^\s*(?:Caused by: )?((?:[A-Za-z_]\w*\.)*[A-Z]\w*): (.+)$", re.MULTILINE)
_ABOUT_THE_QUERY = "=== Streaming Query ==="
"""What Spark adds about the query itself: its lines look like exceptions."""

_WITHOUT_A_CAUSE = re.compile(r"STREAM_FAILED.*terminated with exception:\s+SQLSTATE: \w+ \(no cause message\)")
"""What Spark says when a planner was killed: its connection ended, which has no message."""

_OURS = ("service.", "spark_jobs.")
_LONGEST = 300


def error_summary(failure: BaseException) -> str:
    """The message of our own exception if one is in the text, else the last cause in it, else its first line."""
    if _WITHOUT_A_CAUSE.search(str(failure)):
        return "a Python process of Spark's has ended"
    raised = _RAISED.findall(str(failure).partition(_ABOUT_THE_QUERY)[0])
    ours = [message for name, message in raised if name.startswith(_OURS)]
    if ours:
        return str(ours[-1][:_LONGEST])
    if raised:
        name, message = raised[-1]
        return f"{name.rpartition('.')[2]}: {message}"[:_LONGEST]
    return (str(failure).strip() or type(failure).__name__).splitlines()[0][:_LONGEST]


@contextmanager
def store_failures(writer: SourceWriter) -> Iterator[None]:
    """Stores, in one line, what ended the block, and raises it on."""
    try:
        yield
    except Exception as e:
        with suppress(StoreError):
            writer.report_trouble(error_summary(e))
        raise
