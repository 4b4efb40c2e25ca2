"""The list of a cluster's transactional ids: the state of each id, how long its transaction has been open, and its next
event.

The filters in the address of a page are the filters of REST, but a form also sends empty filters.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request, Response
from sqlalchemy import Connection

from service.api.http.answers import KeptRoute
from service.api.http.fields import cluster_link
from service.api.http.paging import read_cursor, write_cursor
from service.api.http.parameters import bytes_of, only_known, unusable
from service.api.schemas.transactions import State
from service.domain.application_rules import LONGEST_NAME
from service.domain.duration_text import span_ms
from service.domain.findings.finding import Finding
from service.domain.source_state import SourceName
from service.domain.transaction_log import states
from service.domain.transaction_log.states import CODES, EXPIRED, NAMES
from service.store.escaped_text import display_id, id_key, printable
from service.store.queries import clusters, transactions
from service.store.queries.clusters import EndedCounts
from service.store.queries.history import ended_since
from service.store.queries.transaction_pages import Selection
from service.store.rows.ids import IdRow
from service.views.addresses import page_of
from service.views.cluster.frame import Frame
from service.views.partitions.blocking_chain import Blocking, read_blocking
from service.views.partitions.judged import known_log_at
from service.views.transactions.described import DescribedId, read_described
from service.views.transactions.next_step import Next, is_late, last_outcome, next_step, open_since_ms
from service.views.words import WORDS, Word
from service.web.shared.frame import framed
from service.web.shared.render import render

SORTS: Final = {
    "age": "oldest open first",
    "last_updated": "last updated first",
    "transactional_id": "by transactional.id",
}
AGES: Final = ("10s", "1m", "5m", "15m", "1h")

_WITHOUT: Final = frozenset(CODES.values()) - {EXPIRED}
_MOST_TEXT: Final = 1_000
_MOST_TOPIC: Final = 249


class Chip(NamedTuple):
    """A choice of states. `ids`: number of ids in these states; None if they are not counted."""

    text: str
    states: frozenset[int]
    ids: int | None


class Filters(NamedTuple):
    """The filters of a request. `states`: empty means all states but Expired. `prefix`, `text`: bytes, as the address
    has them; `min_age`: text such as `90s`."""

    states: frozenset[int] = frozenset()
    prefix: bytes = b""
    min_age: str = ""
    producer_id: int | None = None
    topic: str = ""
    text: bytes = b""
    application: str = ""
    sort: str = "age"

    @property
    def is_plain(self) -> bool:
        texts = (self.prefix, self.min_age, self.topic, self.text, self.application)
        return not (self.states or any(texts) or self.producer_id is not None)

    @property
    def key(self) -> tuple[Any, ...]:
        """Returns the filters as a key for cursors, the same in every process."""
        return sorted(self.states), *self[1:]

    @property
    def shown_prefix(self) -> str:
        return display_id(self.prefix)

    @property
    def shown_text(self) -> str:
        return display_id(self.text)

    @property
    def query(self) -> str:
        """Returns the query string of the address, without `?`. Filters that are not set, and the default order, are
        left out."""
        pairs: list[tuple[str, str | bytes]] = [("state", NAMES[state]) for state in sorted(self.states)]
        pairs += [("prefix", self.prefix), ("min_age", self.min_age)]
        pairs += [("producer_id", "" if self.producer_id is None else str(self.producer_id))]
        pairs += [("topic", self.topic), ("application", self.application), ("q", self.text)]
        pairs += [("sort", "" if self.sort == "age" else self.sort)]
        return "&".join(f"{name}={quote(value, safe='')}" for name, value in pairs if value)

    def selection(self, as_of_ms: int | None) -> Selection:
        """Returns the selection that REST would make for the same filters. If `as_of_ms` is None (the log was never
        read), `min_age` selects no id."""
        return Selection(
            states=self.states or _WITHOUT,
            prefix=self.prefix,
            started_until_ms=(as_of_ms or 0) - span_ms(self.min_age) if self.min_age else None,
            producer_id=self.producer_id,
            topic=printable(self.topic) if self.topic else None,
            text=self.text,
            application=self.application or None,
        )


def filters_of(
    request: Request,
    state: list[State] | None,
    min_age: str,
    producer_id: str,
    topic: str,
    application: str,
    sort: str,
) -> Filters:
    """Returns the filters. An empty filter counts as not given. Raises ProblemError (422) for values that REST would
    refuse."""
    if min_age:
        try:
            span_ms(min_age)
        except ValueError as error:
            raise unusable("min_age", str(error)) from None
    if sort and sort not in SORTS:
        raise unusable("sort", f"{sort!r} is none of {', '.join(SORTS)}")
    text = bytes_of(request, "q") or b""
    for name, given, most in (
        ("topic", topic, _MOST_TOPIC),
        ("application", application, LONGEST_NAME),
        ("q", text, _MOST_TEXT),
    ):
        if len(given) > most:
            raise unusable(name, f"longer than {most:,} characters")
    return Filters(
        states=frozenset(CODES[name] for name in state or ()),
        prefix=bytes_of(request, "prefix") or b"",
        min_age=min_age,
        producer_id=_number(producer_id),
        topic=topic,
        text=text,
        application=application,
        sort=sort or "age",
    )


def _number(text: str) -> int | None:
    digits = text.strip().replace(",", "")  # pages show numbers with commas
    if not digits:
        return None
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19 and int(digits) < 2**63):
        raise unusable("producer_id", f"{text!r} is no producer id: type a number from 0 to 2^63 - 1")
    return int(digits)


def chips(counts: dict[str, int]) -> list[Chip]:
    """Returns the choices of states. `counts`: a mapping from the name of a state to the number of ids in it."""
    choices: list[tuple[str, frozenset[int]]] = [
        ("All", frozenset()),
        ("Open", states.OPEN),
        ("Ongoing", frozenset({states.ONGOING})),
        ("Prepare", states.PREPARED),
        ("CompleteCommit", frozenset({states.COMPLETE_COMMIT})),
        ("CompleteAbort", frozenset({states.COMPLETE_ABORT})),
        ("Empty", frozenset({states.EMPTY})),
        ("unknown", frozenset({states.UNKNOWN})),
    ]
    told = [Chip(text, chosen, _count(counts, chosen or _WITHOUT)) for text, chosen in choices]
    return [*told, Chip("Expired", frozenset({EXPIRED}), None)]


def _count(counts: dict[str, Any], chosen: frozenset[int]) -> int:
    return sum(counts.get(NAMES[state], 0) for state in chosen)


SHOWN: Final = 50
_HOUR_MS: Final = 3_600_000
_PREFIX_TRIED: Final = 40
_NOTHING: Final = EndedCounts(0, 0)

router = APIRouter(route_class=KeptRoute, include_in_schema=False, dependencies=[Depends(only_known)])


class Listed(NamedTuple):
    """A row of the list. `open_since_ms`: None if no transaction is open, or if its start is no valid time. `ended`:
    numbers of the id's commits and aborts in the last hour; None if the state of the id is unknown. `confidence`: if
    the last outcome is an abort, how certain its cause is."""

    anchor: str
    row: IdRow
    tone: str
    open_since_ms: int | None
    next: Next
    places: tuple[str, ...]
    hanging: tuple[Finding, ...]
    blocks: tuple[str, ...]
    outcome: Word | None
    confidence: str | None
    ended: EndedCounts | None


@router.get("/clusters/{cluster}/transactions")
def get_transactions(
    request: Request,
    cluster: str,
    state: Annotated[list[State] | None, Query()] = None,
    prefix: str = "",  # noqa: ARG001 - its bytes are read from the request, since ids may be any bytes
    min_age: str = "",
    producer_id: str = "",
    topic: str = "",
    application: str = "",
    q: str = "",  # noqa: ARG001 - as `prefix`
    sort: str = "",
    cursor: str | None = None,
) -> Response:
    """Returns the page; 404 if the store does not know the cluster, 422 for filters that REST would refuse, 400 for a
    cursor of another query."""
    filters = filters_of(request, state, min_age, producer_id, topic, application, sort)
    with framed(request, cluster) as (connection, frame):
        after = None if cursor is None else read_cursor(cursor, filters.sort, frame.name, *filters.key)
        as_of_ms = clusters.log_as_of_ms(connection, frame.cluster.id)
        filters = filters._replace(prefix=transactions.named_prefix(connection, frame.cluster.id, filters.prefix))
        page = transactions.read_page(
            connection, frame.cluster.id, filters.selection(as_of_ms), filters.sort, after, SHOWN
        )
        ids = read_described(connection, frame.cluster, page.rows)
        blocking = read_blocking(
            connection, frame.cluster.id, {place for transactional_id in ids for place in transactional_id.partitions}
        )
        following = None
        if page.after is not None:
            token = write_cursor(page.after, frame.name, *filters.key)
            following = _address(frame, filters, f"cursor={token}")
        return render(
            "transactions.html",
            frame,
            page="transactions",
            filters=filters,
            listed=_listed(connection, frame, ids, blocking),
            elsewhere=_elsewhere(blocking, page.rows) if cursor is None and filters.is_plain else [],
            chips=[
                (chip, _address(frame, filters._replace(states=chip.states)), chip.states == filters.states)
                for chip in chips(frame.seen.states)
            ],
            known=sum(frame.seen.states.values()),
            ages=AGES if filters.min_age in (*AGES, "") else (*AGES, filters.min_age),
            sorts=SORTS,
            words=WORDS,
            following=following,
            first=_address(frame, filters) if cursor is not None else None,
            nearest=None if page.rows or cursor else _nearest(connection, frame, filters),
            json_address=_with(f"{cluster_link(frame.name)}/transactions", filters.query),
            names=states.NAMES,
            state_names=[states.NAMES[state] for state in sorted(filters.states)],
            shown=SHOWN,
        )


def _listed(
    connection: Connection,
    frame: Frame,
    ids: Sequence[DescribedId],
    blocking: Blocking,
) -> list[Listed]:
    keys = [one.row.transactional_id for one in ids]
    ended = ended_since(connection, frame.cluster.id, keys, frame.now_ms - _HOUR_MS) if ids else {}
    log = known_log_at(connection, frame.cluster.id, frame.as_of_ms(SourceName.TRANSACTION_LOG) or 0)
    found = []
    for transactional_id in ids:
        row, key = transactional_id.row, id_key(transactional_id.row.transactional_id)
        hanging = tuple(blocking.hanging.get(key, ()))
        outcome, confidence = last_outcome(row)
        listed = Listed(
            anchor=f"t-{blake2b(row.transactional_id, digest_size=9).hexdigest()}",
            row=row,
            tone="critical" if hanging else "warning" if is_late(row, log) else "",
            open_since_ms=open_since_ms(row),
            next=next_step(row, log, frame.now_ms),
            places=tuple(f"{topic}-{partition}" for topic, partition in transactional_id.partitions),
            hanging=hanging,
            blocks=tuple(blocking.groups.get(key, ())) if row.state in states.OPEN else (),
            outcome=outcome,
            confidence=confidence,
            ended=None if row.state == states.UNKNOWN else ended.get(row.transactional_id, _NOTHING),
        )
        found.append(listed)
    return found


def _elsewhere(blocking: Blocking, rows: Sequence[IdRow]) -> list[tuple[bytes, str, Finding]]:
    """Returns (id, id as shown, finding) for each hanging transaction of an id that is not on this page, so that users
    need not search for the id."""
    listed = {id_key(row.transactional_id) for row in rows}
    return [
        (transactional_id, display_id(transactional_id), finding)
        for key, found in blocking.hanging.items()
        if key not in listed
        for finding in found
        if (transactional_id := finding.subject.transactional_id) is not None
    ]


def _nearest(connection: Connection, frame: Frame, filters: Filters) -> tuple[str, str] | None:
    """Shortens the filter's prefix until some id begins with it. Returns the shortened prefix as text, and the address
    of the list filtered by this prefix; None if no id begins with any shortened prefix. Only prefixes of at most
    _PREFIX_TRIED bytes are tried."""
    for length in range(min(len(filters.prefix) - 1, _PREFIX_TRIED), 0, -1):
        shorter = Filters(prefix=filters.prefix[:length])
        selection = shorter.selection(None)
        if transactions.read_page(connection, frame.cluster.id, selection, "transactional_id", None, 1).rows:
            return shorter.shown_prefix, _address(frame, shorter)
    return None


def _address(frame: Frame, filters: Filters, more: str = "") -> str:
    return _with(page_of(frame.name, "transactions"), "&".join(part for part in (filters.query, more) if part))


def _with(path: str, query: str) -> str:
    return f"{path}?{query}" if query else path
