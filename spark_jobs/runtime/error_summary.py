"""Sums up in one line why a query ended, because Spark wraps a cause in pages of plans and stacks. Also stores the
reason.

If an exception is raised in one of Spark's Python processes, Spark passes on only the text of the exception. So the
text of a Kafka failure is its encoded reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from service.domain.reasons.coding import decode, encode
from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import ErrorText, is_denied
from service.kafka.errors import KafkaFailure
from service.store.errors import StoreError, StoreUnavailable

if TYPE_CHECKING:  # not in Spark's Python processes
    from service.store.writers.source import SourceWriter

# the last line of a Python traceback, anywhere in the text: "package.module.Name: message"
_RAISED = re.compile(r"^\s*(?:: |Caused by: )?((?:[A-Za-z_]\w*\.)*[A-Z]\w*): (.+)$", re.MULTILINE)
_ABOUT_THE_QUERY = "=== Streaming Query ==="
"""Heading of the text that Spark adds about the query itself. The lines below this heading look like exceptions."""

_WITHOUT_A_CAUSE = re.compile(r"STREAM_FAILED.*terminated with exception:\s+SQLSTATE: \w+ \(no cause message\)")
"""Matches Spark's message after a planner (the Python process that plans a query's micro-batches) was killed. The
message has no cause, because Spark only sees that the planner's connection ended."""

_NO_PYTHON = re.compile(r'Cannot run program "([^"]*python[^"]*)".*: error=2,')
_NO_MODULE = re.compile(r"^ModuleNotFoundError: No module named '([^']+)'", re.MULTILINE)

_STATE = "SQLSTATE"
"""The name in front of Spark's error codes, as in `SQLSTATE: 38000`. It looks like the name of an exception."""

_OURS = ("service.", "spark_jobs.")
_LONGEST = 300


class EncodedFailure(Exception):
    """An exception with an encoded reason as its text."""


_ENCODED = re.compile(rf"\b{EncodedFailure.__module__}\.{EncodedFailure.__name__}: (\{{.+\}})\s*$", re.MULTILINE)


@contextmanager
def encoding_failures() -> Iterator[None]:
    """Raises a KafkaFailure of the block as EncodedFailure."""
    try:
        yield
    except KafkaFailure as e:
        raise EncodedFailure(encode(e.reason)) from e


def encoded_reason(text: str) -> Reason | None:
    """Returns the last encoded reason in Spark's message about a query that ended. Returns None if the message contains
    no reason, or if the reason cannot be decoded."""
    found = _ENCODED.findall(text)
    try:
        return decode(found[-1]) if found else None
    except ValueError:
        return None


def reason_of(failure: BaseException) -> Reason:
    """Returns the reason why Kafka could not be read, if a failure of Kafka ended the query. Otherwise returns a reason
    with one line of the failure's text."""
    if isinstance(failure, KafkaFailure):
        return failure.reason
    return encoded_reason(str(failure)) or ErrorText(_line(str(failure)) or type(failure).__name__)


def heals(failure: BaseException) -> bool:
    """Returns True for failures that may end by themselves: failures of Kafka, also in Spark's workers, and an
    unavailable store."""
    return isinstance(failure, KafkaFailure | StoreUnavailable) or encoded_reason(str(failure)) is not None


def error_summary(failure: BaseException) -> str:
    """Returns the reason of a failure (see `reason_of`) as text for people. If a permission is missing, the text also
    says which command helps."""
    reason = reason_of(failure)
    return f"{reason} (`txnscope doctor` prints the command that grants it)" if is_denied(reason) else str(reason)


def _line(text: str) -> str:
    """Returns one line for people. For a killed planner, a missing Python or a missing module, the line is our own
    sentence. For any other text, the line is the message of our own exception in the text, else the last cause in the
    text, else the first line of the text."""
    if _WITHOUT_A_CAUSE.search(text):
        return "a Python process of Spark has ended"
    if missing := _NO_PYTHON.search(text):
        return (
            f"Spark finds no Python at {missing[1]}, on this machine or another one: set PYSPARK_PYTHON to a path that"
            " exists on all machines"
        )
    if missing := _NO_MODULE.search(text):
        return (
            f"the Python that Spark starts (PYSPARK_PYTHON), here or on another machine, has no module {missing[1]!r}:"
            " install the packages of requirements.lock for this Python"
        )
    raised = [one for one in _RAISED.findall(text.partition(_ABOUT_THE_QUERY)[0]) if one[0] != _STATE]
    ours = [message for name, message in raised if name.startswith(_OURS)]
    if ours:
        return str(ours[-1][:_LONGEST])
    if raised:
        name, message = raised[-1]
        return f"{name.rpartition('.')[2]}: {message}"[:_LONGEST]
    return text.strip().partition("\n")[0][:_LONGEST]


@contextmanager
def store_failures(writer: SourceWriter) -> Iterator[None]:
    """If an exception ends the block, stores the reason and raises the exception again."""
    try:
        yield
    except Exception as e:
        with suppress(StoreError):
            writer.report_trouble(reason_of(e))
        raise
