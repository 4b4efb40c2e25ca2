"""Parts of expressions, checked against the catalogue of metrics while they are built."""

from __future__ import annotations

from service.metrics.catalogue import Metric

CLUSTER = "cluster"


def pick(metric: Metric, **labels: str | tuple[str, ...]) -> str:
    """Returns a selector; several values of a label are alternatives. Raises ValueError for a label that the metric
    does not have."""
    if unknown := labels.keys() - {CLUSTER, *metric.labels}:
        raise ValueError(f"{metric.name} has no label {', '.join(sorted(unknown))}")
    matchers = [
        f'{name}="{value}"' if isinstance(value, str) else f'{name}=~"{"|".join(value)}"'
        for name, value in labels.items()
    ]
    return f"{metric.name}{{{','.join(matchers)}}}" if matchers else metric.name


def most(selector: str, *by: str) -> str:
    """Returns one value for each cluster and the labels `by`, however many services report it from one store."""
    return f"max by ({', '.join((CLUSTER, *by))}) ({selector})"


def grown(metric: Metric, window: str, *by: str, **labels: str | tuple[str, ...]) -> str:
    """Returns the increase of a counter of the store in the window. All services report the same counter, so it is
    never added up."""
    return most(f"increase({pick(metric, **labels)}[{window}])", *by)
