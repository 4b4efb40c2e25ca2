"""Sends the requests of one signal to the OpenTelemetry endpoint. Logs when requests begin to fail, and when they
succeed again."""

from __future__ import annotations

import gzip
import logging
import random
import re
from pathlib import Path
from typing import Final

from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from service.metrics.exports import DropReason, ExportMetrics, Signal
from service.notifications.notification import Undelivered
from service.notifications.receivers.http import Endpoint
from service.otlp.configuration import OtlpTable
from service.processes.waiting import Backoff

log = logging.getLogger("txnscope.otlp")

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0

_PATHS: Final = {Signal.METRICS: "/v1/metrics", Signal.TRACES: "/v1/traces"}
_GZIP_LEVEL: Final = 1
_OURS: Final = frozenset({"content-type", "content-encoding", "content-length", "host", "transfer-encoding"})
_HEADER: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e]*)")


class Sender:
    """Sends the requests of one signal. `name`: the sender's name in the log. Not safe to call from several threads."""

    def __init__(self, table: OtlpTable, signal: Signal, name: str, counts: ExportMetrics) -> None:
        self._endpoint = Endpoint(lambda: table.endpoint, lambda: _token(table.bearer_file), table.ca)
        self._headers_file, self._signal, self.name, self._counts = table.headers_file, signal, name, counts
        self._backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        self._trouble: str | None = None
        counts.expect(signal)

    def send(self, request: Message) -> None:
        """Sends a request. Counts and logs the parts that the endpoint refuses. Raises Undelivered if the endpoint has
        not taken the request."""
        body = gzip.compress(request.SerializeToString(), _GZIP_LEVEL)
        headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
        try:
            answer = self._endpoint.request("POST", _PATHS[self._signal], body, _headers(self._headers_file) | headers)
        except Undelivered:
            self._counts.count(self._signal, taken=False)
            raise
        self._counts.count(self._signal, taken=True)
        self._backoff.reset()
        rejected, words = _partial_success(self._signal, answer)
        if rejected:
            self.drop(DropReason.REFUSED, rejected)
        warning = f"the endpoint took a request, with a warning: {words}" if words else None
        refused = f"the endpoint refused {rejected} part{'s' if rejected > 1 else ''} of a request"
        self._note(f"{refused}: {words or 'it gave no reason'}" if rejected else warning)

    def pause_after(self, error: Undelivered) -> float:
        """Logs a failure, unless the previous request failed with the same text. Returns the pause (s) before the next
        attempt. The pause is partly random, so that several services do not try again at the same moment."""
        self._note(str(error))
        return max(self._backoff.next_s() * random.uniform(0.5, 1.0), error.retry_after_s)  # noqa: S311 - no secret

    def drop(self, reason: DropReason, number: int) -> None:
        """Counts data points, traces or spans that the endpoint will never get."""
        self._counts.drop(self._signal, reason, number)

    def _note(self, trouble: str | None) -> None:
        if trouble != self._trouble:
            log.warning("%s: %s", self.name, trouble or "the endpoint takes requests again")
        self._trouble = trouble


def _partial_success(signal: Signal, answer: bytes) -> tuple[int, str]:
    """Returns the number of data points or spans that the endpoint refused, and the endpoint's message. The message may
    be a warning although nothing was refused. If the answer is not a message of OTLP, the number is 0."""
    try:
        if signal == Signal.METRICS:
            points = ExportMetricsServiceResponse.FromString(answer).partial_success
            return points.rejected_data_points, _in_one_line(points.error_message)
        spans = ExportTraceServiceResponse.FromString(answer).partial_success
        return spans.rejected_spans, _in_one_line(spans.error_message)
    except DecodeError:
        return 0, ""


def _in_one_line(text: str) -> str:
    return " ".join(text.split())[:500]


def _token(file: Path | None) -> str | None:
    return None if file is None else _text_of(file).strip()


def _headers(file: Path | None) -> dict[str, str]:
    """Returns the headers of the file. Raises Undelivered if the file is wrong; the message shows no header's value."""
    if file is None:
        return {}
    found = {}
    for number, line in enumerate(_text_of(file).splitlines(), start=1):
        if not line.strip():
            continue
        matched = _HEADER.fullmatch(line.strip())
        if matched is None:
            raise Undelivered(f"{file}: line {number} is not NAME: VALUE")
        name = matched[1].lower()
        if name in _OURS:
            raise Undelivered(f"{file}: line {number}: {name} is set by txnscope: remove the line")
        found[name] = matched[2]
    return found


def _text_of(file: Path) -> str:
    """Returns the text of the file. Raises Undelivered if the file cannot be read."""
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Undelivered(f"{file}: {getattr(error, 'strerror', None) or 'not UTF-8'}") from error
