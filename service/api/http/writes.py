"""What people write in the store: mutes and acknowledgements, for REST and for the forms on pages."""

from __future__ import annotations

from typing import Final

from fastapi import Request

from service.access.actions import Action, Outcome
from service.api.http.audit import event_of, store_writer
from service.api.http.fields import text_of_clock
from service.api.http.parameters import unusable
from service.api.http.problems import NO_SUCH_FINDING, NOT_NOW, ProblemError
from service.api.http.state import AppState
from service.api.http.store import known_cluster
from service.domain.findings.catalogue import UNTIL_ACKNOWLEDGED
from service.domain.findings.finding import Acknowledgement, Finding
from service.store import acknowledgements, mutes
from service.store.mutes import Wish
from service.store.queries import findings

LONGEST_MS: Final = 90 * 86_400_000
"""Longest mute: what is not to be seen for good belongs into `[[rules]]`, where it is reviewed."""

LONGEST_REASON: Final = 500
SHORTEST_REASON: Final = 3


def mute(app: AppState, request: Request, cluster: str, wish: Wish) -> mutes.Mute:
    """Sets the mute in the name of the sender. ProblemError: 404 for a cluster or finding that there is none of, 422
    for an end that is over or too far away; StoreError if nothing was written."""
    now_ms = app.now_ms()
    if not now_ms < wish.until_ms <= now_ms + LONGEST_MS:
        raise unusable("until", "a mute ends later than now, and at most 90 days from now")
    with app.store.read() as connection:
        found = known_cluster(connection, cluster)
        if wish.finding_id is not None and findings.find(connection, found.id, wish.finding_id) is None:
            raise ProblemError(404, NO_SUCH_FINDING, f"cluster {found.name!r} has no finding {wish.finding_id!r}")
    detail = f"{wish.text} until {text_of_clock(wish.until_ms)}: {wish.reason}"
    event = event_of(request, now_ms, Action.MUTE, Outcome.SET, "", detail)
    with store_writer(app.store_url) as engine, engine.begin() as connection:
        return mutes.set_mute(connection, found.id, wish, event)


def acknowledge(app: AppState, request: Request, cluster: str, finding_id: str, reason: str) -> Acknowledgement:
    """Acknowledges the finding in the name of the sender. ProblemError: 404 for a cluster or finding that there is none
    of, 409 for a finding that resolves without it; StoreError if nothing was written."""
    event = event_of(request, app.now_ms(), Action.ACKNOWLEDGE, Outcome.SET, finding_id, reason)
    with store_writer(app.store_url) as engine, engine.begin() as connection:
        found = known_cluster(connection, cluster)
        one = findings.find(connection, found.id, finding_id)
        if one is None:
            raise ProblemError(404, NO_SUCH_FINDING, f"cluster {found.name!r} has no finding {finding_id[:64]!r}")
        if (why := _why_not(one)) is not None:
            raise ProblemError(409, NOT_NOW, why)
        return acknowledgements.acknowledge(connection, found.id, one, reason, event)


def _why_not(finding: Finding) -> str | None:
    if finding.kind not in UNTIL_ACKNOWLEDGED:
        kinds = " and ".join(sorted(UNTIL_ACKNOWLEDGED))
        return f"a finding of kind {finding.kind} ends without it; only {kinds} stay until acknowledged"
    if (given := finding.acknowledgement) is not None:
        return f"{given.by} acknowledged it at {text_of_clock(given.at_ms)}: {given.reason}"
    return None if finding.is_open else "it is resolved"
