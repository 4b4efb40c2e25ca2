"""Compares the applications that the store has for transactional.ids with the applications that the clients'
configuration names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from service.domain.application_rules import UNASSIGNED, Assigned
from service.domain.applications import Framework
from service.store.schema import transactional_ids
from tests.helpers.waiting import wait_until
from tests.integration.application import Ingest

NAMED: Final = "applications"
"""Name of the property of a test's report that has a client's figures for the table in docs/applications.md."""


class Named(NamedTuple):
    """The ids of a client, grouped by whether their stored application is the true one.

    - `rightly`: ids with the true application.
    - `wrongly`: a mapping from each id with a wrong application to (stored application, true application).
    - `not_named`: ids without an application, although they were examined.
    - `not_examined`: ids that have not been examined yet.
    """

    rightly: frozenset[str]
    wrongly: Mapping[str, tuple[Assigned, Assigned]]
    not_named: frozenset[str]
    not_examined: frozenset[str]

    @property
    def figures(self) -> dict[str, int]:
        groups = {name: len(getattr(self, name)) for name in self._fields}
        return {"ids": sum(groups.values()), **groups}


def compare(rows: Iterable[Any], truth: Mapping[str, Assigned]) -> Named:
    """Compares the stored application of each id with the true application. `truth`: a mapping from prefix of ids to
    their true application. No id has two of the prefixes. Ids without any of them are left out. If the true application
    is UNASSIGNED, any stored application is wrong."""
    rightly, not_named, not_examined = set[str](), set[str](), set[str]()
    wrongly: dict[str, tuple[Assigned, Assigned]] = {}
    for row in rows:
        name = row.transactional_id.decode()
        true = next((assigned for prefix, assigned in truth.items() if name.startswith(prefix)), None)
        stored = Assigned(row.application, Framework(row.framework or Framework.UNKNOWN))
        if true is None:
            continue
        if row.is_examined is None:
            not_examined.add(name)
        elif stored == UNASSIGNED:
            not_named.add(name)
        elif stored == true:
            rightly.add(name)
        else:
            wrongly[name] = stored, true
    return Named(frozenset(rightly), wrongly, frozenset(not_named), frozenset(not_examined))


def wait_until_named(app: Ingest, truth: Mapping[str, Assigned]) -> Named:
    """Waits until each id has been examined, and until the store has some application for each id that truly has one.
    Returns the result of `compare`."""
    nameless = tuple(prefix for prefix, true in truth.items() if true == UNASSIGNED)

    def compared() -> Named:
        return compare(app.rows(transactional_ids), truth)

    return wait_until(
        compared,
        lambda named: not named.not_examined and all(name.startswith(nameless) for name in named.not_named),
        f"the applications of all ids that begin with one of {sorted(truth)} ({app.log})",
    )
