"""Adapts the rules to a Prometheus: to the names of its scrape jobs, the series to use, and the labels that distinguish
clusters of the same name in different environments."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from dashboards.expressions import UP, Grouping, Part, Selector, label_of, parts
from dashboards.rules.rule import CLUSTER, JOB

_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class Scope(NamedTuple):
    """The targets and series that the rules are about. `job`: pattern of the names of the service's scrape jobs, for
    `up`; `matchers`: added to every selector, such as `env="prod"` (a matcher of `cluster` only if the metric has this
    label); `by`: further labels of targets by which all expressions group and match, besides those in `matchers`;
    `labels`: (name, value) that every alert gets."""

    job: str = JOB
    matchers: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()

    def check(self) -> None:
        """Raises ValueError for the first matcher, label or pattern that is not valid."""
        for matcher in self.matchers:
            if label_of(matcher) is None:
                raise ValueError(f'{matcher} is not a matcher: write env="prod", env!="test" or env=~"a|b"')
        for name in (*self.by, *(name for name, _ in self.labels)):
            if not _LABEL.fullmatch(name):
                raise ValueError(f"{name} is not a valid label name")
        try:
            re.compile(self.job)
        except re.error as error:
            raise ValueError(f"{self.job} is not a valid pattern of job names: {error}") from None

    def fit(self, expr: str) -> str:
        """Returns the expression with `matchers` added to its selectors, and `up` selected by `job`. Adds `by`, and the
        labels in `matchers`, to its groupings (`by`) and matchings (`on`)."""
        return "".join(str(self._fit(part)) for part in parts(expr))

    def _fit(self, part: Part) -> Part:
        # the mixin does the same in mixin/fitting.libsonnet; a test compares both
        if isinstance(part, Selector):
            wanted = [matcher for matcher in self.matchers if part.has_cluster or label_of(matcher) != CLUSTER]
            own = (of_job(self.job),) if part.metric == UP else part.matchers
            return part._replace(matchers=(*own, *wanted))
        if isinstance(part, Grouping):
            names = (*self.by, *(label_of(matcher) or "" for matcher in self.matchers))
            kept = dict.fromkeys((*part.labels, *(name for name in names if name != CLUSTER)))
            return part._replace(labels=tuple(kept))
        return part


def of_job(pattern: str) -> str:
    """Returns the matcher of the scrape jobs whose names fit the pattern."""
    quoted = pattern.replace("\\", "\\\\").replace('"', '\\"')
    return f'job=~"{quoted}"'
