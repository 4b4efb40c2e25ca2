"""Writes the missing marker of a hanging transaction, for operators. A request is a dry run unless its body has
`"dry_run": false`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict

from service.access.actions import Action, Outcome
from service.api.http.answers import answer_once
from service.api.http.audit import AUDIT_WAIT_S, event_of, record_event, store_writer
from service.api.http.fields import text_of_clock
from service.api.http.parameters import only_known
from service.api.http.principals import address_of, principal_of
from service.api.http.problems import KAFKA_UNAVAILABLE, NOT_NOW, ProblemError, describe
from service.api.http.state import App, known_finding
from service.api.schemas.findings import Resolution
from service.api.schemas.shape import shaped
from service.clock import wall_clock_ms
from service.domain.findings.finding import Finding
from service.kafka.client import KafkaClient
from service.kafka.errors import KafkaFailure
from service.remediation import marker
from service.remediation.checks import Refused
from service.remediation.marker import Unanswered
from service.remediation.way_out import WayOut, steps, way_out
from service.store import audit_events
from service.store.audit_events import Attempt
from service.store.engine import API_WAIT_S
from service.store.errors import StoreError
from service.store.queries.clusters import ClusterRow

LOOKS_WITHIN_S: Final = 10.0
"""Longest time (s) for the wait for the Kafka client and the observations together. If they take longer, the marker is
not written. `txnscope resolve` waits 75 s for the answer, because the service also waits up to 30 s for the store
before the observations, then up to 15 s for the broker, and twice up to 5 s for a busy store."""

log = logging.getLogger(__name__)

router = APIRouter(tags=["findings"], dependencies=[Depends(only_known)])


class Wish(BaseModel):
    """The body of the request. The marker is written only if `dry_run` is exactly `false`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    dry_run: bool = True


@router.post(
    "/clusters/{cluster}/findings/{finding}/resolve",
    operation_id="resolveFinding",
    response_model=Resolution,
    responses=describe(400, 403, 404, 409, 422, 429, 502, 503),
)
def resolve_finding(
    request: Request,
    app: App,
    cluster: str,
    finding: str,
    wish: Wish | None = None,
) -> Response:
    """Repeats all observations, then writes the marker that the finding's decision calls for, or only reports what
    would be written (`dry_run`, the default). Markers, dry runs and refusals are recorded in the audit. If a marker may
    have been written although the answer is 503, the detail says so.
    """
    dry_run = wish is None or wish.dry_run
    with app.reading(cluster) as (connection, found):
        one = known_finding(connection, found, finding)
    if not dry_run:  # the audit must be writable; awaited here, so that the observations are fresh for the marker
        with store_writer(app.store_url, API_WAIT_S) as engine:
            audit_events.wait_until_writable(engine)

    def tell(outcome: Outcome, detail: str) -> None:
        event = event_of(request, app.now_ms(), Action.RESOLVE, outcome, one.id, detail)
        record_event(app.store_url, found.name, event)

    began, has_attempt = time.monotonic(), False
    try:
        with app.remediation_kafka.asking(found) as client:
            way = way_out(one, found.id, client, app.store.read, wall_clock_ms)
            if not dry_run:
                if time.monotonic() - began > LOOKS_WITHIN_S:
                    raise ProblemError(
                        503,
                        KAFKA_UNAVAILABLE,
                        f"nothing was written: the observations took longer than {LOOKS_WITHIN_S:.0f} s; try again",
                        retry=True,
                    )
                has_attempt = True
                _write(request, app.store_url, found, one, way, client)
    except (Refused, ProblemError) as failure:
        if not has_attempt:
            tell(Outcome.REFUSED, f"{'dry run: ' if dry_run else ''}{failure}")
        if isinstance(failure, Refused):
            raise ProblemError(409, NOT_NOW, str(failure)) from failure
        raise
    if dry_run:
        tell(Outcome.DRY_RUN, f"{way.marker} to {way.topic}-{way.partition}")
    return answer_once(
        shaped(
            Resolution,
            way,
            finding_id=one.id,
            dry_run=dry_run,
            executed=not dry_run,
            steps=list(steps(way, executed=not dry_run)),
            command=one.command,
            checked_at=text_of_clock(way.checked_at_ms),
        )
    )


def _write(
    request: Request, store_url: str, cluster: ClusterRow, finding: Finding, way: WayOut, client: KafkaClient
) -> None:
    """Records the attempt in the audit, writes the marker, then records the outcome. So the audit contains every marker
    that txnscope wrote. Raises the errors of `marker.write`. Raises StoreError if the attempt could not be recorded: no
    marker was written then."""
    attempt = Attempt(
        at_ms=wall_clock_ms(),
        finding_id=finding.id,
        operator=principal_of(request).name,
        marker=way.marker,
        topic=way.topic,
        partition=way.partition,
        producer_id=way.producer_id,
        producer_epoch=way.producer_epoch,
        coordinator_epoch=way.coordinator_epoch,
        start_offset=way.start_offset,
        outcome=Outcome.BEGUN,
    )
    with store_writer(store_url, AUDIT_WAIT_S) as engine:
        record = partial(audit_events.record_attempt, engine, cluster.id, address=address_of(request.scope))
        record(attempt)
        _send(lambda: marker.write(client, way), attempt, record)


def _send(write: Callable[[], None], attempt: Attempt, record: Callable[[Attempt], None]) -> None:
    outcome = Outcome.UNKNOWN
    error: str | None = "a mistake in txnscope"
    try:
        write()
        outcome, error = Outcome.WRITTEN, None
    except Unanswered as e:
        error = str(e)
        raise
    except (Refused, KafkaFailure) as e:
        outcome, error = Outcome.REFUSED, str(e)
        raise
    finally:
        try:
            record(attempt._replace(at_ms=wall_clock_ms(), outcome=outcome, error=error))
        except StoreError as e:  # not raised, because the marker may be in the log
            log.error("the audit lacks the outcome %s of %s: %s", outcome, attempt, e)
