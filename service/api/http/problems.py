"""Answers errors with a problem (RFC 9457), which says what went wrong and, where possible, what to do about it. Errors
of pages are answered with a page instead (`service.web.shared.render`)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match

from service.api.http.principals import principal_of
from service.api.http.security import HEADERS
from service.store.errors import StoreError, StoreNotMigrated, StoreTooNew

MEDIA_TYPE: Final = "application/problem+json"
RETRY_AFTER_S: Final = 5

BAD_PARAMETER: Final = "urn:txnscope:bad-parameter"
UNKNOWN_PARAMETER: Final = "urn:txnscope:unknown-parameter"
BAD_CURSOR: Final = "urn:txnscope:bad-cursor"
NO_SUCH_CLUSTER: Final = "urn:txnscope:no-such-cluster"
NO_SUCH_ID: Final = "urn:txnscope:no-such-transactional-id"
NO_SUCH_PRODUCER: Final = "urn:txnscope:no-such-producer-id"
NO_SUCH_FINDING: Final = "urn:txnscope:no-such-finding"
NO_SUCH_MUTE: Final = "urn:txnscope:no-such-mute"
NO_SUCH_APPLICATION: Final = "urn:txnscope:no-such-application"
NO_SUCH_PARTITION: Final = "urn:txnscope:no-such-partition"
NOT_TAILED: Final = "urn:txnscope:not-tailed"
NO_SUCH_OFFSET: Final = "urn:txnscope:no-such-offset"
STORE_NOT_READY: Final = "urn:txnscope:store-not-ready"
STORE_NOT_MIGRATED: Final = "urn:txnscope:store-not-migrated"
STORE_TOO_NEW: Final = "urn:txnscope:store-too-new"
NO_BROKERS: Final = "urn:txnscope:no-brokers"
KAFKA_UNAVAILABLE: Final = "urn:txnscope:kafka-unavailable"
KAFKA_REFUSED: Final = "urn:txnscope:kafka-refused"
NOT_ALLOWED: Final = "urn:txnscope:not-allowed"
NOT_NOW: Final = "urn:txnscope:not-now"
NOT_AUTHENTICATED: Final = "urn:txnscope:not-authenticated"
WRONG_HOST: Final = "urn:txnscope:wrong-host"
TOO_MANY_REQUESTS: Final = "urn:txnscope:too-many-requests"
TOO_MANY_STREAMS: Final = "urn:txnscope:too-many-streams"
"""The constants from BAD_PARAMETER to this one are the values of a problem's `type`. If none of them fits a problem,
its type is about:blank, because the status explains the problem."""

_OF_STORE: Final = {StoreNotMigrated: STORE_NOT_MIGRATED, StoreTooNew: STORE_TOO_NEW}


class ParameterError(BaseModel):
    """One parameter that could not be used."""

    parameter: str
    message: str


class Problem(BaseModel):
    """An error in the format of RFC 9457."""

    type: str = Field("about:blank", examples=[NO_SUCH_CLUSTER])
    title: str = Field(examples=["Not Found"])
    status: int = Field(examples=[404])
    detail: str | None = Field(None, description="What happened, as a sentence.", examples=["there is no cluster 'x'"])
    instance: str | None = Field(None, description="The path of the request.", examples=["/api/v1/clusters/x"])
    errors: list[ParameterError] | None = Field(
        None, description="For status 422: the parameters that could not be used."
    )


class ProblemError(Exception):
    """An error that a handler raises to answer with a problem. `retry`: the same request may succeed in a few seconds.
    `for_all`: text that is appended to the detail if the sender may see all clusters."""

    def __init__(
        self,
        status: int,
        type_: str,
        detail: str,
        errors: list[ParameterError] | None = None,
        *,
        retry: bool = False,
        for_all: str = "",
    ) -> None:
        super().__init__(detail)
        self.status, self.type, self.detail, self.errors = status, type_, detail, errors
        self.retry, self.for_all = retry, for_all


def describe(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Returns the argument `responses=` for a route that may answer with problems of these statuses."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in statuses}


def answer_errors_as_problems(app: FastAPI) -> None:
    """Makes a problem of every error of the application, the framework's own errors included."""
    app.add_exception_handler(ProblemError, _on_problem)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(StoreError, _on_store)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(Exception, _on_bug)


def _respond(
    request: Request,
    status: int,
    detail: str | None,
    headers: Mapping[str, str],
    type_: str = "about:blank",
    errors: list[ParameterError] | None = None,
) -> Response:
    problem = Problem(
        type=type_,
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        instance=request.url.path,
        errors=errors,
    )
    # errors are never kept by caches: the next answer may be another one
    return Response(
        problem.model_dump_json(exclude_none=True), status, {"Cache-Control": "no-store", **headers}, MEDIA_TYPE
    )


def _on_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    detail = error.detail + (error.for_all if principal_of(request).sees_all else "")
    headers = {"Retry-After": str(RETRY_AFTER_S)} if error.retry else {}
    return _respond(request, error.status, detail, headers, error.type, error.errors)


def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = [
        ParameterError(parameter=".".join(map(str, each["loc"][1:])), message=each["msg"]) for each in error.errors()
    ]
    detail = "; ".join(f"{each.parameter}: {each.message}" for each in errors)
    return _on_problem(request, ProblemError(422, BAD_PARAMETER, detail, errors))


def _on_store(request: Request, error: Exception) -> Response:
    """Answers 503: the store does not answer, or this version cannot read its schema."""
    type_ = next((type_ for kind, type_ in _OF_STORE.items() if isinstance(error, kind)), STORE_NOT_READY)
    return _on_problem(request, ProblemError(503, type_, str(error), retry=True))


def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = None if error.detail == HTTPStatus(error.status_code).phrase else error.detail
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED and (methods := _methods(request)):
        headers["Allow"] = ", ".join(sorted(methods))
    return _respond(request, error.status_code, detail, headers)


def _methods(request: Request) -> set[str]:
    """Returns the methods of all routes of the path: the router names only the methods of the first route."""
    found: set[str] = set()
    for router in request.app.routes:
        for route in getattr(router, "effective_route_contexts", lambda router=router: [router])():
            match, _ = route.matches(request.scope)
            if match is not Match.NONE:
                found |= set(getattr(route, "methods", None) or ())
    return found


def _on_bug(request: Request, _: Exception) -> Response:
    """Answers 500. The framework logs the exception, and calls this handler outside of all middleware. So this handler
    adds the headers."""
    return _respond(request, 500, "an error in txnscope; its log has the details", HEADERS)
