"""Divides a PromQL expression into parts. Selectors, and the labels by which the expression groups and matches, are
parts of their own, because they differ from one Prometheus to another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from service.metrics.catalogue import OF_CLUSTERS

UP: Final = "up"
"""The series that Prometheus itself writes for each scraped target. It has only labels of the target, and none that the
service sets, such as `cluster`."""

_MATCHER: Final = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)(?:=~|!~|!=|=)"(?:[^"\\\n]|\\.)*"')
_PART: Final = re.compile(
    r"\b(?P<how>by|on) \((?P<names>[^)]+)\)"
    rf"|\b(?P<metric>{UP}(?={{)|ALERTS(?={{)|cluster\w*:\w+:\w+|(?:kafka_txn|http)_\w+)(?:{{(?P<matchers>[^}}]*)}})?"
)

_SERIES: Final = re.compile("_(bucket|count|sum)$")
"""Matches the suffix in the names of a histogram's series."""

_ABOUT_CLUSTERS: Final = {metric.name for metric in OF_CLUSTERS}


class Selector(NamedTuple):
    """A selector of series, for example `up{job="a"}`. Its text has no braces if there are no matchers."""

    metric: str
    matchers: tuple[str, ...] = ()

    @property
    def has_cluster(self) -> bool:
        """True if all series of the metric have the label of the Kafka cluster. These are the service's metrics about
        clusters, and series recorded from them."""
        return _SERIES.sub("", self.metric) in _ABOUT_CLUSTERS or self.metric in _ABOUT_CLUSTERS or ":" in self.metric

    def __str__(self) -> str:
        return f"{self.metric}{{{','.join(self.matchers)}}}" if self.matchers else self.metric


class Grouping(NamedTuple):
    """The labels by which an expression groups (`how` is "by") or matches (`how` is "on")."""

    how: str
    labels: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.how} ({', '.join(self.labels)})"


Part = str | Selector | Grouping


def parts(expr: str) -> Iterator[Part]:
    """Yields the parts of the expression in order. Their texts, joined, are the expression."""
    end = 0
    for found in _PART.finditer(expr):
        if found.start() > end:
            yield expr[end : found.start()]
        if found["how"]:
            yield Grouping(found["how"], tuple(found["names"].split(", ")))
        else:
            yield Selector(found["metric"], tuple(match[0] for match in _MATCHER.finditer(found["matchers"] or "")))
        end = found.end()
    if end < len(expr):
        yield expr[end:]


def label_of(matcher: str) -> str | None:
    """Returns the label of a matcher such as `env="prod"`. Returns None unless the text is a label, an operator and a
    value in double quotes, without spaces between them."""
    found = _MATCHER.fullmatch(matcher)
    return found[1] if found else None
