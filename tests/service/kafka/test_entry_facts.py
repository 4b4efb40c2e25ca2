"""Tests how far back the facts about an entry are read. The partition's log is a stub."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from service.domain.worlds.facts import EntryQuery
from service.domain.worlds.order import Sample
from service.kafka import entry_facts
from service.kafka.log_range import BatchesRead

START = 25_000
PARTITION: Any = SimpleNamespace(
    leader=SimpleNamespace(node=1, epoch=3), ends=SimpleNamespace(log_start=0, high_watermark=START + 1), asked_at_ms=1
)


@pytest.mark.parametrize("samples", [(), (Sample(START - 5, 3, 0, {}, {}),)])
def test_earlier_markers_of_an_orphan_are_read(monkeypatch: pytest.MonkeyPatch, samples: tuple[Sample, ...]) -> None:
    """Earlier markers show whether the orphan's producer id comes from another cluster. A sample from before the entry
    does not show this, so the markers are read even if there is such a sample."""
    read: list[tuple[int, int]] = []

    def batches_between(*args: Any) -> BatchesRead:
        lo, hi = args[-2:]
        read.append((lo, hi))
        return BatchesRead((), (), hi, True, lo)

    monkeypatch.setattr(entry_facts, "batches_between", batches_between)
    query = EntryQuery("orders", 0, 77, 0, START, 1, None, -1, samples, is_deep=False)
    assert entry_facts.read_facts(SimpleNamespace(), query, PARTITION, None) is not None  # type: ignore[arg-type]
    assert read == [(START - 10_000, START), (START, START + 1)]
