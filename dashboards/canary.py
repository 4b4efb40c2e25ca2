"""Panels of the canary: whether its transactions run, how long they take, and what fails."""

from __future__ import annotations

from typing import Final

from dashboards import shared as at
from dashboards.links import of_series, page
from dashboards.panels import Query, at_least, lines, steps
from dashboards.queries import increase, quantile, value
from service.metrics import catalogue

_BROKER: Final = "coordinator_broker"
_OF_BROKER: Final = "{{cluster}} broker {{coordinator_broker}}"

CANARY: Final = [
    lines(
        "Canary: transactions run",
        "1: the canary's newest transaction at this coordinator was committed and visible; 0: it failed. Empty without"
        " a canary, and while the canary does not report. A second line, if there is one, is the number of partitions"
        " of __transaction_state that have no leader: transactional ids that hash to such a partition cannot run a"
        " transaction.",
        [
            Query(value(catalogue.CANARY_RUNS, _BROKER), _OF_BROKER),
            Query(f"{value(catalogue.CANARY_LEADERLESS)} > 0", "{{cluster}} without a leader"),
        ],
        page(of_series),
        unit="short",
        steps=at_least(1),
        alert="KafkaTxnCanaryFailing",
        empty=True,
    ),
    lines(
        "Canary: commit, 90th percentile",
        "Seconds from the begin of the canary's transaction until its commit is acknowledged. If one coordinator is"
        " slow, look at its broker. If all are slow, look at the network, and at what the brokers have in common.",
        [Query(quantile(0.9, catalogue.CANARY_COMMIT, _BROKER), _OF_BROKER)],
        page(of_series),
        unit="s",
        steps=steps(orange=at.CANARY_SLOW_S),
        alert="KafkaTxnCanarySlow",
        empty=True,
    ),
    lines(
        "Canary: visible, 90th percentile",
        "Seconds from the acknowledged commit until a read_committed consumer has the record.",
        [Query(quantile(0.9, catalogue.CANARY_VISIBLE, _BROKER), _OF_BROKER)],
        page(of_series),
        unit="s",
        empty=True,
    ),
    lines(
        "Canary: failed rounds",
        "Number of failed rounds per interval, by coordinator and by Kafka's name of the error. The cluster's page in"
        " txnscope shows the step that failed, and since when.",
        [
            Query(
                f"{increase(catalogue.CANARY_FAILURES, _BROKER, 'error')} > 0",
                "{{cluster}} broker {{coordinator_broker}} {{error}}",
            )
        ],
        page(of_series),
        unit="short",
        empty=True,
    ),
]
