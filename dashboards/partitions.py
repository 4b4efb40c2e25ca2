"""The dashboard of partitions and their LSO: where readers stop, since when, and which groups are blocked there."""

from __future__ import annotations

from typing import Final

from dashboards import shared as at
from dashboards.frame import Board, of_label
from dashboards.links import of_row, of_series, page, partition_page
from dashboards.panels import Column, Query, big, density, lines, rows, steps
from dashboards.queries import buckets, groups_waiting, increase, or_zero, selector, value
from dashboards.shared import blocked, hanging, longest_lso, not_judged, waiting, what_hangs
from service.metrics import catalogue

_TOPIC: Final = 'topic=~"$topic"'
_PLACE: Final = ("topic", "partition")
_MOST: Final = 10
"""Maximum number of partitions that a panel of lines shows for each point in time: the worst ones at that time."""


def _of(metric: catalogue.Metric) -> str:
    return value(metric, *_PLACE, where=(_TOPIC,))


def _where_most_is_out_of_reach(metric: catalogue.Metric) -> str:
    most = f"topk({_MOST}, {_of(catalogue.PARTITION_LSO_LAG)})"
    return f"{_of(metric)} and on (cluster, topic, partition) {most}"


_STANDS: Final = f"time() - {_of(catalogue.PARTITION_LSO_LAST_ADVANCE)}"
_PARTITION: Final = "{{cluster}} {{topic}}-{{partition}}"

_NOW: Final = [
    blocked(),
    longest_lso(),
    big(
        "Offsets out of reach",
        "Offsets between the last stable offset and the high watermark, over all blocked partitions. read_committed"
        " consumers cannot see the records at these offsets yet.",
        or_zero(f"sum by (cluster) ({value(catalogue.PARTITION_LSO_LAG, *_PLACE)})"),
        page(of_series, "/partitions"),
        unit="short",
    ),
    hanging(),
    waiting(),
    not_judged(),
]

_STANDING: Final = [
    rows(
        "Stalled partitions",
        "The longest stall comes first. The partition's page shows the blocker, the blocker's owner, and whether"
        " and when the blocker ends by itself.",
        [_STANDS, *(_of(metric) for metric in (catalogue.PARTITION_LSO_LAG, catalogue.PARTITION_LSO))],
        [
            Column("cluster"),
            Column("topic"),
            Column("partition", links=(partition_page(of_row),)),
            Column("Value #A", "stalled for", "s", steps(at.LSO_STANDS_S, at.LSO_STUCK_S)),
            Column("Value #B", "offsets out of reach", "none"),
            Column("Value #C", "last stable offset", "none"),
        ],
        worst="stalled for",
        width=14,
        alert="KafkaLastStableOffsetStuck",
        empty=True,
    ),
    rows(
        "Groups waiting",
        "Consumer groups, and the partitions where they stop. The groups continue by themselves once the transaction"
        " ends; restarting them does not help.",
        [value(catalogue.GROUP_BLOCKED, "group", *_PLACE, where=(_TOPIC,))],
        [
            Column("cluster", links=(page(of_row, "/groups"),)),
            Column("group"),
            Column("topic"),
            Column("partition", links=(partition_page(of_row),)),
        ],
        worst="group",
        width=10,
        empty=True,
    ),
    lines(
        "How long LSOs are stalled",
        f"The {_MOST} longest stalls. A sawtooth is a producer at work; a line that only rises is a transaction that"
        " does not end.",
        [Query(f"topk({_MOST}, {_STANDS})", _PARTITION)],
        partition_page(of_series),
        unit="s",
        steps=steps(at.LSO_STANDS_S, at.LSO_STUCK_S),
        alert="KafkaLastStableOffsetStuck",
        empty=True,
    ),
    lines(
        "Offsets out of reach",
        f"Offsets between the last stable offset and the high watermark, for the {_MOST} partitions where"
        " their number is highest. The number grows while producers write records that readers cannot see yet.",
        [Query(f"topk({_MOST}, {_of(catalogue.PARTITION_LSO_LAG)})", _PARTITION)],
        partition_page(of_series),
        unit="short",
        empty=True,
    ),
    lines(
        "Last stable offset and high watermark",
        f"Both offsets of the {_MOST} partitions where they differ most. The lower line of a pair is where readers"
        " stop.",
        [
            Query(_where_most_is_out_of_reach(metric), f"{_PARTITION} {name}")
            for metric, name in (
                (catalogue.PARTITION_LSO, "last stable"),
                (catalogue.PARTITION_HIGH_WATERMARK, "high watermark"),
            )
        ],
        partition_page(of_series),
        empty=True,
    ),
    lines(
        "Groups waiting",
        "Distinct consumer groups over time: how many were affected, and for how long.",
        [Query(or_zero(groups_waiting()))],
        page(of_series, "/groups"),
        steps=steps(orange=at.ANY),
        alert="KafkaConsumerGroupBlocked",
    ),
]

_JUDGED: Final = [
    lines(
        "Watched partitions by whether they can be judged",
        "`no` (cannot be judged) should be 0. It rises when a leader is away, a permission is missing, or the"
        " transaction log is read late.",
        [Query(value(catalogue.PARTITIONS, "judged"), "{{cluster}} judged: {{judged}}")],
        page(of_series, "/partitions"),
        stacked=True,
        width=8,
    ),
    lines(
        "Partitions blocked",
        "Number of stalled LSOs over time. If the number only rises, look at the longest stalls above.",
        [Query(value(catalogue.PARTITIONS_BLOCKED))],
        page(of_series, "/partitions"),
        width=8,
    ),
    density(
        "Time to confirm a hanging transaction",
        "Time from the first sample with the stalled LSO until the third confirmation step. A few seconds are normal."
        " Until an alert fires, the scrape and the evaluation of the rule add to this time.",
        buckets(catalogue.DETECTION),
        width=8,
    ),
    lines(
        "Decisions that were contradicted",
        "Number of hanging transactions about which two reads of the logs contradicted each other. The decision of"
        " such a transaction is unknown from then on, and no marker is advised. The application's log has a line for"
        " each contradiction.",
        [Query(f"ceil({increase(catalogue.CONTRADICTIONS)})")],
        page(of_series, "/partitions"),
        unit="short",
    ),
    lines(
        "Findings left out",
        "Number, by kind of finding, of conditions and events that were not read, or got no finding, because a bound"
        " was reached. Conditions get their findings once others have ended. Events that were not read get none later.",
        [Query(f"{value(catalogue.FINDINGS_TRUNCATED, 'kind')} > 0", "{{cluster}} {{kind}}")],
        page(of_series, "/pipeline"),
        unit="short",
        empty=True,
    ),
    what_hangs(24, _TOPIC),
]

BOARD: Final = Board(
    "partitions",
    "Partitions and LSO",
    "Shows where read_committed consumers stop, since when, and which groups wait there. Single partitions are shown"
    " only while their last stable offset is stalled.",
    [("Now", _NOW), ("Stalled partitions", _STANDING), ("Certainty", _JUDGED)],
    [
        of_label(
            "topic",
            f"label_values({selector(catalogue.PARTITION_LSO_LAG)}, topic)",
            "Topics with a stalled partition",
        )
    ],
)
