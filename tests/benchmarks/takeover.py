"""Measures how soon a standby goes on after the instance with the lease was killed, under load."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.figures import Figure, show
from tests.benchmarks.payments import Probe, paying, payments_broker
from tests.benchmarks.program import FIRST_READ, STANDS_BY, ingesting
from tests.benchmarks.reads import database
from tests.benchmarks.served import serving
from tests.benchmarks.watched import CLUSTER, Rest

TAKEN_OVER_S = 15.0


def run(rate: int = 200, ids: int = 20, times: int = 5) -> list[Figure]:
    return [figure for store in ("sqlite", "postgresql") for figure in _on(store, rate, ids, times)]


def _on(kind: str, rate: int, ids: int, times: int) -> list[Figure]:
    with ExitStack() as running:
        folder = Path(running.enter_context(TemporaryDirectory(prefix="txnscope-bench-")))
        store = running.enter_context(database(kind))
        broker = running.enter_context(payments_broker(folder / "kafka"))
        holder = running.enter_context(ingesting(broker.bootstrap, store, CLUSTER))
        holder.wait_until_said(FIRST_READ)
        port = running.enter_context(serving(store)).port
        seconds = []
        with paying(broker.bootstrap, rate, ids):
            for _ in range(times):
                standby = running.enter_context(ingesting(broker.bootstrap, store, CLUSTER))
                standby.wait_until_said(STANDS_BY)
                holder.kill()
                holder = standby
                seconds.append(_wait_for_commit(broker.bootstrap, port))
    figures = [
        Figure(f"{kind}: kill -9 → a later commit is seen, the longest of {times}", max(seconds), "s", TAKEN_OVER_S),
        Figure("  the shortest", min(seconds), "s"),
    ]
    show(f"takeover by a standby, {rate} transactions/s of {ids} ids, {kind}", figures)
    return figures


def _wait_for_commit(bootstrap: str, port: int) -> float:
    """Commits once, and returns the seconds until REST shows it."""
    began = time.monotonic()
    with closing(Probe(bootstrap, Rest(port))) as probe:
        probe.commit()
    return time.monotonic() - began
