"""One span of a partition's offsets as the API and `txnscope explain --json` show it."""

from __future__ import annotations

from typing import Any

from service.api.http.fields import id_fields, time_field
from service.domain.partitions.offset_spans import Span
from service.domain.transaction_log.causes import Cause


def describe_span(span: Span, transactional_id: bytes | None = None, cause: Cause | None = None) -> dict[str, Any]:
    return {
        "from": span.first,
        "to": span.next,
        "kind": span.kind,
        "producer_id": span.producer_id,
        "producer_epoch": span.producer_epoch,
        **id_fields(transactional_id),
        "marker": span.marker,
        "marker_offset": span.marker_offset,
        **time_field("ended_at", span.ended_ms),
        "cause": None if cause is None else cause.code,
        "confidence": None if cause is None else cause.confidence,
    }
