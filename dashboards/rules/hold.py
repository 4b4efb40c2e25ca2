"""Keeps an alert about findings firing while no data arrive, because missing data do not prove that a finding ended.

A recording rule records what the service reports. The alert uses the last sample of that rule, for up to HELD. A sample
above 0 means that a finding is confirmed; 0 means that the finding has ended. The rule records 0 only

- if the service reports the cluster, and no longer reports the finding. A new store first has to find the transaction
  again. So if the store has no resolved finding of the kind, the rule waits until all partitions are judged, and were
  judged a minute ago, and until _ONE_STORE holds;
- if the cluster was removed: for REMOVED_AFTER, all services of the scrape job that reported the cluster have answered
  from their stores, and no service has reported the cluster.

The last sample is read by a range selector, which ignores the staleness markers of failed scrapes, and finds samples
from before a restart of Prometheus. All other values that the rule combines for one moment come from one scrape of the
service. If they came from several scrapes, a restart could mix old and new values, because Prometheus shows an old
sample for 5 minutes.
"""

from __future__ import annotations

from typing import Final

from dashboards.rules.rule import JOB, Recording, most, pick
from service.domain.findings.kinds import Kind, Status
from service.metrics import catalogue as of

HELD: Final = "7d"
"""Longest time for which an alert is kept without data. Prometheus itself keeps samples for 15 days by default."""

REMOVED_AFTER: Final = "10m"
"""Time without reports after which a cluster counts as removed. KafkaTxnClusterMissing waits for a shorter time, so
that it fires before the alerts of the cluster end."""

SCRAPE_JOB: Final = "job"
"""Prometheus' label of a scrape job. The services of one job are replicas that share one store."""

_REPORTED: Final = most(pick(of.HANGING))
_REPORTED_LATELY: Final = most(f"present_over_time({pick(of.HANGING)}[{REMOVED_AFTER}])")

_ONE_STORE: Final = (
    f"{most(f'max_over_time({pick(of.HANGING)}[2m])')} == on (cluster) {most(f'min_over_time({pick(of.HANGING)}[2m])')}"
)
"""True if the highest reported number of hanging transactions was the same for 2 minutes. A new store may report 0,
because it does not know the finding yet. The condition ignores such a store for the first 2 minutes."""


def _all_judged(when: str = "") -> str:
    yes, no = (most(pick(of.PARTITIONS, judged=judged) + when) for judged in ("yes", "no"))
    return f"{yes} > 0 and on (cluster) {no} == 0"


def _ended(kind: Kind) -> str:
    resolved = most(pick(of.FINDINGS, kind=kind, status=Status.RESOLVED))
    # now and a minute ago: once a partition is judged, the confirmation steps take some seconds
    return f"""\
{_REPORTED}
    and on (cluster) (
      {resolved} > 0
        or
      (
        {_all_judged()}
          and on (cluster)
        {_all_judged(" offset 1m")}
          and on (cluster)
        {_ONE_STORE}
      )
    )"""


_UP: Final = pick(of.UP)
_ALL_ANSWER: Final = f"""\
min by (job) (min_over_time({_UP}[{REMOVED_AFTER}])) == 1
        and on (job)
      max by (job) ({_UP} offset {REMOVED_AFTER}) == 1
        unless on (job)
      min by (job) (min_over_time(up{{job=~"{JOB}"}}[{REMOVED_AFTER}])) == 0"""


def last(record: str) -> str:
    """Returns the expression for the last value of `record`; 0 means that the finding has ended."""
    return f"last_over_time({record}[{HELD}])"


def recorded(record: str, kind: Kind, reported: str) -> str:
    """Returns the expression of the recording rule `record` about findings of the kind. The expression yields
    `reported`: values above 0, with the labels `cluster` and `job`. If a series of `record` was above 0, and its
    finding has ended or its cluster was removed, the expression yields 0 for that series, once."""
    return f"""\
{reported}
  or
0 * (
  {last(record)} > 0
    and on (cluster)
  {_ended(kind)}
)
  or
0 * (
  {last(record)} > 0
    unless on (cluster)
  {_REPORTED_LATELY}
    and on (job) (
      {_ALL_ANSWER}
    )
)"""


def held_count(record: str, kind: Kind) -> Recording:
    """Returns the rule that records the number of confirmed findings of the kind, by cluster and job. After their end,
    the rule records 0 once."""
    confirmed = most(pick(of.FINDINGS, kind=kind, status=Status.CONFIRMED), SCRAPE_JOB)
    return Recording(record, recorded(record, kind, f"{confirmed} > 0"))
