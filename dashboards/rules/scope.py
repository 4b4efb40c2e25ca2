"""Adapts the rules to a Prometheus: to the names of its scrape jobs, the series to use, and the labels that distinguish
clusters of the same name in different environments."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from dashboards.rules.rule import CLUSTER, JOB
from service.metrics.catalogue import OF_CLUSTERS

_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_MATCHER: Final = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)(?:=~|!~|!=|=)"(?:[^"\\\n]|\\.)*"')
_GROUPING: Final = re.compile(r"\b(by|on) \(([^)]+)\)")
_SELECTOR: Final = re.compile(r"\b(up(?=\{)|cluster\w*:\w+:\w+|kafka_txn_\w+)(?:\{([^}]*)\})?")

_SERIES: Final = re.compile("_(bucket|count|sum)$")
"""The endings of the series of a histogram."""

_ABOUT_CLUSTERS: Final = {metric.name for metric in OF_CLUSTERS}


class Scope(NamedTuple):
    """The targets and series that the rules are about. `job`: pattern of the names of the service's scrape jobs, for
    `up`; `matchers`: added to every selector, such as `env="prod"`; `by`: further labels of targets by which all
    expressions group and match, besides those in `matchers`; `labels`: (name, value) that every alert gets."""

    job: str = JOB
    matchers: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()

    def check(self) -> None:
        """Raises ValueError for the first matcher, label or pattern that Prometheus would not accept."""
        for matcher in self.matchers:
            if not _MATCHER.fullmatch(matcher):
                raise ValueError(f'{matcher} is no matcher: write env="prod", env!="test" or env=~"a|b"')
        for name in (*self.by, *(name for name, _ in self.labels)):
            if not _LABEL.fullmatch(name):
                raise ValueError(f"{name} is no name of a label")
        try:
            re.compile(self.job)
        except re.error as error:
            raise ValueError(f"{self.job} is no pattern of job names: {error}") from None

    def fit(self, expr: str) -> str:
        """Returns the expression with the matchers in every selector, and the labels in every grouping and matching."""
        expr = _GROUPING.sub(self._group, _SELECTOR.sub(self._select, expr))
        quoted = self.job.replace("\\", "\\\\").replace('"', '\\"')
        return expr.replace(f'up{{job=~"{JOB}"', f'up{{job=~"{quoted}"')

    def _select(self, found: re.Match[str]) -> str:
        name = found[1]
        has_cluster = _SERIES.sub("", name) in _ABOUT_CLUSTERS or name in _ABOUT_CLUSTERS or ":" in name
        wanted = [one for one in self.matchers if has_cluster or _name(one) != CLUSTER]
        matchers = ",".join(part for part in (found[2], *wanted) if part)
        return f"{name}{{{matchers}}}" if matchers else name

    def _group(self, found: re.Match[str]) -> str:
        kept = [name for name in (*self.by, *map(_name, self.matchers)) if name != CLUSTER]
        return f"{found[1]} ({', '.join(dict.fromkeys((*found[2].split(', '), *kept)))})"


def _name(matcher: str) -> str:
    found = _MATCHER.fullmatch(matcher)
    assert found is not None, matcher
    return found[1]
