"""The id that a request names: by its bytes, percent-encoded or as base64url, or as people see it."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from fastapi import Query as QueryParameter
from fastapi import Request
from sqlalchemy import Connection

from service.api.http.fields import decode_bytes
from service.api.http.parameters import bytes_of, unusable
from service.api.http.problems import NO_SUCH_ID, ProblemError
from service.api.http.store import known_cluster
from service.store.escaped_text import display_id
from service.store.queries import transactions
from service.store.queries.clusters import ClusterRow
from service.store.rows.ids import IdRow

Id = Annotated[
    str | None,
    QueryParameter(
        description="The id's bytes, percent-encoded (`+` is a space), UTF-8 or not. If no id has these bytes, they are"
        " taken as the display form, with escapes, that pages, logs and metrics show."
    ),
]
IdBase64 = Annotated[
    str | None,
    QueryParameter(description="Instead of `id`: the bytes as base64url, for ids too long when percent-encoded."),
]


class AskedId(NamedTuple):
    """The bytes by which a request names an id. `is_exact`: they come from `id_b64` and are the id itself. Otherwise
    they come from `id`, and may be the id itself or the id as people see it.
    """

    raw: bytes
    is_exact: bool = False

    def find(self, connection: Connection, cluster_id: int) -> IdRow | None:
        if self.is_exact:
            return transactions.find(connection, cluster_id, self.raw)
        return transactions.find_named(connection, cluster_id, self.raw)


def id_of(request: Request, text: str | None, id_b64: str | None) -> AskedId:
    """Returns the id that the request names. ProblemError (422) unless exactly one of `id` and `id_b64` is given and
    usable.
    """
    raw = None if text is None else bytes_of(request, "id")
    if (raw is None) == (id_b64 is None):
        raise unusable("id", "give exactly one of id and id_b64")
    if raw is not None:
        return AskedId(raw)
    decoded = decode_bytes(id_b64 or "")
    if decoded is None:
        raise unusable("id_b64", "not base64url")
    return AskedId(decoded, is_exact=True)


def known_id(connection: Connection, cluster: str, asked: AskedId) -> tuple[ClusterRow, IdRow]:
    """Returns the cluster and the row of the id. ProblemError (404) if the store does not have both; an expired id is
    there until it is forgotten.
    """
    found = known_cluster(connection, cluster)
    row = asked.find(connection, found.id)
    if row is None:
        shown = display_id(asked.raw[:200])
        raise ProblemError(404, NO_SUCH_ID, f"cluster {found.name!r} has no transactional id '{shown}'")
    return found, row
