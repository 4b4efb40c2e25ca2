"""Builds the rule file for Prometheus, and a PrometheusRule of the Prometheus Operator with the same rules."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import yaml

from dashboards.rules import (
    aborts,
    applications,
    canary,
    hanging,
    partitions,
    pipeline,
    producers,
    service,
    transactions,
)
from dashboards.rules.rule import Alert, Group, Links
from dashboards.rules.scope import Scope

RULES: Final = "txnscope.rules.yml"
PROMETHEUS_RULE: Final = "txnscope.prometheusrule.yaml"

GROUPS: Final[tuple[Group, ...]] = (
    aborts.RECORDING_GROUP,
    applications.RECORDING_GROUP,
    hanging.GROUP,
    partitions.GROUP,
    transactions.GROUP,
    aborts.GROUP,
    applications.GROUP,
    producers.GROUP,
    canary.GROUP,
    pipeline.GROUP,
    service.GROUP,
)

EVERYWHERE: Final = Scope()

_ONE_LINE: Final = 10_000
"""A line width so large that YAML folds no line. YAML would otherwise fold URLs as well, because their templates
contain spaces; a folded URL is hard to read."""

_HEAD: Final = "# Made by `python -m dashboards.rules`: change dashboards/rules/*.py, not this file.\n"


def alerts() -> list[Alert]:
    """Returns every alerting rule, in the order of the file; a name may occur more than once."""
    return [rule for group in GROUPS for rule in group.rules if isinstance(rule, Alert)]


def documents(links: Links, scope: Scope = EVERYWHERE) -> dict[str, dict[str, Any]]:
    """Returns the content of each file before it is written as YAML, keyed by file name."""
    spec = {"groups": [group.render(links, scope.fit, dict(scope.labels)) for group in GROUPS]}
    wrapped = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "txnscope", "labels": {"app.kubernetes.io/name": "txnscope"}},
        "spec": spec,
    }
    return {RULES: spec, PROMETHEUS_RULE: wrapped}


def files(links: Links, scope: Scope = EVERYWHERE) -> dict[str, str]:
    """Returns the text of each file, keyed by file name."""
    return {
        name: _HEAD + yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_ONE_LINE)
        for name, document in documents(links, scope).items()
    }


class _Dumper(yaml.SafeDumper):
    """A YAML dumper that keeps the lines of an expression and writes no references (aliases)."""

    def ignore_aliases(self, _: Any) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.Node:
        style = "|" if "\n" in text else None
        return self.represent_scalar("tag:yaml.org,2002:str", str(text), style=style)


_Dumper.add_representer(str, _Dumper.represent_text)
_Dumper.add_multi_representer(StrEnum, _Dumper.represent_text)


def save(made: Mapping[str, str], folder: Path, module: str, *, check: bool) -> int:
    """Writes the files into the folder, or with `check` lists on stderr the files that differ or are missing. Returns
    the exit code: 1 if `check` found such a file, otherwise 0. `made`: contents, keyed by file name; `module`: the
    module to run to renew the files."""
    differ = False
    for name, text in made.items():
        path = folder / name
        if not check:
            path.write_text(text, "utf-8")
        elif not path.exists() or path.read_text("utf-8") != text:
            differ = True
            sys.stderr.write(f"{path} differs from what {module} makes: run `python -m {module}`\n")
    return 1 if differ else 0
