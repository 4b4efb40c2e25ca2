"""Tests that every kind of finding has a catalogue entry and a rule that observes it, and that every alert of an entry
has a runbook. Only the catalogue may list more than a few kinds."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from dashboards.rules.build import GROUPS
from dashboards.rules.rule import Alert
from service.domain.findings import catalogue
from service.domain.findings.catalogue import CATALOGUE, alert_of
from service.domain.findings.finding import Facts
from service.domain.findings.kinds import Kind, Severity
from service.domain.partitions.open_entries import RelationKind
from tests.helpers.paths import ROOT

MODULES: Final = sorted(path for top in ("service", "spark_jobs", "dashboards") for path in (ROOT / top).rglob("*.py"))
FEW: Final = 4
"""The largest number of kinds in one collection (dict, set, tuple or list) outside of the catalogue: the kinds of one
rule, or of one page."""


def kinds_in(tree: ast.AST) -> set[str]:
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in Kind.__members__)
    return {node.attr for node in found if ast.unparse(node.value) in ("Kind", "kinds.Kind")}


def collections_of(module: Path) -> Iterator[set[str]]:
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Dict):
            yield set().union(*(kinds_in(key) for key in node.keys if key is not None))
        elif isinstance(node, ast.Set | ast.Tuple | ast.List):
            yield set().union(*(kinds_in(expr) for expr in node.elts))


def test_every_kind_has_an_entry() -> None:
    assert set(CATALOGUE) == set(Kind)
    assert all(entry.word and entry.outlook.text and entry.severities for entry in CATALOGUE.values())


def test_only_the_catalogue_lists_kinds() -> None:
    lists = {
        f"{module.relative_to(ROOT)}: {', '.join(sorted(found))}"
        for module in MODULES
        if module != Path(catalogue.__file__)
        for found in collections_of(module)
        if len(found) > FEW
    }
    assert lists == set()


def test_each_relation_is_reported_by_one_kind() -> None:
    assert set(catalogue.REPORTING) == set(RelationKind) - {RelationKind.UNKNOWN}


def test_each_alert_fires_and_has_its_runbook() -> None:
    alerts = {rule.name for group in GROUPS for rule in group.rules if isinstance(rule, Alert)}
    named = {entry.alert for entry in CATALOGUE.values() if entry.alert is not None}
    assert named <= alerts
    assert {name for name in named if not (ROOT / "docs" / "runbooks" / f"{name}.md").is_file()} == set()


def test_the_alert_of_a_kind_without_one_is_an_error() -> None:
    with pytest.raises(ValueError, match="expired_transactional_id has no alert"):
        alert_of(Kind.EXPIRED)


def observations() -> Iterator[tuple[Kind, ast.expr]]:
    """Yields (kind, source expression of its severity) for each kind of every Observation that a rule creates directly
    or with `about_id`."""
    for module in sorted((ROOT / "service" / "domain" / "findings").glob("*.py")):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Observation", "about_id"):
                named = {one.arg: one.value for one in node.keywords}
                for kind in kinds_in(named["kind"]):
                    yield Kind[kind], named["severity"]


def test_rules_observe_every_kind_with_the_severities_of_its_entry() -> None:
    seen: dict[Kind, set[Severity]] = {kind: set() for kind in Kind}
    for kind, severity in observations():
        found = {
            Severity[node.attr]
            for node in ast.walk(severity)
            if isinstance(node, ast.Attribute) and node.attr in Severity.__members__
        }
        seen[kind] |= found or set(Severity)  # the severity is computed, so any may occur
    assert {kind for kind, found in seen.items() if not found} == set()
    assert {kind: found for kind, found in seen.items() if not found <= set(CATALOGUE[kind].severities)} == {}


def test_every_type_of_facts_belongs_to_one_kind() -> None:
    listed = [cls.__name__ for entry in CATALOGUE.values() for cls in entry.facts]
    assert len(listed) == len(set(listed))
    assert set(listed) == set(types_of(Facts)) - {"SharedFacts", "UnreadableFacts", "TrialFacts"}


def types_of(cls: type[object]) -> Iterator[str]:
    for one in cls.__subclasses__():
        yield one.__name__
        yield from types_of(one)
