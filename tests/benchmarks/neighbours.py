"""Measures the delay of commits while the application of another cluster in the same store is starved, and then killed.
The delay should not change."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing

from tests.benchmarks.figures import Figure, percentile, show
from tests.benchmarks.payments import Probe, paying, payments_broker
from tests.benchmarks.program import FIRST_READ, ingesting
from tests.benchmarks.served import serving
from tests.benchmarks.stores import database
from tests.benchmarks.watched import CLUSTER, Rest
from tests.harm.starved import starved

TROUBLED = "troubled"
UNMOVED = 1.5
"""Factor by which the p99 of the undisturbed cluster may grow. A growth of less than a quarter of a second is noise."""


def run(rate: int = 100, ids: int = 10, probes: int = 150) -> list[Figure]:
    """Runs two Kafka clusters under the same load, each with an application of its own; both applications write to one
    PostgreSQL store."""
    with ExitStack() as running:
        store = running.enter_context(database("postgresql"))
        brokers = [running.enter_context(payments_broker()) for _ in (CLUSTER, TROUBLED)]
        calm, troubled = (broker.bootstrap for broker in brokers)
        running.enter_context(ingesting(calm, store, CLUSTER)).wait_until_said(FIRST_READ)
        port = running.enter_context(serving(store)).port
        probe = running.enter_context(closing(Probe(calm, Rest(port))))
        for bootstrap in (calm, troubled):
            running.enter_context(paying(bootstrap, rate, ids))
        with ingesting(troubled, store, TROUBLED) as other:
            other.wait_until_said(FIRST_READ)
            probe.commit()
            before = _seen_after(probe, probes)
            with starved(other.tree.processes):
                beside_starved = _seen_after(probe, probes)
        beside_dead = _seen_after(probe, probes)
    bar = max(UNMOVED * before[1], before[1] + 0.25)
    figures = [
        Figure("both go on: commit returns → REST shows it, p50", before[0], "s"),
        Figure("  p99", before[1], "s"),
        Figure("the other is starved: p50", beside_starved[0], "s"),
        Figure("  p99", beside_starved[1], "s", bar),
        Figure("the other is killed: p50", beside_dead[0], "s"),
        Figure("  p99", beside_dead[1], "s", bar),
    ]
    show(f"two clusters in one store, {rate} transactions/s each, postgresql", figures)
    return figures


def _seen_after(probe: Probe, probes: int) -> tuple[float, float]:
    """Returns p50 and p99 of the seconds until commits are visible."""
    seconds = []
    for _ in range(probes):
        seconds.append(probe.commit())
        time.sleep(0.1)
    return percentile(seconds, 0.5), percentile(seconds, 0.99)
