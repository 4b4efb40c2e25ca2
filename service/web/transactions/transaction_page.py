"""The page of one transactional.id: causes of its aborts, state, transactions over time, every transition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastapi import APIRouter, Depends, Request, Response
from sqlalchemy import Connection

from service.api.http.answers import KeptRoute
from service.api.http.fields import transaction_link
from service.api.http.paging import read_timeline_cursor, write_place
from service.api.http.parameters import Id, IdBase64, id_of, only_known, unusable
from service.domain.findings.finding import Finding
from service.domain.findings.kinds import Kind, Status
from service.domain.findings.lifecycle import MOST_OPEN_IN_ALL
from service.domain.source_state import SourceName
from service.domain.transaction_log import states
from service.domain.transaction_log.deadlines import expires_at_ms
from service.domain.transaction_log.journal import Transition
from service.domain.transaction_log.states import is_time
from service.domain.transaction_log.timeline import Row, is_from_the_beginning
from service.store.escaped_text import display_id, id_key
from service.store.queries import findings, transactions
from service.store.queries.clusters import coordinators
from service.store.queries.findings import FindingSelection
from service.store.queries.history import TimelinePage, producers_of, read_timeline
from service.store.rows.ids import IdRow
from service.views.addresses import page_of, transaction_page
from service.views.cluster.frame import Frame
from service.views.partitions.blocking_chain import read_blocking
from service.views.partitions.judged import known_log_at
from service.views.transactions.next_step import answers, is_abort, is_late, last_outcome, next_step, open_since_ms
from service.views.transactions.spans import Past, lives, phases_of, read_past
from service.views.words import COUNTED, WORDS
from service.web.charts.minutes import bars_of
from service.web.charts.swimlane import MOST_DRAWN, PREPARE_PX, WINDOWS, Window, axis_of, lanes_of
from service.web.shared.frame import framed
from service.web.shared.render import render

TRANSITIONS_SHOWN: Final = 50
FINDINGS_SHOWN: Final = 20
_SHOWN_OF_UNKNOWN: Final = 200

router = APIRouter(route_class=KeptRoute, include_in_schema=False, dependencies=[Depends(only_known)])


@router.get("/clusters/{cluster}/transaction")
def get_transaction(
    request: Request,
    cluster: str,
    id: Id = None,  # noqa: A002 - the contract's name
    id_b64: IdBase64 = None,
    window: str = "15m",
    older: str = "",
    at: str = "",
) -> Response:
    """Returns the page. The id may also be given as pages show it. `at` selects the transaction that is shown phase by
    phase: the offset of its PrepareX or CompleteX. 404 if the store does not know the cluster or the id; 422 if no id
    is named, or if `window` or `at` is invalid."""
    asked = id_of(request, id, id_b64)
    if window not in WINDOWS:
        raise unusable("window", f"{window!r} is none of {', '.join(WINDOWS)}")
    with framed(request, cluster) as (connection, frame):
        row = asked.find(connection, frame.cluster.id)
        if row is None:
            return _unknown(frame, asked.raw)
        return _one(connection, frame, row, WINDOWS[window], older, _offset(at))


def _one(connection: Connection, frame: Frame, row: IdRow, window: Window, older: str, offset: int | None) -> Response:
    cluster_id, now_ms = frame.cluster.id, frame.now_ms
    log = known_log_at(connection, cluster_id, frame.as_of_ms(SourceName.TRANSACTION_LOG) or 0)
    producers = producers_of(connection, cluster_id, row.transactional_id)
    axis = axis_of(window, now_ms)
    past = read_past(connection, row, axis.from_ms, axis.to_ms)
    totals, inits_ms = past.totals, past.inits_ms
    are_many = sum(totals.values()) > MOST_DRAWN
    drawn = [] if are_many else lives(row, past.within[::-1], past.minutes)
    of_id = (frame.name, "timeline", row.transactional_id)
    begin = read_timeline_cursor(older or None, *of_id)
    timeline = read_timeline(connection, cluster_id, row.transactional_id, begin, TRANSITIONS_SHOWN)
    following = timeline.after and write_place(timeline.after, *of_id)
    places = transactions.participants(connection, cluster_id, [row.transactional_id]).get(row.transactional_id, [])
    found = _findings(connection, cluster_id, row.transactional_id)
    blocks = read_blocking(connection, cluster_id, set(places)).groups.get(id_key(row.transactional_id), ())
    outcome, confidence = last_outcome(row)
    expires_ms = expires_at_ms(row.state, row.record.last_update_ms, frame.cluster.expiration_ms)
    address = transaction_page(frame.name, row.transactional_id)
    return render(
        "transaction.html",
        frame,
        page="transactions",
        row=row,
        state=states.NAMES[row.state],
        is_open=row.state in states.OPEN,
        is_late=is_late(row, log),
        open_since_ms=open_since_ms(row),
        since_ms=row.state_since_ms if is_time(row.state_since_ms) else None,
        next=next_step(row, log, now_ms),
        outcome=outcome,
        confidence=confidence,
        places=places,
        blocks=blocks,
        findings=found[:FINDINGS_SHOWN],
        findings_count=len(found),
        hanging=[finding for finding in found if (finding.kind, finding.status) == (Kind.HANGING, Status.CONFIRMED)],
        answers=answers(row.transition for row in past.within),
        last_abort=answers(_newest_abort(past))[:1],
        coordinator=coordinators(connection, frame.cluster.id).get(row.partition),
        expires_ms=expires_ms if is_time(expires_ms) else None,
        expires_after_ms=frame.cluster.expiration_ms,
        sweep_ms=log.limits.sweep_ms,
        producers=producers,
        before=next((producer for producer in producers if producer.producer_id != row.record.producer_id), None),
        axis=axis,
        rows_read=len(past.rows),
        has_more=past.has_more,
        totals=totals,
        inits=len(inits_ms),
        lanes=lanes_of(axis, window, now_ms, drawn, inits_ms, producers, row.timeout_ms),
        bars=bars_of(axis, window, past.minutes) if are_many else None,
        window=window,
        windows=[(one.text, f"{address}&window={one.word}", one == window) for one in WINDOWS.values()],
        prepare_px=PREPARE_PX,
        most_drawn=MOST_DRAWN,
        counted=COUNTED,
        words=WORDS,
        names=states.NAMES,
        phases=phases_of(past.rows, offset),
        is_chosen=offset is not None,
        items=timeline.items,
        counted_since_ms=_counted_since_ms(frame, timeline),
        is_time=is_time,
        older=following and f"{address}&window={window.word}&older={following}#rows",
        newest=f"{address}&window={window.word}#rows" if older else None,
        address=address,
        json_address=transaction_link(frame.name, row.transactional_id),
    )


def _counted_since_ms(frame: Frame, timeline: TimelinePage) -> int | None:
    """Returns the time (ms) at which the counting of ordinary commits began, for a note in the timeline. Returns None
    if counting has not begun, if the timeline begins with the id's first record, or if the note belongs on an older
    page."""
    since_ms = frame.cluster.counted_since_ms
    oldest = timeline.items[-1] if timeline.items else None
    if since_ms is None or is_from_the_beginning(oldest):
        return None
    reaches_back = isinstance(oldest, Row) and oldest.at_ms < since_ms
    return since_ms if timeline.after is None or reaches_back else None


def _newest_abort(past: Past) -> Sequence[Transition]:
    """Returns the newest abort among all rows that were read, as a list of one transition; an empty list if there is no
    abort. Used for a window that has no abort."""
    return [row.transition for row in past.rows if is_abort(row.transition)][:1]


def _findings(connection: Connection, cluster_id: int, transactional_id: bytes) -> list[Finding]:
    open_ = frozenset({Status.CANDIDATE, Status.CONFIRMED})
    selection = FindingSelection(statuses=open_, transactional_id=transactional_id)
    return findings.read_page(connection, cluster_id, selection, None, MOST_OPEN_IN_ALL)[0]


def _unknown(frame: Frame, name: bytes) -> Response:
    shown = display_id(name[:_SHOWN_OF_UNKNOWN])
    return render(
        "no_transaction.html",
        frame,
        page="transactions",
        status=404,
        shown=shown,
        is_cut=len(name) > _SHOWN_OF_UNKNOWN,
        search=page_of(frame.name, "transactions", q=shown),
    )


def _offset(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise unusable("at", f"{text!r} is no offset")
    return int(text)
