"""The way in which tools ask REST. The service asks its own application; the command `mcp` asks a service by HTTP."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote, urlencode


class Refused(Exception):
    """REST refuses the request, or does not answer. The message is one line. `status`: the HTTP status of the answer;
    None without an answer."""

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


class Ask(Protocol):
    """Reads from REST, with the rights of whoever calls the tool."""

    def __call__(self, *path: str, **query: str | Sequence[str]) -> Awaitable[dict[str, Any]]:
        """Returns the JSON of the resource below `/api/v1`. Raises Refused. `path`: the segments of the resource's
        path, not quoted."""


def path_of(segments: Sequence[str], query: Mapping[str, str | Sequence[str]]) -> str:
    """Returns the path below `/api/v1`, with the query. Raises Refused for a segment that is `.` or `..`, or contains a
    slash, because servers interpret such segments even when they are encoded. No cluster or topic has such a name."""
    for segment in segments:
        if "/" in segment or segment in (".", ".."):
            raise Refused(f"no cluster or topic has the name {segment!r}")
    path = "".join(f"/{quote(one, safe='')}" for one in segments)
    return f"{path}?{urlencode(query, doseq=True)}" if query else path


def answer_of(status: int, body: bytes) -> dict[str, Any]:
    """Returns the JSON of an answer. Raises Refused, with the detail of the problem (RFC 9457), for an error."""
    answer = json.loads(body)
    if not isinstance(answer, dict):
        raise Refused("the answer is not a JSON object", status)
    if status >= 400:
        raise Refused(str(answer.get("detail") or answer.get("title")), status)
    return answer
