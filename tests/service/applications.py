"""Stores applications for the tests of the service: an application that blocks groups, one that is idle, and ids
without an application."""

from __future__ import annotations

from service.domain.application_rules import Assigned
from service.domain.applications import Framework
from service.domain.findings.kinds import Kind
from service.store.writers.applications import ApplicationWriter
from tests.helpers.findings import observe
from tests.helpers.partitions import WithPartitions, entry, owner, read
from tests.helpers.stores import NOW_MS, Id
from tests.service.store.histories import MINUTE, aborted, committed
from tests.service.store.logs import batch
from tests.service.store.logs import read as span
from tests.service.waiting_groups import wait_behind

SHOP = "shop/eu & co"
"""The name of the application that blocks groups. A URL has to quote its special characters."""


def assign(cluster: WithPartitions, name: str, *ids: bytes, framework: Framework = Framework.UNKNOWN) -> None:
    assigned = Assigned(name, framework)
    ApplicationWriter(cluster.engine, cluster.lease).assign(dict.fromkeys(ids, assigned), NOW_MS)


def with_applications(cluster: WithPartitions) -> None:
    """Stores two ids of SHOP (`shop-1` is open, and has a finding), an id of `batch` (with a commit and an abort), an
    id without an application (with a finding), and the groups that `wait_behind` stores."""
    lived = [*committed(0, MINUTE, b"batch-1", pid=91), *aborted(3, MINUTE + 1_000, b"batch-1", pid=91)]
    cluster.writer.apply(batch(lived, span(0, len(lived))), NOW_MS)
    cluster.moved_to(len(lived))
    cluster.read([owner(b"shop-1"), Id(b"shop-2", producer_id=8), Id(b"plain", producer_id=9)])
    assign(cluster, SHOP, b"shop-1", b"shop-2", framework=Framework.KAFKA_STREAMS)
    assign(cluster, "batch", b"batch-1")
    wait_behind(cluster)
    cluster.look(read(entry()))
    cluster.see(observe(Kind.LONG_RUNNING, name=b"shop-1"), observe(Kind.LONG_RUNNING, name=b"plain"))
