"""Query parameters: unknown and repeated ones are refused, ids are read as bytes, durations as text like `15m`."""

from __future__ import annotations

from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import unquote_to_bytes

from fastapi import Path as PathParameter
from fastapi import Query as QueryParameter
from fastapi import Request
from pydantic import AfterValidator, BeforeValidator, WithJsonSchema
from sqlalchemy import Connection

from service.api.http.fields import decode_bytes
from service.api.http.problems import BAD_PARAMETER, NO_SUCH_ID, UNKNOWN_PARAMETER, ParameterError, ProblemError
from service.api.http.state import known_cluster
from service.domain.application_rules import LONGEST_NAME
from service.domain.duration_text import PATTERN, span_ms
from service.store.escaped_text import display_id
from service.store.queries import transactions
from service.store.queries.clusters import ClusterRow
from service.store.rows.ids import IdRow


def _check_duration(text: str) -> str:
    span_ms(text)
    return text


def _check_truth(value: Any) -> Any:
    """Refuses all values but `true` and `false`. The framework alone would also take 1, on, yes and others, which
    OpenAPI does not mention."""
    if value not in ("true", "false"):
        raise ValueError("neither true nor false")
    return value


Truth = Annotated[bool, BeforeValidator(_check_truth)]
Duration = Annotated[
    str,
    AfterValidator(_check_duration),
    WithJsonSchema({"type": "string", "pattern": f"^{PATTERN}$", "examples": ["90s", "15m", "24h", "7d"]}),
]

OfApplication = Annotated[
    str | None,
    QueryParameter(min_length=1, max_length=LONGEST_NAME, description="Only items of this application, given by name."),
]

Window = Annotated[
    Duration, QueryParameter(description="Only minutes that ended at most this long before `as_of`; at most 7d.")
]
PartitionNumber = Annotated[int, PathParameter(ge=0, lt=2**31)]

_LONGEST_WINDOW_MS: Final = 7 * 24 * 3_600_000
"""Longest `window` (ms): the time for which history and volume are kept by default."""


def window_ms(window: str) -> int:
    """Returns the length (ms) of the window. Raises ProblemError (422) if the window is longer than 7 days."""
    length_ms = span_ms(window)
    if length_ms > _LONGEST_WINDOW_MS:
        raise unusable("window", f"{window!r} is longer than 7d, the maximum")
    return length_ms


def describe_absence(parameter: dict[str, Any]) -> None:
    """Removes null from an optional parameter of the OpenAPI document.

    The framework declares that such a parameter may be null, although a request can only leave the parameter out.
    """
    schema = parameter["schema"]
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) == 1:
        del schema["anyOf"]
        parameter["schema"] = kinds[0] | schema


def unusable(parameter: str, message: str) -> ProblemError:
    """Returns a problem (422) about one parameter."""
    errors = [ParameterError(parameter=parameter, message=message)]
    return ProblemError(422, BAD_PARAMETER, f"{parameter}: {message}", errors)


async def only_known(request: Request) -> None:
    """Raises ProblemError (422) for a parameter that the route does not have, or that takes a single value and is given
    more than once.

    If a misspelt filter were ignored, the answer would contain everything. The function is asynchronous because it only
    computes: FastAPI would run a plain function in another thread.
    """
    route = request.scope["route"].dependant
    fields = (field for one in (route, *route.dependencies) for field in one.query_params)
    taken = {field.alias: "list" in str(field.field_info.annotation) for field in fields}
    given = [name for name, _ in request.query_params.multi_items()]
    known = ", ".join(sorted(taken)) or "none"
    errors = [
        ParameterError(parameter=name, message=f"unknown parameter; known parameters: {known}")
        for name in dict.fromkeys(given)
        if name not in taken
    ]
    if errors:
        names = ", ".join(repr(error.parameter) for error in errors)
        unknown = "unknown query parameter" if len(errors) == 1 else "unknown query parameters"
        raise ProblemError(422, UNKNOWN_PARAMETER, f"{unknown} {names}; known parameters: {known}", errors)
    twice = [name for name in dict.fromkeys(given) if given.count(name) > 1 and not taken[name]]
    if twice:
        errors = [ParameterError(parameter=name, message="given more than once") for name in twice]
        raise ProblemError(422, BAD_PARAMETER, f"query parameters given more than once: {', '.join(twice)}", errors)


def bytes_of(request: Request, name: str) -> bytes | None:
    """Returns a parameter's bytes with percent-encoding decoded, UTF-8 or not; None if it was not given.

    The framework's own text loses bytes that are not UTF-8.
    """
    for pair in request.scope["query_string"].split(b"&"):
        key, _, value = pair.partition(b"=")
        if unquote_to_bytes(key) == name.encode():
            return unquote_to_bytes(value.replace(b"+", b" "))
    return None


Id = Annotated[
    str | None,
    QueryParameter(
        description="The id's bytes, percent-encoded (`+` is a space), UTF-8 or not. If no id has these bytes, they are"
        " taken as the display form, with escapes, that pages, logs and metrics show."
    ),
]
IdBase64 = Annotated[
    str | None,
    QueryParameter(
        description="Instead of `id`: the id's bytes as base64url, for ids that are too long when percent-encoded."
    ),
]


class AskedId(NamedTuple):
    """The bytes by which a request names an id. `is_exact`: True if the bytes come from `id_b64`; they are then the id
    itself. Bytes from the parameter `id` may be the id itself or its display form."""

    raw: bytes
    is_exact: bool = False

    def find(self, connection: Connection, cluster_id: int) -> IdRow | None:
        if self.is_exact:
            return transactions.find(connection, cluster_id, self.raw)
        return transactions.find_named(connection, cluster_id, self.raw)


def id_of(request: Request, text: str | None, id_b64: str | None) -> AskedId:
    """Returns the id that the request names. Raises ProblemError (422) unless exactly one of `id` and `id_b64` is given
    and usable."""
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
    """Returns the cluster and the row of the id. Raises ProblemError (404) if the store lacks the cluster or the id.
    The store keeps an expired id until its retention ends.
    """
    found = known_cluster(connection, cluster)
    row = asked.find(connection, found.id)
    if row is None:
        shown = display_id(asked.raw[:200])
        raise ProblemError(404, NO_SUCH_ID, f"cluster {found.name!r} has no transactional id '{shown}'")
    return found, row
