"""Errors of pages as pages: the words of the problem that REST would answer with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from service.api.http.problems import Problem, ProblemError
from service.api.links import API
from service.store.errors import StoreError
from service.web.shared.render import render_bare

Handler = Callable[[Request, Any], Response]

_PROGRAMS_ASK: Final = ("/api", "/metrics", "/-", "/version", "/openapi.json", "/events", "/static")
_KINDS: Final = (ProblemError, RequestValidationError, StoreError, HTTPException, Exception)


def answer_errors_of_pages(app: FastAPI) -> None:
    """To be called when the handlers of problems are there: what they say of a page becomes one."""
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
