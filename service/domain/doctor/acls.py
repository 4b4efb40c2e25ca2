"""Turns missing permissions into lines for `kafka-acls.sh`, which grant these permissions."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import DESCRIBE, READ, NoPermission, missing_permissions

SOMEBODY: Final = "User:<your principal>"
_ALL: Final = "*"
_ONE_BY_ONE: Final = 20
"""If a permission is missing on more topics, ids or groups than this, it is granted on `*` instead of each name."""


class Acl(NamedTuple):
    """One grant: allows `operation` (as `kafka-acls.sh` spells it) on the resource given by `flag` and `name`; `name`
    is empty for the cluster."""

    flag: str
    name: str
    operation: str
    is_prefix: bool = False


CLUSTER_DESCRIBE: Final = Acl("--cluster", "", "Describe")
CLUSTER_CONFIGS: Final = Acl("--cluster", "", "DescribeConfigs")
CLUSTER_ALTER: Final = Acl("--cluster", "", "Alter")
CLUSTER_ACTION: Final = Acl("--cluster", "", "ClusterAction")


class Grant(NamedTuple):
    """A permission that txnscope's principal lacks. `text`: the permission as people read it."""

    text: str
    acls: tuple[Acl, ...]


CONFIGS_GRANT: Final = Grant("DESCRIBE_CONFIGS on the cluster", (CLUSTER_CONFIGS,))


def topic(name: str, operation: str) -> Acl:
    return Acl("--topic", name, operation)


def grant_of(missing: NoPermission) -> Grant:
    """Returns the grant for the missing operations. If READ is among them, DESCRIBE is left out, because READ implies
    DESCRIBE."""
    wanted = [operation for operation in missing.operations if operation != DESCRIBE or READ not in missing.operations]
    return Grant(
        f"{missing.grant} on topic {missing.topic}", tuple(topic(missing.topic, one.capitalize()) for one in wanted)
    )


def grant_for(reason: Reason | None) -> Grant | None:
    """Returns the grant for the first missing permission in `reason`; None if no permission is missing."""
    return next(map(grant_of, missing_permissions(reason)), None)


def pattern(glob: str, operation: str) -> Acl:
    """Returns the grant for the topics that a pattern of `--topics` matches. A plain name gives a grant for that name,
    and a prefix with `*` a grant for that prefix. Any other pattern gives a grant for all topics."""
    if not any(c in glob for c in "*?["):
        return topic(glob, operation)
    stem = glob.removesuffix(_ALL)
    is_prefix = stem != "" and not any(c in stem for c in "*?[")
    return Acl("--topic", stem if is_prefix else _ALL, operation, is_prefix)


def each_or_all(flag: str, missing: Sequence[str], known: int, operation: str) -> list[Acl]:
    """Returns a grant for each missing name. Returns a single grant for `*` instead if more than `_ONE_BY_ONE` names
    are missing, or if every name is missing and there are several. `known`: the total number of names."""
    if len(missing) > _ONE_BY_ONE or len(missing) == known > 1:
        return [Acl(flag, _ALL, operation)]
    return [Acl(flag, name, operation) for name in missing]


def lines(acls: Iterable[Acl], principal: str | None, bootstrap: str) -> list[str]:
    """Returns one command line for each set of grants with the same flag, operation and pattern type, and one for all
    grants on the cluster. Grants that are covered by a grant for `*` are left out."""
    wanted = list(dict.fromkeys(acls))
    for_all = {(acl.flag, acl.operation) for acl in wanted if acl.name == _ALL}
    needed = [acl for acl in wanted if acl.name == _ALL or (acl.flag, acl.operation) not in for_all]
    together: dict[tuple[str, str, bool], list[str]] = {}
    for acl in needed:
        together.setdefault((acl.flag, acl.operation, acl.is_prefix), []).append(acl.name)
    # the operations on the cluster all fit into one command line
    cluster = [operation for flag, operation, _ in together if flag == "--cluster"]
    found = [
        _line(principal, bootstrap, [operation], is_prefix, [word for name in names for word in (flag, name)])
        for (flag, operation, is_prefix), names in together.items()
        if flag != "--cluster"
    ]
    return ([_line(principal, bootstrap, cluster, False, ["--cluster"])] if cluster else []) + found


def _line(
    principal: str | None, bootstrap: str, operations: Sequence[str], is_prefix: bool, resource: Sequence[str]
) -> str:
    words = ["kafka-acls.sh", "--bootstrap-server", bootstrap, "--command-config", "admin.properties", "--add"]
    words += ["--allow-principal", principal or SOMEBODY]
    words += [word for operation in operations for word in ("--operation", operation)]
    words += ["--resource-pattern-type", "prefixed"] if is_prefix else []
    return shlex.join([*words, *resource])
