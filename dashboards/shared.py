"""Panels that more than one dashboard has, and the thresholds of panels and alerts.

If the service has a threshold for the same thing, a test checks that the service's value equals the value here.
"""

from __future__ import annotations

from typing import Final

from dashboards.links import PARTITIONS, board, finding_page, of_row, of_series, one_id, page, partition_page
from dashboards.panels import Column, Panel, big, rows, steps
from dashboards.queries import groups_waiting, or_zero, value
from service.metrics import catalogue

SERVICE: Final = "txnscope"
"""Value of the label `service` of every alert. Dashboards select alerts by this label, and draw them as annotations."""

ANY: Final = 1
"""Threshold for things that are reported even if there is only one, such as a hanging transaction or a record that
cannot be decoded."""

LSO_STANDS_S: Final = 60
LSO_STUCK_S: Final = 900
"""Times (s) without an advance of the LSO. LSO_STANDS_S is Kafka's default transaction.timeout.ms, LSO_STUCK_S the
brokers' default transaction.max.timeout.ms."""

PREPARE_SLOW_S: Final = 10
PREPARE_STUCK_S: Final = 60
"""Times (s) since the decision of a transaction whose markers are not all written. PREPARE_SLOW_S is a warning,
PREPARE_STUCK_S critical. Markers normally take milliseconds."""

OPEN_LONG_S: Final = 60
OPEN_TOO_LONG_S: Final = 900
"""Ages (s) of an open transaction. OPEN_LONG_S is Kafka's default transaction.timeout.ms, OPEN_TOO_LONG_S the brokers'
default transaction.max.timeout.ms."""

ABORT_BUDGET: Final = 0.01
"""Share of transactions that may be aborted within 30 days: the budget."""

ABORT_FAST_BURN: Final = 14.4
ABORT_SLOW_BURN: Final = 6.0
"""Multiples of ABORT_BUDGET. At a share ABORT_FAST_BURN times the budget (measured over 1h and 5m), the budget of 30
days is spent in two days; at ABORT_SLOW_BURN times (over 6h and 30m), in five days."""

ABORT_FAST: Final = round(ABORT_FAST_BURN * ABORT_BUDGET, 6)
ABORT_SLOW: Final = round(ABORT_SLOW_BURN * ABORT_BUDGET, 6)
"""Shares of aborted transactions above which the alerts fire: ABORT_FAST over 1h and 5m, ABORT_SLOW over 6h and 30m."""

FENCED_WINDOW: Final = "2m"
FENCED_MANY: Final = 4
"""FENCED_MANY: the number of producers fenced within FENCED_WINDOW above which the condition of the alert about fences
holds. The alert fires only if the condition holds for longer than the window, because a restart, rebalance or
reconfiguration of an application fences many producers, but only once."""

PRODUCER_IDS_WINDOW: Final = "15m"
PRODUCER_IDS_PER_S: Final = 1.0
"""Condition of the alert about new producer ids: transactional.ids get more than PRODUCER_IDS_PER_S per second, over
PRODUCER_IDS_WINDOW. The cause is applications that make up a transactional.id at every start, or Apache Flink jobs that
number their ids by checkpoint."""

EXPIRING_WITHIN: Final = "24h"
"""A value of the label `within` of the metric EXPIRING (`service.metrics.catalogue`), which counts the unused ids that
expire within this time."""

EPOCH_WARN: Final = 30_000
EPOCH_LAST: Final = 32_766
"""Epochs under the old protocol (label protocol="1"). Above EPOCH_WARN, dashboards and alerts warn; EPOCH_LAST is the
last epoch. Under the new protocol, reaching the last epoch is normal: the id gets a new producer id."""

STALE_WARN_S: Final = 30
STALE_S: Final = 120
"""Ages (s) of a source's data in the store. From STALE_WARN_S on, only the last known state is shown; from STALE_S on,
no verdict is shown."""

COVERAGE_LEAST: Final = 1.0
"""Lowest normal share of a source's partitions that answer. Below this share, some partitions are not judged."""

LAG_RECORDS: Final = 10_000
LAG_WINDOW: Final = "10m"
"""Condition of the alert KafkaTxnPipelineLagging: more than LAG_RECORDS offsets of a source are not read yet, and their
number grew over LAG_WINDOW."""

CANARY_FAILS_FOR: Final = "30s"
"""Time for which the canary's transactions at a coordinator have to fail before the alert fires: three rounds, 10 s
apart. One failed round is normal when a coordinator moves to another broker."""

CANARY_SLOW_S: Final = 1.0
CANARY_WINDOW: Final = "10m"
"""CANARY_SLOW_S: limit for the time (s) from the begin of the canary's transaction until its commit is acknowledged,
normally some tens of milliseconds. CANARY_WINDOW: the window over which this time is measured."""

DECODE_WINDOW: Final = "15m"
"""The window in which records that could not be decoded are counted."""

SCRAPE_SLOW_S: Final = 0.25
"""Time (s). If rendering the metrics takes longer, the service counts as slow. Prometheus gives up after its
scrape_timeout (10 s by default)."""


def hanging() -> Panel:
    return big(
        "Hanging transactions",
        "Transactions that are open on a partition, and that no coordinator is set to end: read_committed consumers"
        " stop there. The finding has the partition, the decision, and the command that ends the transaction, where"
        " one is proven to be right.",
        value(catalogue.HANGING),
        page(of_series),
        steps=steps(red=ANY),
        alert="KafkaTransactionHanging",
    )


def longest_lso() -> Panel:
    return big(
        "Longest stalled LSO",
        "Time for which the longest stalled last stable offset has not moved although its log grew. Orange: longer"
        " than the default transaction.timeout.ms. Red: longer than the brokers' default maximum, so no ordinary"
        " transaction explains it. Open the partition to see the blocker.",
        or_zero(f"max by (cluster) (time() - {value(catalogue.PARTITION_LSO_LAST_ADVANCE, 'topic', 'partition')})"),
        page(of_series, "/partitions"),
        board(PARTITIONS, "Partitions and LSO", of_series),
        unit="s",
        steps=steps(LSO_STANDS_S, LSO_STUCK_S),
        alert="KafkaLastStableOffsetStuck",
    )


def blocked() -> Panel:
    return big(
        "Partitions blocked",
        "Partitions with a last stable offset that an open transaction keeps below the high watermark. Some come and"
        " go all the time; watch those that stay.",
        value(catalogue.PARTITIONS_BLOCKED),
        page(of_series, "/partitions"),
        board(PARTITIONS, "Partitions and LSO", of_series),
    )


def waiting() -> Panel:
    return big(
        "Groups waiting",
        "Consumer groups that wait at an open transaction, or will reach it. The list has the offset that each group"
        " cannot pass. The cause is the transaction, not the group: restarting the group does not help.",
        or_zero(groups_waiting()),
        page(of_series, "/groups"),
        steps=steps(orange=ANY),
        alert="KafkaConsumerGroupBlocked",
    )


def not_judged() -> Panel:
    return big(
        "Partitions not judged",
        "Watched partitions whose open transactions cannot be judged: a leader, a permission or the transaction log is"
        " missing, and a transaction may hang there unseen. The page of the partitions in txnscope says what is"
        " missing.",
        value(catalogue.PARTITIONS, where=('judged="no"',)),
        page(of_series, "/partitions"),
        steps=steps(orange=ANY),
        alert="KafkaTxnPartitionsUnjudged",
    )


def what_hangs(width: int, *where: str) -> Panel:
    """Returns the table of hanging transactions. `where`: matchers in addition to those of clusters and targets."""
    return rows(
        "Hanging transactions",
        "The 50 confirmed hanging transactions that hang longest. Open the finding for evidence, the decision and the"
        " command. A row has no transactional.id if none is known for its producer id.",
        [value(catalogue.HANGING_INFO, "finding", "topic", "partition", "transactional_id", "owner", where=where)],
        [
            Column("cluster"),
            Column("finding", links=(finding_page(of_row),)),
            Column("topic"),
            Column("partition", links=(partition_page(of_row),)),
            Column("transactional_id", links=(one_id(of_row),)),
            Column("owner"),
        ],
        worst="topic",
        width=width,
        empty=True,
    )
