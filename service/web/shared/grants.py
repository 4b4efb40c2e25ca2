"""Missing permissions as lines for kafka-acls.sh, in a form that can be pasted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from service.api.schemas.clusters import Broker
from service.domain.doctor import acls
from service.domain.doctor.acls import Acl, Grant
from service.domain.findings.finding import Finding

_GROUPS_NAMED: Final = 20


def bootstrap_of(brokers: Sequence[Broker]) -> str | None:
    """Returns the address that the first broker advertises, for a command line; None if no broker is known."""
    if not brokers:
        return None
    host, port = brokers[0].host, brokers[0].port
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def lines_of(grant: Grant | None, bootstrap: str | None) -> list[str]:
    """Returns the lines that give the permission; empty if nothing can be granted or no broker is known. The lines have
    a placeholder for the principal, because the application that reads may have another one than the service."""
    return [] if grant is None or bootstrap is None else acls.lines(grant.acls, None, bootstrap)


def lines_of_groups(denied: Iterable[Finding], bootstrap: str | None) -> list[str]:
    """Returns the lines that let the denied groups be asked: by name, or by one grant for all groups if many are
    denied."""
    names = sorted({one.subject.group for one in denied if one.subject.group is not None})
    if not names or bootstrap is None:
        return []
    if len(names) > _GROUPS_NAMED:
        names = ["*"]
    return acls.lines([Acl("--group", name, "Describe") for name in names], None, bootstrap)
