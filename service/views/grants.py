"""Missing permissions as lines for kafka-acls.sh, in a form that can be pasted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from service.domain.doctor import acls
from service.domain.doctor.acls import Acl, Grant
from service.domain.findings.finding import Finding
from service.domain.reasons.unread import ShareLevelNotReported, ShareOffsetsNotReported
from service.views.cluster.description import Broker

_GROUPS_NAMED: Final = 20


def bootstrap_of(brokers: Sequence[Broker]) -> str | None:
    """Returns the address that the first broker advertises, for a command line; None if no broker is known."""
    if not brokers:
        return None
    host, port = brokers[0].host, brokers[0].port
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def lines_of(grant: Grant | None, bootstrap: str | None) -> list[str]:
    """Returns the lines that give the permission; empty if nothing can be granted or no broker is known. The lines have
    a placeholder for the principal, because the streaming application may use another principal than the service."""
    return [] if grant is None or bootstrap is None else acls.lines(grant.acls, None, bootstrap)


def grant_of_groups(denied: Iterable[Finding]) -> Grant | None:
    """Returns the permissions that are missing to judge the groups. If the same operation is missing for more than
    _GROUPS_NAMED groups, the result grants this operation on all groups of the cluster. Returns None if no permission
    is missing. `denied`: coverage gaps of groups."""
    wanted: dict[str, list[str]] = {}
    for finding in denied:
        if finding.subject.group is not None and not isinstance(finding.observation.reason, ShareOffsetsNotReported):
            operation = (
                "DescribeConfigs" if isinstance(finding.observation.reason, ShareLevelNotReported) else "Describe"
            )
            wanted.setdefault(operation, []).append(finding.subject.group)
    if not wanted:
        return None
    named = {op: sorted(set(names)) if len(set(names)) <= _GROUPS_NAMED else ["*"] for op, names in wanted.items()}
    text = " and ".join(f"{_OPERATIONS[op]} on group {', '.join(names)}" for op, names in named.items())
    return Grant(text, tuple(Acl("--group", name, op) for op, names in named.items() for name in names))


_OPERATIONS: Final = {"Describe": "DESCRIBE", "DescribeConfigs": "DESCRIBE_CONFIGS"}
