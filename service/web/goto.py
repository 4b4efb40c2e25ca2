"""The search box: resolves a few typed characters to an id, a producer id, a topic, a partition, an offset or a
finding."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy import Connection

from service.domain.transaction_log import states
from service.store.escaped_text import display_id, possible_ids
from service.store.queries import findings, partitions, transactions
from service.store.queries.clusters import ClusterRow
from service.store.queries.history import read_owners
from service.store.queries.transaction_pages import Selection
from service.store.rows.ids import IdRow
from service.views import words
from service.views.addresses import finding_page, page_of, partition_page, transaction_page
from service.web.shared.frame import framed
from service.web.shared.render import render

MOST_SHOWN: Final = 20

_ALL_STATES: Final = frozenset({*states.PERSISTED, states.UNKNOWN, states.EXPIRED})
_PLACE: Final = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249})-(?P<partition>[0-9]{1,10})(?:@(?P<offset>[0-9]{1,19}))?")
_PRODUCER: Final = re.compile(r"[0-9]{1,19}")
_INT32_MAX, _INT64_MAX = 2**31 - 1, 2**63 - 1


class Hit(NamedTuple):
    """A page that the typed text may name. `kind`: the kind of thing, in a word; `text`: its name in full."""

    kind: str
    text: str
    href: str
    more: str = ""


def find(connection: Connection, cluster: ClusterRow, text: str) -> list[Hit]:
    """Returns the hits that `text` names exactly. Leading and trailing spaces count only if an id has them.

    If nothing has exactly this name, returns similar hits, at most MOST_SHOWN + 1 (one more than a page shows): the
    topic `text`, and the ids that begin with `text` or, if there are none, the ids that contain `text`.
    """
    if text != text.strip() and (ids := list(_ids(connection, cluster, text))):
        return ids
    text = text.strip()
    exact = [
        *_ids(connection, cluster, text),
        *_owners(connection, cluster, text),
        *_partition(connection, cluster, text),
        *_finding(connection, cluster, text),
    ]
    return exact or _similar(connection, cluster, text)


def _ids(connection: Connection, cluster: ClusterRow, text: str) -> Iterator[Hit]:
    """Yields the ids that `text` names, either literally or in the form that pages show, with escapes for unprintable
    bytes."""
    for raw in possible_ids(text):
        row = transactions.find(connection, cluster.id, raw)
        if row is not None:
            yield _id(cluster, row)


def _owners(connection: Connection, cluster: ClusterRow, text: str) -> Iterator[Hit]:
    """Yields the owners of the producer id `text`. If the producer id has no owner, yields the partitions on which it
    has an open transaction, at most MOST_SHOWN + 1. Kafka gives a producer id to one transactional.id for good; a
    second owner is possible only after the transaction log was replaced."""
    if not _PRODUCER.fullmatch(text) or int(text) > _INT64_MAX:
        return
    owners = read_owners(connection, cluster.id, int(text))
    for owner in owners:
        seen = f"{words.exact(owner.first_seen_ms)} to {words.exact(owner.last_seen_ms)} UTC"
        more = f"{'has' if owner.current else 'had'} producer id {text}: seen from {seen}"
        href = transaction_page(cluster.name, owner.transactional_id)
        yield Hit("producer id", display_id(owner.transactional_id), href, more)
    if owners:
        return
    for entry in partitions.entries_of_producer(connection, cluster.id, int(text), MOST_SHOWN + 1):
        more = f"producer id {text} has a transaction open there; its transactional.id is not known"
        href = partition_page(cluster.name, *entry.topic_partition)
        yield Hit("partition", f"{entry.topic}-{entry.partition}", href, more)


def _partition(connection: Connection, cluster: ClusterRow, text: str) -> Iterator[Hit]:
    place = _PLACE.fullmatch(text)
    if place is None or int(place["partition"]) > _INT32_MAX or int(place["offset"] or 0) > _INT64_MAX:
        return
    row = partitions.find(connection, cluster.id, place["topic"], int(place["partition"]))
    if row is not None:
        offset = None if place["offset"] is None else int(place["offset"])
        href = partition_page(cluster.name, row.topic, row.partition, offset)
        yield Hit("partition", f"{row.topic}-{row.partition}", href)


def _finding(connection: Connection, cluster: ClusterRow, text: str) -> Iterator[Hit]:
    found = None if "\0" in text else findings.find(connection, cluster.id, text)
    if found is not None:
        yield Hit("finding", found.id, finding_page(cluster.name, found.id), found.summary)


def _similar(connection: Connection, cluster: ClusterRow, text: str) -> list[Hit]:
    if "\0" in text:
        return []
    found: list[Hit] = []
    if partitions.page(connection, cluster.id, None, 1, topic=text)[0]:
        found.append(Hit("topic", text, page_of(cluster.name, "partitions", topic=text), "its partitions"))
    for selection in (
        Selection(_ALL_STATES, prefix=transactions.named_prefix(connection, cluster.id, text.encode())),
        Selection(_ALL_STATES, text=text.encode()),
    ):
        page = transactions.read_page(
            connection, cluster.id, selection, "transactional_id", None, MOST_SHOWN + 1 - len(found)
        )
        if page.rows:
            return [*found, *(_id(cluster, row) for row in page.rows)]
    return found


def _id(cluster: ClusterRow, row: IdRow) -> Hit:
    href = transaction_page(cluster.name, row.transactional_id)
    return Hit("transactional.id", row.display, href, states.NAMES[row.state])


LONGEST: Final = 40_000
"""Maximum length (characters) of a text to search for; the rest of a longer text is ignored. A transactional.id has at
most 32,767 bytes, and some of them are shown as escapes."""

router = APIRouter(include_in_schema=False)


@router.get("/clusters/{cluster}/goto")
def goto(request: Request, cluster: str, q: str = "") -> Response:
    """Redirects (303) to the page if there is exactly one hit. Otherwise returns 200 with the hits to choose from, or
    with the reason why there are none. 404 if the store does not know the cluster."""
    text = q.strip()[:LONGEST]
    with framed(request, cluster) as (connection, frame):
        hits = find(connection, frame.cluster, q[:LONGEST]) if text else []
        if len(hits) == 1:
            return RedirectResponse(hits[0].href, 303)
        return render(
            "goto.html",
            frame,
            page="goto",
            text=text,
            hits=hits[:MOST_SHOWN],
            all_address=page_of(frame.name, "transactions", q=text) if len(hits) > MOST_SHOWN else None,
        )
