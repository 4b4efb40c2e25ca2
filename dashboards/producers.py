"""The dashboard of producers: failures by application, new ids, fencing, epochs and expiry."""

from __future__ import annotations

from typing import Final

from dashboards import shared as at
from dashboards.frame import Board
from dashboards.links import application_page, of_series, page
from dashboards.panels import Query, big, lines, steps
from dashboards.queries import OPEN, failed_share, increase, rate, value
from service.metrics import catalogue

_MOST: Final = 10
_OLD_PROTOCOL: Final = 'protocol="1"'
_EXPIRES_SOON: Final = f'within="{at.EXPIRING_WITHIN}"'
_APPLICATION: Final = "{{cluster}} {{application}}"
_COORDINATOR: Final = "{{cluster}} __transaction_state-{{coordinator_partition}}"


def _failures() -> str:
    failed = f'cause=~"{"|".join(catalogue.FAILED_CAUSES)}"'
    return rate(catalogue.APPLICATION_COMPLETED, "application", "cause", where=(failed,))


def _open() -> str:
    by_state = value(catalogue.APPLICATION_TRANSACTIONS, "application", "state", where=(OPEN,))
    return f"sum by (cluster, application) ({by_state})"


def _oldest_open() -> str:
    started = value(catalogue.APPLICATION_OLDEST_OPEN, "application")
    return f"time() - ({started} > 0)"


_NOW: Final = [
    big(
        f"Fenced in {at.FENCED_WINDOW}",
        "Aborts attributed to an InitProducerId for their id: from a new producer, from the same one after an"
        " error, or from an administrator. A restart causes one such abort. Many come from two instances that share"
        " an id, a deployment that restarts in a loop, or clients that fence themselves. The findings name shared ids.",
        f"ceil({increase(catalogue.FENCED, over=at.FENCED_WINDOW)})",
        page(of_series),
        unit="short",
        steps=steps(orange=at.FENCED_MANY),
        alert="KafkaTransactionFencingStorm",
    ),
    big(
        "New producer ids",
        f"New producer ids per second, over {at.PRODUCER_IDS_WINDOW}. A high rate has one of two causes."
        " Applications make up a transactional.id at every start: then nothing fences the transactions that an earlier"
        " start left open, so give instances fixed ids. Or Apache Flink jobs number their ids by checkpoint: that is"
        " normal. Brokers keep the state of each producer id for a day.",
        rate(catalogue.PRODUCER_IDS, over=at.PRODUCER_IDS_WINDOW),
        page(of_series, "/transactions"),
        unit="ops",
        steps=steps(orange=at.PRODUCER_IDS_PER_S),
        alert="KafkaProducerIdChurn",
    ),
    big(
        "Highest epoch, old protocol",
        f"Epochs end at {at.EPOCH_LAST:,}. Each start, fence and timeout uses one: an id near the end restarts or"
        " times out in a loop. The finding names it.",
        value(catalogue.EPOCH_MAX, where=(_OLD_PROTOCOL,)),
        page(of_series),
        steps=steps(orange=at.EPOCH_WARN),
        alert="KafkaProducerEpochNearExhaustion",
    ),
    big(
        f"Expire within {at.EXPIRING_WITHIN}",
        "Unused ids that their coordinator will remove. Harmless for retired applications; an application that comes"
        " back gets a new producer id. The page of expiring ids in txnscope lists the ids,"
        " soonest first.",
        value(catalogue.EXPIRING, where=(_EXPIRES_SOON,)),
        page(of_series, f"/expiring?within={at.EXPIRING_WITHIN}"),
        steps=steps(blue=at.ANY),
        alert="KafkaTransactionalIdsExpiring",
    ),
    big(
        "Transactional ids",
        "Ids known to the coordinators. Each id takes memory of its coordinator until the id expires, by default 7 days"
        " after its last use.",
        value(catalogue.TRANSACTIONAL_IDS),
        page(of_series, "/transactions"),
        unit="short",
    ),
    big(
        "Unreadable ids",
        "Ids whose newest record could not be decoded: their state is unknown until they write again.",
        value(catalogue.TRANSACTIONS, where=('state="Unknown"',)),
        page(of_series, "/transactions?state=Unknown"),
        steps=steps(orange=at.ANY),
    ),
]

_APPLICATIONS: Final = [
    lines(
        "Failed transactions by application",
        "Share of the ended transactions that were aborted by timeout, by a fence, by an administrator or for an"
        f" unknown cause. Aborts by the client itself do not count. The {_MOST} worst applications. The dashed lines"
        " are the thresholds of the alerts, over 1h and 6h. Empty if nothing ended, or no application is known.",
        [Query(f"topk({_MOST}, {failed_share()})", _APPLICATION)],
        application_page(of_series),
        unit="percentunit",
        steps=steps(at.ABORT_SLOW, at.ABORT_FAST),
        alert="KafkaTransactionApplicationFailing",
        empty=True,
    ),
    lines(
        "Failures by application and cause",
        f"Failed transactions per second, the {_MOST} highest rates. timeout: a transaction took too long, or its"
        " application was gone. fenced: an InitProducerId for the id arrived, mostly from a new producer, as in a"
        " deployment or a rebalance. Empty if no application is known.",
        [Query(f"topk({_MOST}, {_failures()})", "{{cluster}} {{application}} {{cause}}")],
        application_page(of_series),
        unit="ops",
        empty=True,
    ),
    lines(
        "Open transactions by application",
        f"The {_MOST} applications with the most open transactions. If the number only grows, transactions are begun"
        " and not ended. Empty if no application is known.",
        [Query(f"topk({_MOST}, {_open()})", _APPLICATION)],
        application_page(of_series),
        unit="short",
        empty=True,
    ),
    lines(
        "Oldest open transaction by application",
        f"Age of the oldest open transaction, for the {_MOST} applications with the highest age. The deadline of the"
        " transaction comes nearer until the application commits or aborts. Empty if nothing is open, or no"
        " application is known.",
        [Query(f"topk({_MOST}, {_oldest_open()})", _APPLICATION)],
        application_page(of_series),
        unit="s",
        steps=steps(at.OPEN_LONG_S, at.OPEN_TOO_LONG_S),
        empty=True,
    ),
]

_PRODUCERS: Final = [
    lines(
        "Fenced producers",
        "Fenced producers per second. Peaks at deployments are normal; a constant level is a conflict.",
        [Query(rate(catalogue.FENCED))],
        page(of_series),
        unit="ops",
    ),
    lines(
        "New producer ids",
        "Producer ids per second that are seen for the first time under a transactional.id. Under the new protocol"
        " (KIP-890) a transactional.id gets a new producer id every 32,767 transactions; the panel counts these"
        " producer ids as well.",
        [Query(rate(catalogue.PRODUCER_IDS))],
        page(of_series, "/transactions"),
        unit="ops",
        steps=steps(orange=at.PRODUCER_IDS_PER_S),
        alert="KafkaProducerIdChurn",
    ),
    lines(
        "Highest producer epoch",
        "Highest epoch of a producer id, by protocol. Protocol 2 raises the epoch with every transaction, and takes a"
        " new producer id after the last epoch, as a routine. The threshold is for protocol 1.",
        [Query(value(catalogue.EPOCH_MAX, "protocol"), "{{cluster}} protocol {{protocol}}")],
        page(of_series),
        steps=steps(orange=at.EPOCH_WARN),
        alert="KafkaProducerEpochNearExhaustion",
    ),
    lines(
        "Transactional ids by state",
        "Number of ids in each state. Empty: initialised and not used since. CompleteCommit and CompleteAbort: used"
        " before, and without an open transaction now.",
        [Query(value(catalogue.TRANSACTIONS, "state"), "{{cluster}} {{state}}")],
        page(of_series, "/transactions"),
        unit="short",
        stacked=True,
    ),
]

_EXPIRY: Final = [
    lines(
        "Ids that will expire",
        "Ids that expire within 1, 24 and 72 hours unless they are used. Expired ids count until coordinators remove"
        " them, which happens hourly.",
        [Query(value(catalogue.EXPIRING, "within"), "{{cluster}} within {{within}}")],
        page(of_series, "/expiring"),
    ),
    lines(
        "Ids removed",
        "Ids removed per second. A burst means that many ids were last used at about the same time, a week ago by"
        " default: for example, a deployment used new ids then.",
        [Query(rate(catalogue.EXPIRED))],
        page(of_series, "/expiring"),
        unit="ops",
    ),
]

_COORDINATORS: Final = [
    lines(
        "Ids by coordinator",
        f"The {_MOST} partitions of __transaction_state with the most ids. Ids are spread by their hash: a partition"
        " far above the rest has many ids of one application.",
        [Query(f"topk({_MOST}, {value(catalogue.COORDINATOR_IDS, 'coordinator_partition')})", _COORDINATOR)],
        page(of_series, "/pipeline"),
        unit="short",
    ),
    lines(
        "Open transactions by coordinator",
        f"The {_MOST} partitions of __transaction_state with the most open transactions. If only one grows, its"
        " coordinator does not end transactions as it should: look at the broker that leads the partition.",
        [Query(f"topk({_MOST}, {value(catalogue.COORDINATOR_OPEN, 'coordinator_partition')})", _COORDINATOR)],
        page(of_series, "/pipeline"),
    ),
]

BOARD: Final = Board(
    "producers",
    "Producers, epochs, expiry",
    "Shows transactional ids that are new, in conflict, near their last epoch, or about to expire.",
    [
        ("Now", _NOW),
        ("Applications", _APPLICATIONS),
        ("Producers", _PRODUCERS),
        ("Expiry", _EXPIRY),
        ("Coordinators", _COORDINATORS),
    ],
)
