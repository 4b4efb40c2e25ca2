"""Missing permissions as lines for kafka-acls.sh: what REST says has to be granted, in a form that can be pasted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from service.domain.doctor import acls
from service.domain.doctor.acls import Acl
from service.domain.findings.finding import Finding

_ON_TOPIC: Final = re.compile(r"([A-Z_]+(?: and [A-Z_]+)*) on topic (\S+)")
_ON_CLUSTER: Final = re.compile(r"([A-Z_]+(?: and [A-Z_]+)*) on the cluster")
"""As `service.api.schemas.unknowns` says it."""

_GROUPS_NAMED: Final = 20


def bootstrap_of(brokers: Sequence[Mapping[str, Any]]) -> str | None:
    """An address for the command line: of the first broker as it advertises itself; None: none is known."""
    if not brokers:
        return None
    host, port = brokers[0]["host"], brokers[0]["port"]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def lines_of(grant: str | None, bootstrap: str | None) -> list[str]:
    """Empty where nothing can be granted, or no broker is known. Whose permission it is, people have to put in: the
    application that reads may be another principal than the service."""
    if grant is None or bootstrap is None:
        return []
    if on_topic := _ON_TOPIC.fullmatch(grant):
        wanted = [acls.topic(on_topic[2], operation) for operation in _operations(on_topic[1])]
    elif on_cluster := _ON_CLUSTER.fullmatch(grant):
        wanted = [Acl("--cluster", "", operation) for operation in _operations(on_cluster[1])]
    else:
        return []
    return acls.lines(wanted, None, bootstrap)


def lines_of_groups(denied: Iterable[Finding], bootstrap: str | None) -> list[str]:
    """For groups that may not be asked: by name, all of them where they are many."""
    names = sorted({one.subject.group for one in denied if one.subject.group is not None})
    if not names or bootstrap is None:
        return []
    if len(names) > _GROUPS_NAMED:
        names = ["*"]
    return acls.lines([Acl("--group", name, "Describe") for name in names], None, bootstrap)


def _operations(words: str) -> list[str]:
    """`DESCRIBE_CONFIGS and READ` as kafka-acls.sh spells them. READ implies DESCRIBE."""
    named = words.split(" and ")
    if "READ" in named:
        named = [name for name in named if name != "DESCRIBE"]
    return ["".join(part.capitalize() for part in name.split("_")) for name in named]
