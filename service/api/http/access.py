"""Middleware before every route: checks the host, identifies the sender, and refuses what the sender may not do.

`service.access.needs` has the role that each request needs. A request with a method other than GET, HEAD and OPTIONS is
refused if a browser sends it for another site: a browser adds saved passwords and client certificates to such a request
without asking its user.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from anyio import to_thread
from fastapi import FastAPI, Request
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from service.access import needs
from service.access.actions import Action
from service.access.authenticator import Authenticator, ReadKeys, name_in
from service.access.configuration import AuthConfig
from service.access.hosts import AllowedHosts
from service.access.principal import ANYBODY, Principal
from service.access.refusals import LONGEST_S, BadCredentials, Counted, Refusal, Refusals, Slowdown
from service.api.http.kafka import OwnThreads
from service.api.http.principals import UNKNOWN, address_of, principal_of, set_principal
from service.api.http.problems import (
    NOT_ALLOWED,
    NOT_AUTHENTICATED,
    TOO_MANY_REQUESTS,
    WRONG_HOST,
    ProblemError,
    describe,
)
from service.store.errors import StoreError
from service.store.escaped_text import printable

log = logging.getLogger(__name__)

_slow: Final = OwnThreads("passwords and tokens", 2)
"""Threads that check passwords and tokens. Keys are checked in other threads, so that requests with keys do not wait
for attempts to guess a password: such an attempt takes 60 ms of a core and 32 MB."""
_fast: Final = OwnThreads("keys", 2)

_JSON: Final = "application/json"

OFF: Final = "this service accepts no changes; to allow them, configure keys of operators, or [auth], in its settings"
NEEDS_KEY: Final = (
    "this request needs an operator's key, in the header Authorization: Bearer KEY (for commands: --key-file FILE)"
)
NO_CREDENTIALS: Final = (
    "this request needs credentials, such as the header Authorization: Bearer KEY (for commands: --key-file FILE)"
)


class AccessConfig(NamedTuple):
    """The credentials and hosts that one service accepts. `hosts`: the accepted host names; None accepts any host, for
    a service that no network reaches."""

    auth: AuthConfig = AuthConfig()
    hosts: AllowedHosts | None = None


Record = Callable[[Iterable[Counted]], None]
"""Stores refusals in the audit. Raises StoreError if some were not stored."""


class Access:
    """The credentials, hosts and refusals that AccessControl uses in one application. `operators`: a mapping from name
    to key. `read_keys`: reads the keys of the store. `record`: stores refusals."""

    def __init__(
        self,
        auth: AuthConfig,
        operators: Mapping[str, str],
        hosts: AllowedHosts | None,
        read_keys: ReadKeys,
        record: Record,
    ) -> None:
        self.hosts = hosts
        self.authenticator = Authenticator(auth, operators, read_keys)
        self.slowdown = Slowdown()
        self._refusals = Refusals()
        self._record = record
        self._summing: asyncio.Task[None] | None = None

    async def principal(self, header: str, address: str) -> Principal:
        """Returns the principal whose credentials the header has. Raises BadCredentials as `Authenticator.check` does;
        ProblemError (429) if the address has sent too many wrong credentials, and this password or token was not
        checked lately; StoreError if the keys of the store have never been read and cannot be read now."""
        now_s = time.monotonic()
        known = self.authenticator.known(header, now_s)
        if known is not None:
            return known
        is_slow = self.authenticator.is_slow(header)
        if is_slow and self.slowdown.is_full(address, now_s):
            raise _too_many()
        threads = _slow if is_slow else _fast
        return await threads.run(lambda: self.authenticator.check(header, now_s))

    async def refuse(self, refusal: Refusal) -> None:
        """Records the refusal: a line in the log, and a row in the audit. Many refusals of one sender are summed up."""
        counted = self._refusals.add(refusal, time.monotonic())
        if counted is not None:
            await self._write([counted])
        if self._summing is None or self._summing.done():
            self._summing = asyncio.create_task(self._sum())

    async def flush(self) -> None:
        """Records the refusals that are not recorded yet. Called when the service ends."""
        if self._summing is not None:
            self._summing.cancel()
        await self._write(self._refusals.due(float("inf")))

    async def _sum(self) -> None:
        while (at_s := self._refusals.next_s()) is not None:
            await asyncio.sleep(max(0.0, at_s - time.monotonic()))
            await self._write(self._refusals.due(time.monotonic()))

    async def _write(self, counted: list[Counted]) -> None:
        if not counted:
            return
        for refusal, number in counted:
            times = "" if number == 1 else f" ({number:,} times)"
            log.warning(
                "refused %s of %s from %s: %s%s",
                refusal.request,
                refusal.who or "?",
                refusal.address,
                refusal.why,
                times,
            )
        try:
            await to_thread.run_sync(self._record, counted)
        except StoreError as error:
            log.error("the audit lacks these refusals: %s", error)


class AccessControl:
    """Pure ASGI middleware. Refuses requests with a wrong Host header, requests without the role that they need, and
    requests that a browser sends for another site (GET, HEAD and OPTIONS excepted). A request that passes has its
    principal in the scope (`service.api.http.principals`)."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._check_host(scope)
            set_principal(scope, await self._admit(scope))
        except (ProblemError, StoreError) as error:
            response = _answer(Request(scope), error)
            if isinstance(error, _Unauthenticated):
                for scheme in self._access.authenticator.schemes:
                    response.headers.append("WWW-Authenticate", scheme)
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _check_host(self, scope: Scope) -> None:
        hosts = self._access.hosts
        given = Headers(scope=scope).getlist("host")
        local = scope.get("server")
        if hosts is None or (len(given) == 1 and hosts.allows(given[0], local[0] if local else None)):
            return
        shown = given[0][:100] if given else "(none)"
        raise ProblemError(
            421,
            WRONG_HOST,
            f"this service does not answer as host {shown!r}; to allow the name, add it to --allowed-hosts",
        )

    async def _admit(self, scope: Scope) -> Principal:
        """Returns the principal of the request: UNKNOWN if the path needs no role, ANYBODY for a read if authentication
        is off. Raises ProblemError if the request is not allowed, and StoreError as `Access.principal` does."""
        need = needs.need_of(scope["method"], scope["path"])
        if need is not None and need.role is None:
            return UNKNOWN
        headers = Headers(scope=scope)
        header = headers.get("authorization")
        is_on = self._access.authenticator.is_on
        if need is not None and scope["method"] not in needs.READS:
            _check_site(headers)
        if not is_on and (need is None or not needs.may_change(scope["method"], scope["path"])):
            return ANYBODY  # without authentication the header is ignored: it may belong to a proxy
        principal = await self._identify(scope, header, is_on=is_on)
        if need is not None and not need.is_met_by(principal):
            await self._access.refuse(_refusal(Action.AUTHORIZE, scope, principal.name, f"needs {need.text}"))
            raise ProblemError(403, NOT_ALLOWED, f"{principal.name!r} needs {need.text} for this request")
        return principal

    async def _identify(self, scope: Scope, header: str | None, *, is_on: bool) -> Principal:
        address = address_of(scope)
        if not self._access.authenticator.may_write:
            raise ProblemError(403, NOT_ALLOWED, OFF)
        if header is None:
            raise _Unauthenticated(NO_CREDENTIALS) if is_on else ProblemError(403, NOT_ALLOWED, NEEDS_KEY)
        try:
            return await self._access.principal(header, address)
        except BadCredentials as error:
            wait_s = self._access.slowdown.turn(address, time.monotonic())
            await self._access.refuse(_refusal(Action.AUTHENTICATE, scope, name_in(header), str(error)))
            if wait_s is None:
                raise _too_many() from None
            await asyncio.sleep(wait_s)
            raise (
                _Unauthenticated(f"{error}; {NO_CREDENTIALS}") if is_on else ProblemError(403, NOT_ALLOWED, NEEDS_KEY)
            ) from None


class _Unauthenticated(ProblemError):
    def __init__(self, detail: str) -> None:
        super().__init__(401, NOT_AUTHENTICATED, detail)


def require_cluster(request: Request, cluster: str) -> None:
    """Raises ProblemError (403) if the sender may not see the cluster. Used by routes whose path does not name the
    cluster, because `AccessControl` cannot check those routes."""
    principal = principal_of(request)
    if not principal.sees(cluster):
        raise ProblemError(403, NOT_ALLOWED, f"{principal.name!r} may not see cluster {cluster!r}")


async def may_still_see(request: Request, access: Access, cluster: str) -> bool | None:
    """Returns whether the sender of a long request may still see the cluster; None if the credentials are no longer
    valid, or cannot be checked now."""
    header = request.headers.get("authorization")
    if not access.authenticator.is_on or header is None:
        return principal_of(request).sees(cluster)
    try:
        principal = await access.principal(header, address_of(request.scope))
    except (BadCredentials, ProblemError, StoreError):
        return None
    return principal.sees(cluster)


def check_declared(routes: Iterable[BaseRoute]) -> None:
    """Raises RuntimeError for a route that changes something and has no role in `service.access.needs.WRITES`."""
    for route in routes:
        for one in getattr(route, "effective_route_contexts", lambda route=route: [route])():
            undeclared = [m for m in getattr(one, "methods", None) or () if not needs.is_declared(m, one.path)]
            if undeclared:
                raise RuntimeError(f"{undeclared[0]} {one.path}: service.access.needs.WRITES has no role for it")


def describe_access(document: dict[str, Any]) -> None:
    """Adds to an OpenAPI document the credentials that a service may ask for, and the problems with which it refuses a
    request."""
    document["components"]["securitySchemes"] = {
        "bearer": {
            "type": "http",
            "scheme": "bearer",
            "description": "A key of `txnscope keys create`, or a token of the issuer in `[auth.oidc]`.",
        },
        "basic": {"type": "http", "scheme": "basic", "description": "A name and password of `[auth.basic]`."},
    }
    document["security"] = [{"bearer": []}, {"basic": []}, {}]  # {}: none if authentication is off
    for path, operations in document["paths"].items():
        for operation in operations.values():
            if path in needs.OPEN:
                operation["security"] = []
            else:
                operation["responses"].update(_responses(401, 403, 429))
            operation["responses"].update(_responses(421))


def _responses(*statuses: int) -> dict[str, Any]:
    return {str(status): one for status, one in describe(*statuses).items()}


def _check_site(headers: Headers) -> None:
    """Raises ProblemError (403) if the headers Sec-Fetch-Site and Origin show that a browser sends the request for
    another site. Programs send neither header. A request without `Content-Type: application/json` passes only if these
    headers prove that a page of ours sent the request, or if the request has a bearer token."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    has_our_origin = origin is not None and urlsplit(origin).netloc.lower() == headers.get("host", "").lower()
    is_ours = site == "same-origin" or (site is None and has_our_origin)
    if not is_ours and (site not in (None, "none") or origin is not None):
        raise ProblemError(403, NOT_ALLOWED, "a page of another site made a browser send this request")
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    is_ambient = not headers.get("authorization", "").lower().startswith("bearer ")
    if is_ambient and kind != _JSON and not is_ours:
        detail = (
            f"this request needs the header Content-Type: {_JSON}, or must come from a form of this service's pages"
        )
        raise ProblemError(403, NOT_ALLOWED, detail)


def _refusal(action: Action, scope: Scope, who: str, why: str) -> Refusal:
    need = needs.need_of(scope["method"], scope["path"])
    request = printable(f"{scope['method']} {scope['path'][:200]}")
    cluster = None if need is None else need.cluster
    return Refusal(action, address_of(scope), printable(who[:100]), cluster, request, printable(why))


def _too_many() -> ProblemError:
    return ProblemError(
        429, TOO_MANY_REQUESTS, f"too many wrong credentials from this address; wait for {LONGEST_S:.0f} s", retry=True
    )


def _answer(request: Request, error: Exception) -> Response:
    """Returns the response that the application's own error handler makes of the error: a problem, or a page."""
    app = request.scope["app"]
    assert isinstance(app, FastAPI)
    kind = next(kind for kind in type(error).__mro__ if kind in app.exception_handlers)
    response = app.exception_handlers[kind](request, error)
    assert isinstance(response, Response)
    return response
