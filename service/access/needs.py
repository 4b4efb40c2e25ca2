"""The role that each request needs, by its method and path.

Paths in OPEN need no role. Paths below `/clusters/NAME` need the role in that cluster. Paths in SHARED, SHARED_BELOW
and MCP need the role in any one cluster. All other paths need the role in all clusters. Only requests in WRITES may
change anything, so a new route that changes something is refused until it is declared here.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from service.access.principal import Principal, Role

READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""

OPEN: Final = frozenset({"/-/healthy", "/-/ready"})
"""Paths for everybody, because orchestrators request them without credentials. They show no data of clusters."""

LLMS: Final = "/llms.txt"

SHARED: Final = frozenset(
    {"/", "/go", "/version", "/openapi.json", LLMS, "/events", "/api/v1/events", "/api/v1/clusters", "/guide"}
)
"""Paths for everybody who may see at least one cluster. The handlers leave out clusters that the sender may not see."""

SHARED_BELOW: Final = ("/guide/", "/static/")
"""Beginnings of paths for everybody who may see at least one cluster: documents and files that do not depend on a
cluster."""

METRICS: Final = "/metrics"

MCP: Final = "/mcp"
"""The path of the Model Context Protocol. Its requests are POSTs, but they change nothing. A role in any one cluster is
enough, as for paths in SHARED."""

WRITES: Final[dict[tuple[str, str], Role]] = {
    ("POST", "findings/{finding}/resolve"): Role.OPERATOR,
    ("POST", "findings/{finding}/acknowledge"): Role.OPERATOR,  # by REST, and by the form of the page
    ("POST", "mutes"): Role.OPERATOR,
    ("DELETE", "mutes"): Role.OPERATOR,
    ("POST", "findings/{finding}/mute"): Role.OPERATOR,  # by the form of the page
}
"""A mapping from each request that changes something (its method, and its path below `/clusters/{cluster}`) to the role
that it needs in the cluster."""

READS_OF_OPERATORS: Final = frozenset({"audit"})
"""Paths below `/clusters/{cluster}` that show what colleagues did: operators read them, viewers do not."""

_OF_CLUSTER: Final = re.compile(r"(?:/api/v1)?/clusters/(?P<cluster>[^/]+)(?:/(?P<rest>.*))?", re.DOTALL)
_NAME: Final = re.compile(r"\{\w+\}")


class Need(NamedTuple):
    """The lowest role that a request needs. `role`: None if no role is needed. `cluster`: the cluster in which the role
    is needed. If it is None, the role is needed in all clusters or, if `somewhere` is True, in any one cluster."""

    role: Role | None
    cluster: str | None = None
    somewhere: bool = False

    def is_met_by(self, principal: Principal) -> bool:
        if self.role is None:
            return True
        if self.somewhere:
            return principal.may_somewhere(self.role)
        return principal.may(self.role, self.cluster)

    @property
    def text(self) -> str:
        """The need in words: `the role operator in cluster 'orders'`."""
        assert self.role is not None
        if self.somewhere:
            return f"the role {self.role.word} in some cluster"
        return f"the role {self.role.word} in " + ("all clusters" if self.cluster is None else f"{self.cluster!r}")


def need_of(method: str, path: str) -> Need | None:
    """Returns the need of a request. None: no route takes this method at this path
    (`service.api.http.access.check_declared`), so the router answers every principal with 404 or 405."""
    if path == MCP:
        return Need(Role.VIEWER, somewhere=True)
    found = _OF_CLUSTER.fullmatch(path)
    if method not in READS:
        role = None if found is None else _role_of_write(method, found["rest"] or "")
        return None if role is None or found is None else Need(role, found["cluster"])
    if path in OPEN:
        return Need(None)
    if path == METRICS:
        return Need(Role.METRICS)
    if found is not None:
        return Need(Role.OPERATOR if found["rest"] in READS_OF_OPERATORS else Role.VIEWER, found["cluster"])
    return Need(Role.VIEWER, somewhere=path in SHARED or path.startswith(SHARED_BELOW))


def may_change(method: str, path: str) -> bool:
    """Returns True if the request's method is not in READS, and its path is not MCP."""
    return method not in READS and path != MCP


def is_declared(method: str, template: str) -> bool:
    """Returns whether a route may exist: it only reads, or WRITES has a role for it. `template`: the route's path, with
    the names of parameters in braces."""
    found = _OF_CLUSTER.fullmatch(template)
    return not may_change(method, template) or (
        found is not None and _role_of_write(method, found["rest"] or "") is not None
    )


def _role_of_write(method: str, rest: str) -> Role | None:
    return next((role for (taken, form), role in WRITES.items() if taken == method and _fits(form, rest)), None)


def _fits(form: str, rest: str) -> bool:
    parts, given = form.split("/"), rest.split("/")
    return len(parts) == len(given) and all(
        one == other or (_NAME.fullmatch(one) is not None and other != "")
        for one, other in zip(parts, given, strict=True)
    )
