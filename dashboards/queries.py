"""Builds the PromQL of the panels from the service's catalogue of metrics."""

from __future__ import annotations

from typing import Final

from service.metrics import catalogue
from service.metrics.catalogue import Metric

CLUSTER: Final = 'cluster=~"$cluster"'
TARGET: Final = 'job=~"$job",namespace=~"$namespace"'
"""Matchers of the service's targets. The value of the variable `namespace` for "all" is `.*`, which also matches a
target without a namespace."""

INTERVAL: Final = "$__rate_interval"
PREPARED: Final = 'state=~"PrepareCommit|PrepareAbort"'
OPEN: Final = 'state=~"Ongoing|PrepareCommit|PrepareAbort"'
CONFIRMED: Final = 'status="confirmed"'

# Replicas of the service read one store and report the same values: `max` counts each once, `sum` would double it.


def selector(metric: Metric, *where: str, suffix: str = "") -> str:
    """Returns a selector of `metric`. `where`: matchers in addition to CLUSTER and TARGET."""
    return f"{metric.name}{suffix}{{{','.join((CLUSTER, TARGET, *where))}}}"


def value(metric: Metric, *by: str, where: tuple[str, ...] = ()) -> str:
    """Returns the expression for the present value, by cluster and the labels `by`."""
    return f"{_max(*by)} ({selector(metric, *where)})"


def total(metric: Metric, *by: str, where: tuple[str, ...] = ()) -> str:
    """Returns the expression for the sum, by cluster, of all values of `metric`. `by`: the labels that distinguish
    these values."""
    return f"sum by (cluster) ({value(metric, *by, where=where)})"


def rate(metric: Metric, *by: str, where: tuple[str, ...] = (), over: str = INTERVAL) -> str:
    """Returns the expression for the rate of a counter, in units (events, bytes) per second."""
    return f"{_max(*by)} (rate({selector(metric, *where)}[{over}]))"


def increase(metric: Metric, *by: str, where: tuple[str, ...] = (), over: str = INTERVAL) -> str:
    """Returns the expression for the increase of a counter within `over`, by cluster and the labels `by`."""
    return f"{_max(*by)} (increase({selector(metric, *where)}[{over}]))"


def quantile(share: float, metric: Metric, *by: str) -> str:
    """Returns the expression for the quantile `share` (from 0 to 1) of a histogram, by cluster and the labels `by`,
    over the last INTERVAL."""
    buckets = f"{_max('le', *by)} (rate({selector(metric, suffix='_bucket')}[{INTERVAL}]))"
    return f"histogram_quantile({share}, {buckets})"


def buckets(metric: Metric, *by: str) -> str:
    """Returns the expression for the buckets of a histogram, for a heatmap of all clusters together. `by`: labels of
    the histogram."""
    grown = f"{_max('le', *by)} (increase({selector(metric, suffix='_bucket')}[{INTERVAL}]))"
    return f"sum by (le) ({grown})"


def or_zero(expr: str) -> str:
    """Returns an expression with the values of `expr`, and 0 for each reported cluster without a series of `expr`. The
    series of `expr` must have no label but `cluster`."""
    return f"({expr}) or 0 * {value(catalogue.TRANSACTIONAL_IDS)}"


def abort_share(over: str = INTERVAL) -> str:
    """Returns the expression for the share of aborts among the transactions that ended. The share has no value while no
    transaction ends."""
    aborted = rate(catalogue.COMPLETED, where=('outcome="abort"',), over=over)
    ended = f"sum by (cluster) ({rate(catalogue.COMPLETED, 'outcome', over=over)})"
    return f"{aborted} / ({ended} > 0)"


def failed_share() -> str:
    """Returns the expression for the share of each application's ended transactions that failed. The share has no value
    while no transaction of the application ends."""
    failed = f'cause=~"{"|".join(catalogue.FAILED_CAUSES)}"'
    total = "sum by (cluster, application)"
    ended = rate(catalogue.APPLICATION_COMPLETED, "application", "outcome", "cause")
    failures = rate(catalogue.APPLICATION_COMPLETED, "application", "cause", where=(failed,))
    return f"{total} ({failures}) / ({total} ({ended}) > 0)"


def data_age() -> str:
    """Returns the expression for the age of the data in seconds, by source."""
    return f"time() - {value(catalogue.LAST_SUCCESS, 'source')}"


def groups_waiting() -> str:
    """Returns the expression for the number of blocked consumer groups. A group counts once, on however many partitions
    it is blocked."""
    return f"count by (cluster) ({value(catalogue.GROUP_BLOCKED, 'group')})"


def of_service(metric: Metric, *where: str, suffix: str = "") -> str:
    """Returns a selector of `metric` in all clusters. `where`: matchers in addition to those of the targets."""
    return f"{metric.name}{suffix}{{{','.join((TARGET, *where))}}}"


def ours(expr: str) -> str:
    """Returns `expr`, limited to the service's targets. Metrics that any process may export, such as the memory of a
    process, need this."""
    return f"{expr} and on (job, instance) {of_service(catalogue.UP)}"


def _max(*by: str) -> str:
    return f"max by ({', '.join(('cluster', *by))})"
