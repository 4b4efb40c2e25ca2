"""How the reason of a failure gets from a worker to the driver: of an exception, Spark passes on the text alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from service.domain.reasons.coding import decode, encode
from service.domain.reasons.reason import Reason
from service.kafka.errors import KafkaFailure


class Carried(Exception):
    """Its text is the encoded reason."""


_CARRIED = re.compile(rf"\b{Carried.__module__}\.{Carried.__name__}: (\{{.+\}})\s*$", re.MULTILINE)


@contextmanager
def carrying_reasons() -> Iterator[None]:
    """What asking Kafka ends in is raised as Carried."""
    try:
        yield
    except KafkaFailure as e:
        raise Carried(encode(e.reason)) from e


def carried_in(text: str) -> Reason | None:
    """The last one in what Spark says of a query that ended; None: no reason was carried."""
    found = _CARRIED.findall(text)
    try:
        return decode(found[-1]) if found else None
    except ValueError:
        return None
