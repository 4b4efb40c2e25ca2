"""Writes docs/metrics.md, with every metric and its series over a small store: `python -m
tests.helpers.metrics_document`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from tempfile import TemporaryDirectory
from typing import Final

from prometheus_client import ProcessCollector

from service.domain.application_rules import Assigned
from service.domain.canary.rounds import ALWAYS_COUNTED
from service.domain.findings.kinds import Kind, Status
from service.domain.findings.lifecycle import MOST_OPEN
from service.domain.partitions.group_offsets import GroupOffset
from service.domain.source_state import SourceName
from service.domain.transaction_log import states
from service.domain.transaction_log.facts import Reject
from service.metrics.catalogue import (
    HTTP_REQUESTS,
    HTTP_SECONDS,
    OF_CLUSTERS,
    OF_RECEIVERS,
    OTLP_DROPPED,
    OTLP_REQUESTS,
    RENDER_SECONDS,
    UP,
    Metric,
)
from service.metrics.exports import DropReason, Signal
from service.metrics.families import CAUSES, REASONS
from service.metrics.page import KEPT_MS, SERIES_LIMIT, Metrics
from service.store import clusters
from service.store.engine import open_reader
from service.store.escaped_text import DIGEST_DIGITS, LABEL_BYTES
from service.store.receivers import add_receiver
from service.store.writers.applications import ApplicationWriter
from service.store.writers.groups import GroupWriter
from service.store.writers.history import count_batch, count_detection
from service.views.cluster.metric_facts import EXPIRES_WITHIN_MS, HANGING_NAMED, TOP_OPEN
from tests.helpers.canaries import NO_REPLICAS, coordinator, store_canary
from tests.helpers.partitions import LSO, WithPartitions, hanging_finding, moving_partition, stalled_partition
from tests.helpers.paths import ROOT
from tests.helpers.stores import DESCRIPTION, NOW_MS, Id, open_id
from tests.service.store.histories import aborted, committed
from tests.service.store.logs import batch, read

DOCUMENT: Final = ROOT / "docs" / "metrics.md"
SHOWN: Final = 6
"""Maximum number of series of a metric in the document. Series that are 0 are left out, unless all are 0. A histogram
is shown for one set of labels, with all its buckets."""

OURS: Final = (*OF_RECEIVERS, OTLP_REQUESTS, OTLP_DROPPED, UP, RENDER_SECONDS, HTTP_REQUESTS, HTTP_SECONDS)

_INTRODUCTION: Final = f"""\
# Metrics

`GET /metrics`, as text 0.0.4 or OpenMetrics 1.0 (by `Accept`), compressed if the scraper accepts it. This page is made
from `service/metrics`: to change it, change the code, then run `python -m tests.helpers.metrics_document`. Names:
`service/metrics/catalogue.py`; values: `service/metrics/families.py`.

- Metrics with a label `cluster` are read from the store, at most once in {KEPT_MS / 1000:g} s.
- Times are in seconds: the age is `time() - …`. 0 means that there is no such time: exclude it with `> 0`.
- Label values that are known beforehand have a series from the start, at 0, so that `increase()` sees the first event.
- A page has at most {SERIES_LIMIT:,} series with a label `cluster`. The cap cuts only metrics marked *many* and keeps
  the worst of each; `kafka_txn_series_dropped` counts what is left out. Two metrics name ids: the {TOP_OPEN} oldest
  open transactions, and the {HANGING_NAMED} that hang longest. REST lists all open
  transactions, and up to {MOST_OPEN} findings of a kind.
- Characters of an id that do not print are escaped as `\\u{{9}}`, bytes that are not UTF-8 as `\\x{{ff}}`, as on the
  pages. REST, pages and commands accept an id in this form, too.
- A label has at most {LABEL_BYTES} bytes. A longer id, group, owner or name is cut: the label has its first part, `…`,
  and {DIGEST_DIGITS} hex digits of the SHA-256 of the whole, so that two long ids stay two series. `transaction?id=…`
  accepts a cut label, too, unless hundreds of ids begin alike; the link by `finding` always leads to the finding.

| label | values |
|---|---|
"""


def main() -> None:
    DOCUMENT.write_text(document(), "utf-8")


def document() -> str:
    """Returns the whole document, which is the same on every machine."""
    samples = _samples(page())
    parts = [_INTRODUCTION, *(f"| `{name}` | {values} |\n" for name, values in _labels().items())]
    parts.append("\n## Of a cluster\n")
    parts += [_entry(metric, samples[metric.name], "cluster") for metric in OF_CLUSTERS]
    parts.append("\n## Of the service itself\n")
    parts += [_entry(metric, samples[metric.name]) for metric in OURS]
    process = ", ".join(f"`{name}`" for name in _names_of_process())
    parts.append(f"\nLike every Prometheus client on Linux, the service also exports {process}.\n")
    return "".join(parts)


def _labels() -> dict[str, str]:
    open_states = [states.NAMES[state] for state in sorted(states.OPEN)]
    shown = [name for state, name in states.NAMES.items() if state != states.EXPIRED]
    return {
        "cluster": "the name given with `--cluster`, or the Kafka cluster id",
        "state": f"{_words(shown)}; for `kafka_txn_oldest_state_entry_timestamp_seconds`: {_words(open_states)}",
        "outcome": _words(["commit", "abort"]),
        "cause": _words(CAUSES),
        "within": _words(EXPIRES_WITHIN_MS),
        "protocol": "`1` (the epoch stays) or `2` (KIP-890: every transaction raises it)",
        "judged": _words(["yes", "no"]),
        "source": f"`{SourceName.TRANSACTION_LOG}` (the transaction log), `{SourceName.PARTITIONS}`"
        f" (the data partitions), `{SourceName.LEDGER}` (every batch of chosen topics, with `--partitions all`)",
        "reason": f"{_words(REASONS)}; for `{OTLP_DROPPED.name}`: {_words(DropReason)}",
        "kind": _words(Kind),
        "status": _words(Status),
        "topic, partition": "a data partition; `coordinator_partition` is a partition of `__transaction_state`",
        "finding": "id of the finding; `/clusters/{cluster}/findings/{finding}` is its page",
        "transactional_id": "empty if the producer id has no transactional id; only for hanging transactions and for"
        " the oldest open ones",
        "owner": "the owner in the rule that applies (`[[rules]]`), or empty",
        "instance": "host and process id of a streaming application; without `honor_labels: true` in the scrape"
        " configuration, Prometheus calls this label `exported_instance`",
        "coordinator_broker": "id of a broker that coordinates transactions",
        "error": f"Kafka's name of an error; {_words(ALWAYS_COUNTED)} have a series from the first round",
        "signal": "`metrics` or `traces`, with `[otlp]`; `outcome` of its requests is `taken` or `failed`",
        "receiver": "name of a receiver in `[[notify]]`; the `outcome` of its attempts is `delivered` or `failed`",
        "route": "template, like `/api/v1/clusters/{cluster}`; `(none)` for a path that nothing serves",
    }


def _words(values: Iterable[str]) -> str:
    return ", ".join(f"`{value}`" for value in values)


def _entry(metric: Metric, samples: list[str], *more: str) -> str:
    labels = ", ".join(f"`{label}`" for label in (*more, *metric.labels)) or "no labels"
    many = ", *many*" if metric.many else ""
    if metric.kind == "histogram":
        kept = _one_histogram(samples)
    else:
        kept = ([line for line in samples if not line.endswith(" 0.0")] or samples)[:SHOWN]
    rest = len(samples) - len(kept)
    lines = [*_head(metric), *kept, *([f"# {rest} more"] if rest else [])]
    return f"\n### `{metric.name}`\n\n{metric.kind}{many}; {labels}\n\n```\n" + "\n".join(lines) + "\n```\n"


def _head(metric: Metric) -> list[str]:
    return [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]


def _one_histogram(samples: list[str]) -> list[str]:
    """Returns the lines of a histogram's first set of labels, up to its `_sum`."""
    last = next(number for number, line in enumerate(samples) if re.match(r"\w+_sum\b", line))
    return samples[: last + 1]


def _samples(text: str) -> dict[str, list[str]]:
    """Returns the sample lines of each metric. The duration of rendering, which differs between machines, gets a fixed
    value."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split()[2]
            found[name] = []
        elif not line.startswith("#"):
            found[name].append(f"{name} 0.012" if name == RENDER_SECONDS.name else line)
    return found


def _names_of_process() -> Iterator[str]:
    for family in ProcessCollector(registry=None).collect():
        yield family.name + ("_total" if family.type == "counter" else "")


def page() -> str:
    """Returns the metrics of a service that has answered one request and made one export over OTLP. The service's store
    has one cluster, with some data of each kind."""
    with TemporaryDirectory() as directory:
        cluster = WithPartitions(f"sqlite:///{directory}/store.db", partitions=2)
        fill(cluster)
        with cluster.engine.begin() as connection:
            add_receiver(connection, "pager", "alertmanager", 0)
        cluster.close()
        reader = open_reader(cluster.url)
        metrics = Metrics(reader)
        metrics.requests.count("GET", "/api/v1/clusters/{cluster}", 200, 0.004)
        metrics.exports.expect(Signal.METRICS)
        metrics.exports.count(Signal.METRICS, taken=True)
        body, _ = metrics.render("", "", NOW_MS)
        reader.dispose()
    return body.decode()


def fill(cluster: WithPartitions) -> None:
    clusters.describe(
        cluster.engine,
        cluster.id,
        DESCRIPTION | {"features": {"transaction.version": 2, "metadata.version": 30}},
        NOW_MS,
    )
    lived = [
        *committed(0, NOW_MS - 90_000, b"billing-2", version=2, epoch=41),
        *aborted(3, NOW_MS - 30_000, b"billing-2", version=2, epoch=42),
    ]
    spoilt = Reject(1, 6, 7, "bad_crc", None, None, b"\0")
    cluster.writer.apply(batch(lived, read(0, 7, partition=1), rejects=[spoilt]), NOW_MS)
    cluster.read(
        [
            open_id("settlement-nightly", 552_000),
            open_id("ledger-1", 8_000, state=states.PREPARE_COMMIT),
            Id(b"orders-etl-0", states.EMPTY),
            Id(b"orders-etl-1", states.EXPIRED),
        ],
        behind=3,
    )
    billing = {name: Assigned("billing") for name in (b"billing-2", b"ledger-1")}
    ApplicationWriter(cluster.engine, cluster.lease).assign(billing, NOW_MS)
    cluster.look(stalled_partition(7, "payments"), *(moving_partition(number) for number in range(3)))
    cluster.see(hanging_finding(7, owner="team payments", muted_until_ms=NOW_MS + 3_600_000))
    waiting = GroupOffset("invoices", "payments", 7, LSO, 2, False)
    GroupWriter(cluster.engine, cluster.lease).replace([waiting], NOW_MS)
    with cluster.engine.begin() as connection:
        count_detection(connection, cluster.id, NOW_MS - 1_200, NOW_MS)
        count_batch(connection, cluster.id, SourceName.TRANSACTION_LOG, 320)
    store_canary(cluster, [coordinator(1, 12, 14), coordinator(2, 9, failure=NO_REPLICAS)])


if __name__ == "__main__":
    main()
