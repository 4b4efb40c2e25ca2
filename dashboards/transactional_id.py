"""The dashboard of one transactional.id: how long its transaction is open, where it hangs, and which groups are blocked
there. For comparison, it has the cluster's other transactions."""

from __future__ import annotations

from typing import Final

from dashboards import shared as at
from dashboards.frame import Board, typed
from dashboards.links import (
    Link,
    finding_page,
    of_row,
    of_series,
    one_id,
    page,
    partition_page,
    transaction_page,
)
from dashboards.panels import Column, Query, big, lines, rows, steps
from dashboards.queries import OPEN, or_zero, quantile, rate, value
from service.metrics import catalogue

_THIS: Final = 'transactional_id="$transactional_id"'
_PLACE: Final = ("topic", "partition")
_OPEN_FOR: Final = f"time() - {value(catalogue.TOP_OPEN, 'transactional_id', where=(_THIS,))}"
_HANGS: Final = value(catalogue.HANGING_INFO, *_PLACE, where=(_THIS,))
_OPEN_STEPS: Final = steps(at.OPEN_LONG_S, at.OPEN_TOO_LONG_S)


def _there(metric: catalogue.Metric, *more: str) -> str:
    """Returns the expression for `metric`, limited to the partitions where the dashboard's id hangs."""
    return f"{value(metric, *more, *_PLACE)} and on (cluster, topic, partition) {_HANGS}"


def _typed_id_page(path: str) -> Link:
    return page(of_row, f"{path}=${{transactional_id:percentencode}}")


_ID: Final = [
    big(
        "Open for",
        "Age of the id's open transaction, if it is among the 20 open longest in the cluster. The id's page always"
        " has the age.",
        _OPEN_FOR,
        transaction_page(of_series),
        unit="s",
        steps=_OPEN_STEPS,
        width=6,
        empty=True,
    ),
    big(
        "Partitions it hangs on",
        "Number of partitions where no coordinator is set to end the id's transaction (confirmed). Open the finding"
        " below for the command.",
        or_zero(f"count by (cluster) ({_HANGS})"),
        page(of_series),
        steps=steps(red=at.ANY),
        width=6,
        alert="KafkaTransactionHanging",
    ),
    big(
        "Offsets out of reach",
        "Offsets between the last stable offset and the high watermark of the partitions where the id hangs.",
        or_zero(f"sum by (cluster) ({_there(catalogue.PARTITION_LSO_LAG)})"),
        page(of_series, "/partitions"),
        unit="short",
        width=6,
    ),
    big(
        "Groups waiting there",
        "Consumer groups that wait, or soon will wait, at partitions where the id hangs.",
        or_zero(f"count by (cluster) (count by (cluster, group) ({_there(catalogue.GROUP_BLOCKED, 'group')}))"),
        page(of_series, "/groups"),
        steps=steps(orange=at.ANY),
        width=6,
        alert="KafkaConsumerGroupBlocked",
    ),
    rows(
        "Its page",
        "The page of this id in each cluster: its state now, its timeline with the cause of every end, rates, and"
        " other users of its producer id. Type or paste the id above; any part of an id finds the id in the list.",
        [value(catalogue.TRANSACTIONAL_IDS)],
        [
            Column(
                "cluster",
                links=(
                    _typed_id_page("/transaction?id")._replace(title="This id in txnscope"),
                    _typed_id_page("/transactions?q")._replace(title="Ids with this in their name"),
                ),
            ),
            Column("Value", "ids of the cluster", "none"),
        ],
        worst="ids of the cluster",
        width=8,
    ),
    lines(
        "How long it was open",
        "A sawtooth is normal work. A line that rises past the threshold is a transaction that its application forgot,"
        " or cannot end.",
        [Query(_OPEN_FOR)],
        transaction_page(of_series),
        unit="s",
        steps=_OPEN_STEPS,
        width=16,
        empty=True,
    ),
    rows(
        "Where it hangs",
        "The partitions where the id's transaction hangs. Open the finding for the decision about its records and the"
        " command that ends it.",
        [value(catalogue.HANGING_INFO, "finding", *_PLACE, "owner", where=(_THIS,))],
        [
            Column("cluster"),
            Column("finding", links=(finding_page(of_row),)),
            Column("topic"),
            Column("partition", links=(partition_page(of_row),)),
            Column("owner"),
        ],
        worst="topic",
        empty=True,
    ),
]

_AROUND: Final = [
    rows(
        "Open longest",
        "The 20 transactions of each cluster that are open longest, to compare with this id; choose one to see it.",
        [f"time() - {value(catalogue.TOP_OPEN, 'transactional_id')}"],
        [
            Column("cluster"),
            Column("transactional_id", links=(one_id(of_row), transaction_page(of_row))),
            Column("Value", "open for", "s", _OPEN_STEPS),
        ],
        worst="open for",
        width=12,
        empty=True,
    ),
    lines(
        "Open transactions of the cluster",
        "Number of open transactions of the cluster, by state. If the transactions of all applications pile up, look at"
        " brokers and coordinators rather than at this application.",
        [Query(value(catalogue.TRANSACTIONS, "state", where=(OPEN,)), "{{cluster}} {{state}}")],
        page(of_series, "/transactions?sort=age"),
        unit="short",
    ),
    lines(
        "Aborts of the cluster",
        "Aborts per second in the cluster, by cause. The causes of this id's own aborts are in its timeline.",
        [Query(rate(catalogue.ABORTS, "cause"), "{{cluster}} {{cause}}")],
        page(of_series),
        unit="ops",
        stacked=True,
    ),
    lines(
        "How long transactions of the cluster are open",
        "Time for which transactions of the cluster are open (99th percentile, by outcome), to compare with this id."
        " Empty if no transaction ended.",
        [Query(quantile(0.99, catalogue.DURATION, "outcome"), "{{cluster}} {{outcome}}")],
        unit="s",
        steps=_OPEN_STEPS,
        empty=True,
    ),
]

BOARD: Final = Board(
    "transactional-id",
    "One transactional.id",
    "Prometheus has series of a single id only while the id hangs or is among the 20 open longest. The page of an id"
    " in txnscope has all its data.",
    [("This id", _ID), ("Around it", _AROUND)],
    [typed("transactional_id", "", "One transactional.id, exactly")],
)
