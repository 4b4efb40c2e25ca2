"""Tests of the resolution of a hanging transaction (`resolution_of`): the markers after the entry, and the transactions
of its producer id, show how the entry ended."""

from __future__ import annotations

import pytest

from service.domain.findings.ended_hang import EndedTransaction, resolution_of
from service.domain.worlds.markers import Marker
from tests.service.domain.findings.test_open_entries import ENTRY, NOW_MS, PLACE

COMMIT, ABORT = Marker(200, 4, NOW_MS, True), Marker(200, 4, NOW_MS, False)
RESENT = EndedTransaction(False, 4, ENTRY.first_seen_ms - 50_000, NOW_MS - 5, frozenset({PLACE}))
LATER = EndedTransaction(True, 4, ENTRY.first_seen_ms + 8_000, NOW_MS - 5, frozenset({PLACE}))


@pytest.mark.parametrize(
    ("markers", "ended", "by_us", "how"),
    [
        ((ABORT,), None, False, "foreign_abort"),
        ((COMMIT,), None, False, "foreign_commit"),
        ((ABORT,), None, True, "our_marker"),
        ((ABORT,), None, None, "healed"),  # `resolve` may have written it: nobody else is blamed
        ((ABORT,), RESENT, None, "healed"),
        ((ABORT,), RESENT, False, "coordinator_marker"),
        ((COMMIT,), LATER, False, "adopted"),
        ((ABORT,), LATER, False, "foreign_abort"),  # the later transaction was committed, so this marker is not its own
        ((COMMIT,), LATER._replace(partitions=frozenset()), False, "foreign_commit"),
        ((COMMIT,), LATER._replace(producer_epoch=5), False, "foreign_commit"),
        ((COMMIT,), LATER._replace(at_ms=ENTRY.first_seen_ms - 1), False, "healed"),  # the service's clock may be ahead
        ((ABORT,), RESENT._replace(at_ms=NOW_MS + 3_000), False, "healed"),  # the leader's clock may be behind
        ((), None, False, "healed"),
    ],
)
def test_the_marker_after_an_entry_shows_how_it_ended(
    markers: tuple[Marker, ...], ended: EndedTransaction | None, by_us: bool | None, how: str
) -> None:
    assert resolution_of(ENTRY, markers, log_start=0, high_watermark=300, ended=ended, by_us=by_us) == how


def test_an_entry_without_its_records_ended_by_retention_or_truncation() -> None:
    assert resolution_of(ENTRY, (), log_start=121, high_watermark=300, ended=None, by_us=False) == "retention"
    assert resolution_of(ENTRY, (), log_start=0, high_watermark=120, ended=None, by_us=False) == "truncated"
