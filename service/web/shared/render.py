"""Renders templates into responses: escaped, strict about undefined names, with one environment for the process.

Long lists are shown in numbered pages, not by cursor: the order of some lists changes with the data, so a cursor would
soon point to a wrong place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeVar

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.exceptions import HTTPException

from service.access.needs import LLMS, MCP
from service.api.http.fields import API
from service.api.http.problems import Problem, ProblemError
from service.store.errors import StoreError
from service.store.escaped_text import display_id
from service.views import words
from service.views.addresses import (
    application_page,
    cluster_page,
    finding_page,
    page_of,
    partition_page,
    transaction_page,
)
from service.views.cluster.frame import Frame
from service.web.charts.ruler import mini_of

ROWS: Final = 100

PageNumber = Annotated[int, Query(ge=1, le=1_000_000)]

Row = TypeVar("Row")


class Paged(NamedTuple, Generic[Row]):
    """One page of a list. `first`: number of the first row shown, from 1. `before`, `after`: numbers of the
    neighbouring pages, None if there is none."""

    rows: Sequence[Row]
    first: int
    total: int
    before: int | None
    after: int | None

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1


def paged(rows: Sequence[Row], page: int) -> Paged[Row]:
    """Returns the page with the given number; the last page if there is no page with this number (any more)."""
    last = max((len(rows) - 1) // ROWS + 1, 1)
    page = min(page, last)
    begin = (page - 1) * ROWS
    before, after = page - 1 if page > 1 else None, page + 1 if page < last else None
    return Paged(rows[begin : begin + ROWS], begin + 1, len(rows), before, after)


PAGE_CSP: Final = "default-src 'self'; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'"
"""The Content-Security-Policy of pages. It allows inline styles, because uPlot sets styles of elements. No script is
inline."""

_BREAKS: Final = re.compile(r"(?<=[-_./:])(?=\w)")


def render(template: str, frame: Frame, *, page: str, status: int = 200, **values: Any) -> Response:
    """Renders a page in its frame. `page`: the entry that the navigation marks as the current one."""
    answer = render_bare(template, status, frame=frame, page=page, now=frame.now_ms, **values)
    answer.headers["Content-Security-Policy"] = PAGE_CSP
    return answer


def render_bare(template: str, status: int = 200, **values: Any) -> Response:
    """Renders a template into a response. Called directly for pages that have no cluster and no script."""
    text = _environment().get_template(template).render(**values)
    return Response(text, status, {"Cache-Control": "no-cache"}, media_type="text/html")


def breakable(text: str) -> Markup:
    """Returns the text of an id, with places after `-`, `_`, `.`, `/` and `:` at which a browser may wrap it."""
    return Markup("<wbr>").join(escape(part) for part in _BREAKS.split(text))


_OF_TIMES: Final = (words.duration, words.fine, words.clock, words.exact, words.iso)
_OF_NUMBERS: Final = (words.count, words.about, words.size, words.share, words.rate, words.plural)
_ADDRESSES: Final = (cluster_page, page_of, finding_page, transaction_page, partition_page, application_page)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("service.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {one.__name__: one for one in (*_OF_TIMES, *_OF_NUMBERS, words.place)}
    environment.filters |= {"breakable": breakable, "display_id": display_id, "mini": mini_of}
    environment.globals |= {address.__name__: address for address in _ADDRESSES}
    return environment


Handler = Callable[[Request, Any], Response]

_PROGRAMS_ASK: Final = ("/api", "/metrics", "/-", "/version", "/openapi.json", "/events", "/static", LLMS, MCP)
_KINDS: Final = (ProblemError, RequestValidationError, StoreError, HTTPException, Exception)


def answer_errors_of_pages(app: FastAPI) -> None:
    """Wraps the app's exception handlers, so that an error of a page is answered with a page. All other requests still
    get the answer of the handler. Call this function after the handlers are installed."""
    for kind in _KINDS:
        handler: Any = app.exception_handlers[kind]
        app.add_exception_handler(kind, _as_page(handler))


def is_page(path: str) -> bool:
    return not any(path == first or path.startswith(f"{first}/") for first in _PROGRAMS_ASK)


def _as_page(handler: Handler) -> Handler:
    def answer(request: Request, error: Any) -> Response:
        response = handler(request, error)
        if not is_page(request.url.path):
            return response
        problem = Problem.model_validate_json(bytes(response.body))
        page = render_bare("error.html", response.status_code, problem=problem, api=API)
        for name, value in response.headers.items():
            if name not in ("content-length", "content-type"):
                page.headers[name] = value
        return page

    return answer
