"""From where on a number means trouble: panels colour by these, alerts fire by them. `_S` are seconds of age.

Where the service judges the same, the number is the service's (a test compares them).
"""

from __future__ import annotations

from typing import Final

SERVICE: Final = "txnscope"
"""The label `service` of every alert, which dashboards draw as annotations."""

HANGING_PAGE: Final = 1
"""Confirmed hanging transactions that page: the first one. Nothing heals it but a marker by hand."""

LSO_STANDS_S: Final = 60
LSO_STUCK_S: Final = 900
"""A last stable offset that stands for the default transaction.timeout.ms; for the brokers' default maximum."""

BLOCKED_GROUPS: Final = 1
"""Consumer groups that wait behind an open transaction."""

OVERDUE: Final = 1
"""Transactions their coordinator should have aborted by now (findings of kind overdue_transaction)."""

PREPARE_SLOW_S: Final = 10
PREPARE_STUCK_S: Final = 60
"""Decided, and markers still missing: they take milliseconds."""

OPEN_LONG_S: Final = 60
OPEN_TOO_LONG_S: Final = 900
"""An open transaction older than the default transaction.timeout.ms; than the brokers' default maximum."""

ABORT_BUDGET: Final = 0.01
"""Share of transactions that may abort over 30 days."""

ABORT_FAST_BURN: Final = 14.4
ABORT_SLOW_BURN: Final = 6.0
"""Times the budget: fast spends it in two days (over 1h and 5m), slow in five (over 6h and 30m)."""

ABORT_FAST: Final = round(ABORT_FAST_BURN * ABORT_BUDGET, 6)
ABORT_SLOW: Final = round(ABORT_SLOW_BURN * ABORT_BUDGET, 6)
"""The shares of aborted transactions these are."""

FENCED_WINDOW: Final = "10m"
FENCED_MANY: Final = 20
"""Fenced producers within the window: more than restarts explain."""

PRODUCER_IDS_WINDOW: Final = "15m"
PRODUCER_IDS_PER_S: Final = 1.0
"""Producer ids seen under an id for the first time: applications that make up a transactional.id at every start."""

EXPIRING_WITHIN: Final = "24h"
EXPIRING: Final = 1
"""Ids that their coordinator removes within that time if nobody uses them (a value of the label `within`)."""

EPOCH_WARN: Final = 30_000
EPOCH_LAST: Final = 32_766
"""Epochs of the old protocol (label protocol="1"); the new one uses them up as a routine."""

STALE_WARN_S: Final = 30
STALE_S: Final = 120
"""Age of what the store knows of a source: the last known state; no verdict any more."""

COVERAGE_LEAST: Final = 1.0
"""Share of a source's partitions that answer; below, something is not judged."""

UNJUDGED: Final = 1
"""Watched partitions that cannot be judged."""

LAG_RECORDS: Final = 10_000
LAG_WINDOW: Final = "10m"
"""Offsets of a source not yet read, and over how long they must not grow."""

DECODE_ERRORS: Final = 1
DECODE_WINDOW: Final = "15m"
"""Records that could not be decoded within the window."""

SERIES_DROPPED: Final = 1
"""Series the cap leaves out: what is not shown cannot fire."""

SCRAPE_SLOW_S: Final = 0.25
"""Making the page of metrics; Prometheus gives up after its scrape_timeout (10 s)."""
