"""Builders of facts for the rules. Fields that a test does not give have defaults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from service.domain.findings.conditions import IdState
from service.domain.findings.context import Context
from service.domain.findings.events import Event
from service.domain.findings.rules import Rule, Rules
from service.domain.partitions.open_entries import Owner
from service.domain.transaction_log import states
from service.domain.transaction_log.causes import CauseCode, Confidence
from service.domain.transaction_log.known_log import KnownLog, Limits

NOW_MS = 1_790_000_000_000
S, M, H = 1_000, 60_000, 3_600_000


def context(*rules: Rule, until_ms: int = NOW_MS, assumed: Sequence[str] = (), scan_ms: int = 10 * S) -> Context:
    """Returns a context with partitions 0 and 1 of the transaction log, which brokers 10 and 11 lead. Both partitions
    are read up to `until_ms`."""
    return Context(
        KnownLog(
            Limits(scan_ms, 168 * H, H, frozenset(assumed)),
            {0: until_ms, 1: until_ms},
            {0: 10, 1: 11},
            is_complete=True,
        ),
        Rules(rules),
    )


def id_now(name: str = "pay-1", state: int = states.ONGOING, age_ms: int = 0, **fields: Any) -> IdState:
    """Returns an id whose newest record was written `age_ms` before NOW_MS. If `state` is an open one, the id's
    transaction began at that time, and has two partitions."""
    at_ms = NOW_MS - age_ms
    started = at_ms if state in states.OPEN else None
    topics = (("orders", 0), ("orders", 3)) if state in states.OPEN else ()
    id_state = IdState(name.encode(), name, 0, 40, at_ms, state, 7, 2, 60 * S, at_ms, started, at_ms, topics)
    return id_state._replace(**fields)


def event(
    sequence: int, name: str = "pay-1", cause: CauseCode = CauseCode.TIMEOUT, ago_ms: int = 0, **fields: Any
) -> Event:
    from_state = states.ONGOING if cause in (CauseCode.TIMEOUT, CauseCode.FENCED) else states.EMPTY
    one = Event(
        sequence,
        name.encode(),
        name,
        0,
        100 + sequence,
        NOW_MS - ago_ms,
        from_state,
        7,
        2,
        60 * S,
        61 * S if cause == CauseCode.TIMEOUT else None,
        cause,
        Confidence.LIKELY,
    )
    return one._replace(**fields)


def with_record(owner: Owner, **fields: Any) -> Owner:
    return owner._replace(record=owner.record._replace(**fields))
