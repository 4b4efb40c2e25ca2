"""Measures how soon a standby takes over, under load, after the lease holder was killed, frozen or stuck."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.benchmarks.figures import Figure, show
from tests.benchmarks.payments import Probe, paying, payments_broker
from tests.benchmarks.program import FIRST_READ, STANDS_BY, Program, ingesting
from tests.benchmarks.served import serving
from tests.benchmarks.stores import STORES, database
from tests.benchmarks.watched import CLUSTER, Rest
from tests.helpers.hosts import Host

TAKEN_OVER_S: Final = 15.0
HOUR_S: Final = 3_600

HARMS: Final[dict[str, Callable[[Program], None]]] = {
    "kill -9": Program.kill,
    "SIGSTOP": Program.freeze,
    "SIGSTOP of its planners": Program.freeze_planners,
}


def run(rate: int = 200, ids: int = 20, times: int = 3) -> list[Figure]:
    return [figure for store in STORES for figure in _on(store, rate, ids, times)]


def _on(kind: str, rate: int, ids: int, times: int) -> list[Figure]:
    """Measures takeovers on one kind of database. Each standby runs on a new host, with a clock that is an hour ahead
    of the holder's clock, or an hour behind. In the last measurement, holder and standby run on one host."""
    with ExitStack() as running:
        folder = Path(running.enter_context(TemporaryDirectory(prefix="txnscope-bench-")))
        store = running.enter_context(database(kind))
        broker = running.enter_context(payments_broker())
        numbers = count()

        def start(host: Host | None) -> Program:
            return running.enter_context(ingesting(broker.bootstrap, store, CLUSTER, host=host))

        def elsewhere() -> Host:
            number = next(numbers)
            return Host(folder, f"host-{number}", HOUR_S * (number % 2))

        holder = start(elsewhere())
        holder.wait_until_said(FIRST_READ)
        port = running.enter_context(serving(store)).port
        seconds: dict[str, list[float]] = {harm: [] for harm in HARMS}
        with paying(broker.bootstrap, rate, ids):
            for harm in list(HARMS) * times:
                standby = start(elsewhere())
                standby.wait_until_said(STANDS_BY)
                HARMS[harm](holder)
                seconds[harm].append(_wait_for_commit(broker.bootstrap, port))
                holder.kill()
                holder = standby
            here = start(None)
            here.wait_until_said(STANDS_BY)
            holder.kill()
            _wait_for_commit(broker.bootstrap, port)
            neighbour = start(None)
            neighbour.wait_until_said(STANDS_BY)
            here.kill()
            on_one_host_s = _wait_for_commit(broker.bootstrap, port)
    figures = [
        Figure(f"{kind}: {harm} → a later commit is seen, the longest of {times}", max(found), "s", TAKEN_OVER_S)
        for harm, found in seconds.items()
    ]
    figures.append(Figure(f"{kind}: kill -9, standby on the same host", on_one_host_s, "s", TAKEN_OVER_S))
    show(f"takeover by a standby, {rate} transactions/s of {ids} ids, {kind}", figures)
    return figures


def _wait_for_commit(bootstrap: str, port: int) -> float:
    """Starts a producer and commits once. Returns the seconds from the call until REST shows the commit."""
    began = time.monotonic()
    with closing(Probe(bootstrap, Rest(port))) as probe:
        probe.commit()
    return time.monotonic() - began
