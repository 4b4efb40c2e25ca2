"""The principal that sent a request. `service/api/http/access.py` sets it before any handler runs."""

from __future__ import annotations

from typing import Final

from fastapi import Request
from starlette.types import Scope

from service.access.principal import Principal, Role

_PRINCIPAL: Final = "txnscope.principal"

UNKNOWN: Final = Principal("", frozenset())
"""The principal of a request that is not authenticated yet, or whose path needs no role. This principal has no role."""


def set_principal(scope: Scope, principal: Principal) -> None:
    scope[_PRINCIPAL] = principal


def principal_of(request: Request) -> Principal:
    """Returns the principal that sent the request."""
    principal = request.scope.get(_PRINCIPAL, UNKNOWN)
    assert isinstance(principal, Principal)
    return principal


def address_of(scope: Scope) -> str:
    """Returns the address from which the connection comes; if the service is behind a proxy, this is the address of the
    proxy."""
    client = scope.get("client")
    return str(client[0]) if client else "unknown"


def sees_service(request: Request, *, is_on: bool) -> bool:
    """Returns whether the sender may see data that belong to no cluster: an admin of all clusters may, and everybody if
    authentication is off (not `is_on`)."""
    return principal_of(request).may(Role.ADMIN, None) or not is_on
