"""Renders templates into responses: escaped, strict about names, with one environment for the process. Long lists are
shown in numbered pages: the order of some changes with the data, so a cursor would soon point nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeVar

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.exceptions import HTTPException

from service.api.http.fields import API
from service.api.http.problems import Problem, ProblemError
from service.store.errors import StoreError
from service.store.escaped_text import display_id
from service.views import addresses, words
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


def paged(rows: Sequence[Row], page: int, size: int = ROWS) -> Paged[Row]:
    """Returns the page with that number; the last page if a page of that number does not exist (any more)."""
    last = max((len(rows) - 1) // size + 1, 1)
    page = min(page, last)
    begin = (page - 1) * size
    return Paged(
        rows[begin : begin + size],
        begin + 1,
        len(rows),
        page - 1 if page > 1 else None,
        page + 1 if page < last else None,
    )


PAGE_CSP: Final = "default-src 'self'; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'"
"""The Content-Security-Policy of pages: uPlot sets styles of elements; no script is inline."""

_BREAKS: Final = re.compile(r"(?<=[-_./:])(?=\w)")


def render(template: str, frame: Frame, *, page: str, status: int = 200, **values: Any) -> Response:
    """Renders a page in its frame. `page`: the entry that the navigation marks as the current one."""
    text = _environment().get_template(template).render(frame=frame, page=page, now=frame.now_ms, **values)
    return html_answer(text, status, {"Content-Security-Policy": PAGE_CSP})


def render_bare(template: str, status: int = 200, **values: Any) -> Response:
    """Renders a page without a cluster, and without script."""
    return html_answer(_environment().get_template(template).render(**values), status, {})


def html_answer(text: str, status: int, headers: Mapping[str, str]) -> Response:
    return Response(text, status, {"Cache-Control": "no-cache", **headers}, media_type="text/html")


def breakable(text: str) -> Markup:
    """Returns an id that may wrap after `-`, `_`, `.`, `/`, `:`, and is never cut."""
    return Markup("<wbr>").join(escape(part) for part in _BREAKS.split(text))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("service.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        name: getattr(words, name)
        for name in (
            "duration",
            "fine",
            "count",
            "about",
            "size",
            "share",
            "rate",
            "plural",
            "place",
            "clock",
            "exact",
            "iso",
        )
    }
    environment.filters |= {"breakable": breakable, "display_id": display_id, "mini": mini_of}
    environment.globals |= {
        name: getattr(addresses, name)
        for name in ("cluster_page", "page_of", "finding_page", "transaction_page", "partition_page")
    }
    return environment


Handler = Callable[[Request, Any], Response]

_PROGRAMS_ASK: Final = ("/api", "/metrics", "/-", "/version", "/openapi.json", "/events", "/static")
_KINDS: Final = (ProblemError, RequestValidationError, StoreError, HTTPException, Exception)


def answer_errors_of_pages(app: FastAPI) -> None:
    """Wraps the app's handlers of problems, so that a problem with a page is itself shown as a page. Call this after
    those handlers are installed."""
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
