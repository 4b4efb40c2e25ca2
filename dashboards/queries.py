"""PromQL of the panels, put together from the service's own catalogue of metrics."""

from __future__ import annotations

from typing import Final

from service.metrics import catalogue
from service.metrics.catalogue import Metric

CLUSTER: Final = 'cluster=~"$cluster"'
INTERVAL: Final = "$__rate_interval"
PREPARED: Final = 'state=~"PrepareCommit|PrepareAbort"'
OPEN: Final = 'state=~"Ongoing|PrepareCommit|PrepareAbort"'
CONFIRMED: Final = 'status="confirmed"'

# Replicas of the service read one store and tell the same: `max` takes each thing once, where `sum` would double it.


def selector(metric: Metric, *where: str, suffix: str = "") -> str:
    """`where`: matchers beside the cluster's."""
    return f"{metric.name}{suffix}{{{','.join((CLUSTER, *where))}}}"


def value(metric: Metric, *by: str, where: tuple[str, ...] = ()) -> str:
    """As it stands, by cluster and these labels."""
    return f"{_max(*by)} ({selector(metric, *where)})"


def total(metric: Metric, *by: str, where: tuple[str, ...] = ()) -> str:
    """The sum for a cluster of what is told by these labels."""
    return f"sum by (cluster) ({value(metric, *by, where=where)})"


def rate(metric: Metric, *by: str, where: tuple[str, ...] = (), over: str = INTERVAL) -> str:
    """Of a counter, in events per second."""
    return f"{_max(*by)} (rate({selector(metric, *where)}[{over}]))"


def increase(metric: Metric, *by: str, where: tuple[str, ...] = (), over: str = INTERVAL) -> str:
    """Of a counter, how many."""
    return f"{_max(*by)} (increase({selector(metric, *where)}[{over}]))"


def quantile(share: float, metric: Metric, *by: str) -> str:
    """Of a histogram."""
    buckets = f"{_max('le', *by)} (rate({selector(metric, suffix='_bucket')}[{INTERVAL}]))"
    return f"histogram_quantile({share}, {buckets})"


def buckets(metric: Metric, *by: str) -> str:
    """Of a histogram, for a heatmap: all clusters together. `by`: its labels."""
    grown = f"{_max('le', *by)} (increase({selector(metric, suffix='_bucket')}[{INTERVAL}]))"
    return f"sum by (le) ({grown})"


def or_zero(expr: str) -> str:
    """0 for each cluster that has no series of it, as long as the cluster is told about at all."""
    return f"({expr}) or 0 * {value(catalogue.TRANSACTIONAL_IDS)}"


def abort_share(over: str = INTERVAL) -> str:
    """Of the transactions that ended; nothing where none did."""
    aborted = rate(catalogue.COMPLETED, where=('outcome="abort"',), over=over)
    ended = f"sum by (cluster) ({rate(catalogue.COMPLETED, 'outcome', over=over)})"
    return f"{aborted} / ({ended} > 0)"


def lso_stands() -> str:
    """Seconds, by partition."""
    since = value(catalogue.PARTITION_LSO_LAST_ADVANCE, "topic", "partition")
    return f"time() - {since}"


def markers_missing() -> str:
    """Seconds since the oldest decision whose markers are not all written, by state."""
    return f"time() - ({value(catalogue.OLDEST_STATE_ENTRY, 'state', where=(PREPARED,))} > 0)"


def data_age() -> str:
    """Seconds, by source."""
    return f"time() - {value(catalogue.LAST_SUCCESS, 'source')}"


def confirmed(kind: str) -> str:
    """How many findings of that kind there are now."""
    return value(catalogue.FINDINGS, where=(f'kind="{kind}"', CONFIRMED))


def groups_waiting() -> str:
    """How many consumer groups, each once however many partitions it waits at."""
    return f"count by (cluster) ({value(catalogue.GROUP_BLOCKED, 'group')})"


def ours(expr: str) -> str:
    """Of what any process exports: only that of the service."""
    return f"{expr} and on (job, instance) {catalogue.UP.name}"


def _max(*by: str) -> str:
    return f"max by ({', '.join(('cluster', *by))})"
