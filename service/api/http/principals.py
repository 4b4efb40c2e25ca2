"""Who sent a request: `service/api/http/access.py` finds it out, before any handler runs."""

from __future__ import annotations

from typing import Final

from fastapi import Request
from starlette.types import Scope

from service.access.principal import Principal, PrincipalKind

_PRINCIPAL: Final = "txnscope.principal"

UNKNOWN: Final = Principal("", PrincipalKind.NOBODY, frozenset())
"""The sender before anything is known of them: may do nothing."""


def set_principal(scope: Scope, principal: Principal) -> None:
    scope[_PRINCIPAL] = principal


def principal_of(request: Request) -> Principal:
    """Returns who sent the request."""
    principal = request.scope.get(_PRINCIPAL, UNKNOWN)
    assert isinstance(principal, Principal)
    return principal


def address_of(scope: Scope) -> str:
    """Returns the address that the connection comes from: a proxy's, if there is one before us."""
    client = scope.get("client")
    return str(client[0]) if client else "unknown"
