"""The names of monitoring: metrics with their labels and known values, alerts, recorded series, attributes of OTLP."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from service.domain.source_state import SourceName
from service.domain.transaction_log import states
from service.metrics.catalogue import OF_CLUSTERS, Metric
from service.metrics.exports import DropReason, Signal
from service.metrics.families import CAUSES, REASONS
from service.otlp import exporter, spans
from service.otlp.configuration import OWN_ATTRIBUTES
from tests.helpers.metrics_document import OURS
from tests.helpers.paths import ROOT

_RULES: Final = ROOT / "dashboards" / "rules" / "txnscope.rules.yml"
_ATTRIBUTE: Final = re.compile(r"(txnscope|messaging)\.[a-z_.]+")

_VALUES: Final[dict[str, Iterable[str]]] = {
    "state": states.NAMES.values(),
    "outcome": ("commit", "abort"),
    "cause": CAUSES,
    "reason": (*REASONS, *DropReason),
    "source": SourceName,
    "signal": Signal,
}


def sections() -> dict[str, list[str]]:
    of_clusters = [name for metric in OF_CLUSTERS for name in _names(metric, ("cluster", *metric.labels))]
    return {
        "metrics": of_clusters + [name for metric in OURS for name in _names(metric, metric.labels)],
        "values of labels": [f"{label} = {value}" for label, values in _VALUES.items() for value in values],
        "alerts": list(_alerts()),
        "OTLP attributes": [*OWN_ATTRIBUTES, *_attributes()],
        "OTLP service": [f"service.name = {exporter.SERVICE}"],
    }


def _names(metric: Metric, labels: Iterable[str]) -> Iterator[str]:
    yield f"{metric.name} {metric.kind}"
    yield from (f"{metric.name}{{{label}}}" for label in labels)


def _alerts() -> Iterator[str]:
    """Yields alerts with their severities, and recorded series, from the file that Prometheus reads."""
    groups: list[dict[str, Any]] = yaml.safe_load(_RULES.read_text("utf-8"))["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        if "record" in rule:
            yield f"series {rule['record']}"
        else:
            yield f"{rule['alert']} severity={rule['labels']['severity']}"


def _attributes() -> Iterator[str]:
    """Yields the attributes of spans: the texts in the module `spans` that have the form of an attribute."""
    for node in ast.walk(ast.parse(Path(spans.__file__).read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _ATTRIBUTE.fullmatch(node.value):
            yield node.value
