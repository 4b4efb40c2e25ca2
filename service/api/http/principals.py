"""Who sent a request: `service/api/http/access.py` finds it out, before any handler runs."""

from __future__ import annotations

from typing import Final

from fastapi import Request
from starlette.types import Scope

from service.access.principal import Principal, PrincipalKind, Role

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


def sees_service(request: Request, *, is_on: bool) -> bool:
    """Returns whether the sender may see what is about no cluster: an admin everywhere, and everybody where nobody has
    to say who they are (not `is_on`)."""
    return principal_of(request).may(Role.ADMIN, None) or not is_on
