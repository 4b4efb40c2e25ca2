"""schemathesis asks for everything that the OpenAPI document promises, and for what it excludes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.domain.partitions.blocked_groups import GroupOffset
from service.store import clusters
from service.store.writers.groups import GroupWriter
from tests.helpers.partitions import (
    LSO,
    WithPartitions,
    entry,
    hanging_finding,
    moving_partition,
    stalled_partition,
    unanswered_partition,
)
from tests.helpers.partitions import read as read_of
from tests.helpers.paths import ROOT
from tests.helpers.stores import DESCRIPTION, INT64_MAX, NOW_MS, Id, mixed_ids, open_id
from tests.helpers.waiting import LIMIT_S
from tests.service.api.test_process import SERVER
from tests.service.store.histories import MINUTE, aborted, committed
from tests.service.store.logs import batch, read

CONFIG = Path(__file__).with_name("schemathesis.toml")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Of a service over a store that has a little of everything, and no brokers to ask."""
    cluster = WithPartitions(f"sqlite:///{tmp_path / 'store.db'}", partitions=2)
    clusters.describe(cluster.engine, cluster.id, DESCRIPTION, NOW_MS)
    lived = [*committed(0, MINUTE, b"lived"), *aborted(3, MINUTE + 1_000, b"lived", pid=INT64_MAX - 1)]
    cluster.writer.apply(batch(lived, read(0, 6, partition=1)), NOW_MS)
    cluster.read(mixed_ids(60))
    cluster.read([open_id(b"\x00/?&\xff", 80_000_000), Id(b"wide", producer_id=INT64_MAX)])
    held = entry(INT64_MAX, records=5, bytes=500, last_timestamp_ms=INT64_MAX)
    cluster.look(
        stalled_partition(),
        stalled_partition(1),
        moving_partition(2),
        unanswered_partition("no leader", 3),
        read_of(held),
        not_covered=3,
    )
    cluster.see(hanging_finding(producer_id=INT64_MAX))
    waiting = GroupOffset("eos", "orders", 0, LSO, 2, False)
    GroupWriter(cluster.engine, cluster.lease).replace([waiting], NOW_MS)
    cluster.close()
    command = [sys.executable, "-c", SERVER, cluster.url]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()
            process.wait(LIMIT_S)


def test_it_finds_nothing(address: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG), "run"]
    result = subprocess.run(
        [*command, f"{address}/openapi.json", "--wait-for-schema", "120", "--no-color"],
        cwd=tmp_path,  # what it remembers of former runs goes with the directory
        capture_output=True,
        text=True,
        timeout=2 * LIMIT_S,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
    asked = re.search(r"([\d,]+) generated", result.stdout)
    assert asked, result.stdout[-2000:]
    assert int(asked[1].replace(",", "")) > 300, "it asked for little"
