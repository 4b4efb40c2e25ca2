"""From an empty store to the first complete answer over a long log: `txnscope watch` from its start on."""

from __future__ import annotations

from tests.benchmarks.figures import Figure, show
from tests.benchmarks.prepared_broker import BenchmarkBroker, prepared_broker
from tests.benchmarks.process_tree import CpuMeter, PeakMemory, shown
from tests.benchmarks.watched import Watched, watching

BAR_S = 30.0
TIMEOUT_S = 400


def run(records: int = 5_000_000, ids: int = 1_000_000) -> list[Figure]:
    """On a broker of its own."""
    with prepared_broker(records, ids) as broker:
        return measure(broker, ids)


def measure(broker: BenchmarkBroker, ids: int) -> list[Figure]:
    """The broker's log holds exactly `ids` ids, all of them must be in the answer."""
    with watching(broker.bootstrap) as watched, PeakMemory(watched.tree) as peak:
        meter = CpuMeter(watched.tree)
        read_s = watched.wait_until_read(ids, TIMEOUT_S)
        rest = watched.rest()
        page = rest.get("/transactions", limit=50)
        rest.close()
        assert page is not None
        assert len(page["items"]) == min(50, ids)
        answered_s = watched.elapsed_s()
        cores = meter.cores()
        size_mb = sum(file.stat().st_size for file in watched.store.parent.glob("txnscope.db*")) / 1e6
    figures = [
        Figure("empty store to the first complete answer", answered_s, "s", BAR_S),
        Figure("  of that the first page of transactions", answered_s - read_s, "s"),
        *_stages(watched),
        Figure("  CPU of all processes", sum(cores.values()) * answered_s, "s"),
        Figure("  peak memory of all processes (PSS)", peak.mb, "MB"),
        Figure("  the store afterwards", size_mb, "MB"),
    ]
    show(f"first answer: {ids:,} ids", figures)
    print(f"CPU: {shown({kind: used * answered_s for kind, used in cores.items()}, 's')}")
    print(f"memory at its peak: {shown(peak.parts, 'MB')}", flush=True)
    return figures


def _stages(watched: Watched) -> list[Figure]:
    """Where the time went, as far as the application's own words tell."""
    reads = [second for second, line in watched.said if "first read of the transaction log" in line]
    bound = next((second for second, line in watched.said if " cluster " in line), 0.0)
    if not reads:
        return []
    return [
        Figure("  until the cluster is known", bound, "s"),
        Figure("  from there until the first batch is stored (Spark's start)", reads[0] - bound, "s"),
        Figure("  from there until all is stored", reads[-1] - reads[0], "s"),
    ]
