"""Carries the reason of a failure from a worker to the driver: Spark passes on only the text of an exception."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from service.domain.reasons.coding import decode, encode
from service.domain.reasons.reason import Reason
from service.kafka.errors import KafkaFailure


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
    """Returns the last carried reason in Spark's message about a query that ended; None if there is none."""
    found = _ENCODED.findall(text)
    try:
        return decode(found[-1]) if found else None
    except ValueError:
        return None
