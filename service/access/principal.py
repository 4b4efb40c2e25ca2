"""Principals, which send requests, and their roles in one cluster or in all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple


class Role(IntEnum):
    """A set of permissions. A higher role includes the lower ones. `METRICS`: may read /metrics, and nothing else."""

    METRICS = 0
    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        """The role as people write it."""
        return self.name.lower()


_ROLES: Final = {role.word: role for role in Role}


class Grant(NamedTuple):
    """A role in one cluster; `cluster` None: in all clusters, including future ones."""

    role: Role
    cluster: str | None = None

    @property
    def text(self) -> str:
        """The grant as people write it: `viewer`, or `operator@orders`."""
        return self.role.word if self.cluster is None else f"{self.role.word}@{self.cluster}"


class Principal(NamedTuple):
    """The sender of a request."""

    name: str
    grants: frozenset[Grant]

    def may(self, role: Role, cluster: str | None) -> bool:
        """Returns whether the principal has the role in the cluster; `cluster` None: in all of them."""
        return any(grant.role >= role and grant.cluster in (None, cluster) for grant in self.grants)

    def may_somewhere(self, role: Role) -> bool:
        """Returns whether the principal has the role in some cluster."""
        return any(grant.role >= role for grant in self.grants)

    def sees(self, cluster: str) -> bool:
        """Returns whether the principal may read about the cluster."""
        return self.may(Role.VIEWER, cluster)

    @property
    def sees_all(self) -> bool:
        """True if the principal may read about every cluster."""
        return self.may(Role.VIEWER, None)


ANYBODY: Final = Principal("anybody", frozenset({Grant(Role.VIEWER)}))
"""The sender of every request that only reads, if authentication is off. It may read everything, and write nothing.
"""


def parse_grant(text: Any) -> Grant:
    """Reads `viewer` or `operator@orders`. Raises ValueError, with a message of one line, for any other value."""
    word, at, cluster = str(text).partition("@")
    role = _ROLES.get(word)
    if role is None or not isinstance(text, str):
        raise ValueError(f"{text!r} is no role: write one of {', '.join(_ROLES)}, or operator@CLUSTER for one cluster")
    if not at:
        return Grant(role)
    if not cluster or cluster != cluster.strip() or "/" in cluster:
        raise ValueError(f"{text!r} names no cluster after the @")
    if role is Role.METRICS:
        raise ValueError(f"{text!r}: /metrics covers all clusters, so write metrics without @CLUSTER")
    return Grant(role, cluster)


def parse_grants(texts: Any) -> frozenset[Grant]:
    """Reads a list of texts like `viewer`. Raises ValueError, with a message of one line, for an empty list, for a list
    with any other text, and for anything that is no list."""
    if not isinstance(texts, Sequence) or isinstance(texts, str) or not texts:
        raise ValueError('not a list like ["viewer", "operator@orders"]')
    return frozenset(parse_grant(text) for text in texts)


def grant_texts(grants: Iterable[Grant]) -> list[str]:
    """Returns the grants as people write them, in a fixed order."""
    return sorted(grant.text for grant in grants)
