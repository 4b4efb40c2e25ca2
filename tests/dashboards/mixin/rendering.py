"""Renders the mixin as its users do, with Google's jsonnet."""

from __future__ import annotations

import json
from typing import Any, Final

import _jsonnet

from dashboards.mixin.build import FOLDER

Json = dict[str, Any]

MIXIN: Final = FOLDER.parent / "mixin.libsonnet"


def boards(**config: object) -> dict[str, Json]:
    """Returns the dashboards, keyed by file name, as rendered with `config` as `_config.txnscope`. Raises RuntimeError
    with jsonnet's message if rendering fails."""
    found: dict[str, Json] = _rendered("m.grafanaDashboards", config)
    return found


def groups(**config: object) -> list[Json]:
    """Returns the groups of rules, recording rules first. Takes the same arguments as `boards`, and raises the same
    errors."""
    found: list[Json] = _rendered("m.prometheusRules.groups + m.prometheusAlerts.groups", config)
    return found


def alerts_of(groups: list[Json]) -> list[Json]:
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def evaluate(text: str) -> Any:
    """Returns the value of the jsonnet text. Imports are searched in the folder of the mixin."""
    return json.loads(_jsonnet.evaluate_snippet("a test", text, jpathdir=[str(MIXIN.parent)]))


def _rendered(part: str, config: dict[str, object]) -> Any:
    given = f"{{ _config+:: {{ txnscope+: {json.dumps(config)} }} }}"
    return evaluate(f"local m = (import {json.dumps(MIXIN.name)}) + {given}; {part}")
