"""Writes of a request to the store: the audit, and what people set. Everything else of the service only reads."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from fastapi import Request
from sqlalchemy import Engine

from service.access.actions import Action, Outcome
from service.access.refusals import Counted
from service.api.http.principals import address_of, principal_of
from service.clock import wall_clock_ms
from service.store import audit_events
from service.store.audit_events import AuditEvent
from service.store.engine import API_WAIT_S, open_engine
from service.store.errors import StoreError

log = logging.getLogger(__name__)

_WAIT_S: Final = 5.0
"""Seconds that the audit of what happened already waits for a lock."""


@contextmanager
def store_writer(store_url: str, wait_s: float = API_WAIT_S) -> Iterator[Engine]:
    """Yields an engine that may write, for the few writes of people. Whatever is executed raises the errors of
    `service.store.engine.open_engine`."""
    engine = open_engine(store_url, must_exist=True, wait_s=wait_s)
    try:
        yield engine
    finally:
        engine.dispose()


def event_of(request: Request, now_ms: int, action: Action, outcome: Outcome, subject: str, detail: str) -> AuditEvent:
    """Returns what the sender of the request did at `now_ms`."""
    who = principal_of(request).name
    return AuditEvent(now_ms, action, outcome, who, address_of(request.scope), subject, detail)


def record_event(store_url: str, cluster: str, event: AuditEvent) -> None:
    """Adds the event to the audit. If the store cannot be written, only the log has it: what it is about has happened
    already."""
    try:
        with store_writer(store_url, _WAIT_S) as engine:
            audit_events.record(engine, cluster, [event])
    except StoreError as error:
        log.error("the audit lacks %s: %s", event, error)


def record_refusals(store_url: str, refusals: Iterable[Counted]) -> None:
    """Adds refusals to the audit. StoreError: some were not written."""
    with store_writer(store_url, _WAIT_S) as engine:
        for one, times in refusals:
            event = AuditEvent(
                at_ms=wall_clock_ms(),
                action=one.action,
                outcome=Outcome.REFUSED,
                who=one.who,
                address=one.address,
                detail=f"{one.request}: {one.why}",
                times=times,
            )
            audit_events.record(engine, one.cluster, [event])
