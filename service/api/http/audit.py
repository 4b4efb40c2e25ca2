"""Writes audit events, mutes and acknowledgements to the store. Of the REST API, only this module and the routes that
use its `store_writer` write to the store."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from fastapi import Request
from sqlalchemy import Engine

from service.access.actions import Action, Outcome
from service.access.refusals import Counted
from service.api.http.fields import text_of_clock
from service.api.http.parameters import unusable
from service.api.http.principals import address_of, principal_of
from service.api.http.problems import NOT_NOW, ProblemError
from service.api.http.state import AppState, known_cluster, known_finding
from service.clock import wall_clock_ms
from service.domain.findings.catalogue import UNTIL_ACKNOWLEDGED
from service.domain.findings.finding import Acknowledgement, Finding
from service.store import audit_events, finding_marks
from service.store.audit_events import AuditEvent
from service.store.engine import API_WAIT_S, open_engine
from service.store.errors import StoreError
from service.store.finding_marks import Wish

log = logging.getLogger(__name__)

AUDIT_WAIT_S: Final = 5.0
"""Longest time (s) for which the write of an audit event waits for a lock of the store. Used where the audited action
has happened already, or must not wait longer."""


@contextmanager
def store_writer(store_url: str, wait_s: float = API_WAIT_S) -> Iterator[Engine]:
    """Yields an engine that may write, for the few writes that people request. Statements raise the errors of
    `service.store.engine.open_engine`."""
    engine = open_engine(store_url, must_exist=True, wait_s=wait_s)
    try:
        yield engine
    finally:
        engine.dispose()


def event_of(request: Request, now_ms: int, action: Action, outcome: Outcome, subject: str, detail: str) -> AuditEvent:
    """Returns the audit event for an action of the request's sender at `now_ms`."""
    who = principal_of(request).name
    return AuditEvent(now_ms, action, outcome, who, address_of(request.scope), subject, detail)


def record_event(store_url: str, cluster: str, event: AuditEvent) -> None:
    """Adds the event to the audit. If the store cannot be written, the event is only logged and no error is raised,
    because the event has happened already."""
    try:
        with store_writer(store_url, AUDIT_WAIT_S) as engine:
            audit_events.record(engine, cluster, [event])
    except StoreError as error:
        log.error("the audit lacks an event (%s): %s", event, error)


def record_refusals(store_url: str, refusals: Iterable[Counted]) -> None:
    """Adds refusals to the audit. Raises StoreError if some were not written."""
    with store_writer(store_url, AUDIT_WAIT_S) as engine:
        for refusal, times in refusals:
            event = AuditEvent(
                at_ms=wall_clock_ms(),
                action=refusal.action,
                outcome=Outcome.REFUSED,
                who=refusal.who,
                address=refusal.address,
                detail=f"{refusal.request}: {refusal.why}",
                times=times,
            )
            audit_events.record(engine, refusal.cluster, [event])


LONGEST_MS: Final = 90 * 86_400_000
"""Longest mute (ms): a permanent mute belongs in `[[rules]]`, where it is reviewed."""

LONGEST_REASON: Final = 500
SHORTEST_REASON: Final = 3


def mute(app: AppState, request: Request, cluster: str, wish: Wish) -> finding_marks.Mute:
    """Sets the mute in the name of the sender. Raises ProblemError (404 for an unknown cluster or finding, 422 for an
    end in the past or too far away), or StoreError if nothing was written."""
    now_ms = app.now_ms()
    if not now_ms < wish.until_ms <= now_ms + LONGEST_MS:
        raise unusable("until", "a mute must end in the future, and at most 90 days from now")
    with app.reading(cluster) as (connection, found):
        if wish.finding_id is not None:
            known_finding(connection, found, wish.finding_id)
    detail = f"{wish.text} until {text_of_clock(wish.until_ms)}: {wish.reason}"
    event = event_of(request, now_ms, Action.MUTE, Outcome.SET, "", detail)
    with store_writer(app.store_url) as engine, engine.begin() as connection:
        return finding_marks.set_mute(connection, found.id, wish, event)


def acknowledge(app: AppState, request: Request, cluster: str, finding_id: str, reason: str) -> Acknowledgement:
    """Acknowledges the finding in the name of the sender. Raises ProblemError (404 for an unknown cluster or finding,
    409 for a finding that needs no acknowledgement, already has one, or is resolved), or StoreError if nothing was
    written."""
    event = event_of(request, app.now_ms(), Action.ACKNOWLEDGE, Outcome.SET, finding_id, reason)
    with store_writer(app.store_url) as engine, engine.begin() as connection:
        found = known_cluster(connection, cluster)
        finding = known_finding(connection, found, finding_id)
        if (why := _why_not(finding)) is not None:
            raise ProblemError(409, NOT_NOW, why)
        return finding_marks.acknowledge(connection, found.id, finding, reason, event)


def _why_not(finding: Finding) -> str | None:
    if finding.kind not in UNTIL_ACKNOWLEDGED:
        kinds = " and ".join(sorted(UNTIL_ACKNOWLEDGED))
        return f"a finding of kind {finding.kind} needs no acknowledgement; only {kinds} stay open until acknowledged"
    if (given := finding.acknowledgement) is not None:
        return f"{given.by} acknowledged this finding at {text_of_clock(given.at_ms)}: {given.reason}"
    return None if finding.is_open else "this finding is resolved"
