"""The addresses of many answers and pages, and a store that has data for the majority of them."""

from __future__ import annotations

import re

from fastapi.testclient import TestClient

from service.domain.transaction_log.facts import Gap
from service.store import clusters
from tests.helpers.partitions import (
    WithPartitions,
    entry,
    hanging_finding,
    moving_partition,
    read,
    stalled_partition,
    unanswered_partition,
)
from tests.helpers.stores import DESCRIPTION, NOW_MS, Id, SeededCluster, mixed_ids, open_id

API = "/api/v1/clusters"
LIST = f"{API}/orders/transactions"
LONG = "".join(chr(97 + number * number % 25) for number in range(30_000))

PATHS = [
    "/-/ready",
    API,
    f"{API}/orders",
    f"{API}/orders/coordinators",
    f"{API}/none",
    f"{API}/nul%00within",
    LIST,
    *(f"{LIST}?sort={sort}&limit=200" for sort in ("age", "transactional_id", "last_updated")),
    *(f"{LIST}?sort={sort}&limit=50&min_age=20s&topic=payments" for sort in ("age", "last_updated")),
    f"{LIST}?state=Expired&state=Unknown&state=Empty",
    f"{LIST}?prefix=app-001",
    f"{LIST}?prefix=%ff%00",
    f"{LIST}?prefix=%5Cx%7Bff%7D%5Cu%7B0%7D",
    f"{API}/orders/findings?transactional_id=%5Cx%7Bff%7D%5Cu%7B0%7D",
    f"{LIST}?producer_id=240",
    f"{LIST}?producer_id={2**63 - 1}",
    f"{LIST}?topic=nul%00within",
    *(f"{LIST}?q={text}" for text in ("APP-0012", "%00", "%25_", "\\x00", "%20x%20", "\N{SNOWMAN}")),
    f"{API}/orders/transaction?id=app-00007",
    f"{API}/orders/transaction?id=%ff%00",
    f"{API}/orders/transaction?id=nobody",
    f"{API}/orders/hanging",
    *(f"{API}/orders/partitions{query}" for query in ("", "?lagging=true", "?limit=1", "?topic=orders", "?topic=%00")),
    *(f"{API}/orders/partitions/{place}" for place in ("orders/0", "orders/3", "b%00/0", "audit/0")),
]

PAGE = "/clusters/orders"
PAGES = [
    "/",
    PAGE,
    *(f"{PAGE}/findings{query}" for query in ("", "?status=resolved", "?kind=hanging_transaction")),
    f"{PAGE}/transactions",
    *(f"{PAGE}/transactions?{query}" for query in ("state=Expired", "q=APP-0012", "sort=age&min_age=20s", "topic=b")),
    *(f"{PAGE}/transaction?id={name}" for name in ("app-00007", "%ff%00", "z%E2%98%83", "nobody")),
    *(f"{PAGE}/transaction?id=app-00007&window={window}" for window in ("1h", "7d")),
    *(f"{PAGE}/partitions{query}" for query in ("", "?topic=orders", "?topic=%00", "?shown=unknown")),
    *(f"{PAGE}/partitions/{place}" for place in ("orders/0", "orders/3", "audit/0", "b%00/0")),
    *(f"{PAGE}/{name}" for name in ("groups", "groups?q=mail", "expiring", "expiring?within=9999d", "pipeline")),
    *(f"{PAGE}/goto?q={text}" for text in ("app-0000", "7", "orders-1", "%00", "nothing")),
]


def fill(url: str) -> None:
    """Fills an empty store with two clusters: `orders`, with ids, partitions and a finding, and `another`, which has no
    data."""
    SeededCluster(url, "another").close()
    cluster = WithPartitions(url, partitions=2)
    clusters.describe(cluster.engine, cluster.id, DESCRIPTION, NOW_MS)
    odd = [Id(b"\xff\x00"), Id(b"100%_"), Id(b"nul\x00"), open_id("z\N{SNOWMAN}", 5_000, "b", "a")]
    cluster.read([*mixed_ids(), *odd], behind=7)
    cluster.read([open_id(LONG, 9_000)], partition=1, gap=Gap(0, 40, "retention"), trouble="not\x00now")
    cluster.look(
        stalled_partition(),
        stalled_partition(1),
        read(entry()),
        moving_partition(2),
        unanswered_partition("no leader", 3),
        moving_partition(0, "audit"),
        not_covered=2,
    )
    cluster.see(hanging_finding())
    cluster.close()


def samples(client: TestClient) -> list[str]:
    """Returns the lines of the metrics that are computed from the store."""
    page = client.get("/metrics").text
    return [line for line in page.splitlines() if re.match(r"kafka_txn_(?!exporter_)", line)]
