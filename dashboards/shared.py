"""Panels that more than one dashboard has."""

from __future__ import annotations

from dashboards import thresholds as at
from dashboards.links import PARTITIONS, board, finding_page, of_row, of_series, one_id, page, partition_page
from dashboards.panels import Column, Panel, big, means, rows, steps
from dashboards.queries import groups_waiting, lso_stands, or_zero, value
from service.metrics import catalogue


def hanging() -> Panel:
    return big(
        "Hanging transactions",
        means(
            "Open on a partition, and no coordinator will ever end them: read_committed consumers stop there. They"
            " will not heal by themselves. Open the finding: it has the partition, the decision, and the command that"
            " ends the transaction.",
            "KafkaTransactionHanging",
        ),
        "none",
        value(catalogue.HANGING),
        page(of_series),
        steps=steps(red=at.HANGING_PAGE),
    )


def longest_lso() -> Panel:
    return big(
        "Longest stalled LSO",
        means(
            "Time for which the longest stalled last stable offset has not moved although its log grew. Orange: longer"
            " than the default transaction.timeout.ms. Red: longer than the brokers' default maximum, so no ordinary"
            " transaction explains it. Open the partition to see the blocker.",
            "KafkaLastStableOffsetStuck",
        ),
        "s",
        or_zero(f"max by (cluster) ({lso_stands()})"),
        page(of_series, "/partitions"),
        board(PARTITIONS, "Partitions and LSO", of_series),
        steps=steps(at.LSO_STANDS_S, at.LSO_STUCK_S),
    )


def blocked() -> Panel:
    return big(
        "Partitions blocked",
        "Their last stable offset is stalled below the high watermark by an open transaction. Where transactions run,"
        " some come and go all the time; watch those that stay.",
        "none",
        value(catalogue.PARTITIONS_BLOCKED),
        page(of_series, "/partitions"),
        board(PARTITIONS, "Partitions and LSO", of_series),
    )


def waiting() -> Panel:
    return big(
        "Groups waiting",
        means(
            "Consumer groups that wait at an open transaction, or will reach it. The list has the offset that each of"
            " them cannot pass; the cause is the transaction, not the group: restarting it does not help.",
            "KafkaConsumerGroupBlocked",
        ),
        "none",
        or_zero(groups_waiting()),
        page(of_series, "/groups"),
        steps=steps(orange=at.BLOCKED_GROUPS),
    )


def not_judged() -> Panel:
    return big(
        "Partitions not judged",
        means(
            "Watched, but something is missing to judge their open transactions: a leader, a permission, the"
            " transaction log. No verdict is not the same as nothing hanging; the page says what is missing.",
            "KafkaTxnPartitionsUnjudged",
        ),
        "none",
        value(catalogue.PARTITIONS, where=('judged="no"',)),
        page(of_series, "/partitions"),
        steps=steps(orange=at.UNJUDGED),
    )


def what_hangs(width: int, *where: str) -> Panel:
    """Returns the table of hanging transactions. `where`: matchers in addition to the cluster's."""
    return rows(
        "Hanging transactions",
        means(
            "Each confirmed hanging transaction, the 50 longest. Open the finding for evidence, the decision and the"
            " command. Without a name, the producer id belongs to no id any more.",
            empty=True,
        ),
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
    )
