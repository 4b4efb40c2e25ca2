"""A receiver of OTLP for tests, and functions that return the received data as plain values."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from ssl import SSLContext
from typing import Any, NamedTuple

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.helpers.waiting import LIMIT_S

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Answer(NamedTuple):
    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}


class Taken(NamedTuple):
    """A decoded request. `resource`: the attributes of its only resource."""

    headers: Mapping[str, str]
    resource: dict[str, str]
    metrics: tuple[Metric, ...] = ()
    spans: tuple[Span, ...] = ()


@dataclass
class Receiver:
    """A real HTTP server that decodes OTLP.

    - `answers`: the next answers. After these, the server answers 400 if `refuses` is true of the request, and
      otherwise 200 without a body.
    - `requests`: the number of requests so far.
    - `taken`: the requests that were answered with 200.
    - `works`: while it is not set, each request waits for its answer, at most LIMIT_S.
    """

    url: str = ""
    requests: int = 0
    taken: list[Taken] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    refuses: Callable[[Taken], bool] = lambda _: False
    works: threading.Event = field(default_factory=threading.Event)

    @property
    def of_store(self) -> list[Taken]:
        return [one for one in list(self.taken) if any(metric.name.startswith(STORED) for metric in one.metrics)]

    @property
    def of_process(self) -> list[Taken]:
        return [one for one in list(self.taken) if any(metric.name == CPU for metric in one.metrics)]

    @property
    def spans(self) -> list[Span]:
        return [span for one in list(self.taken) for span in one.spans]


STORED = "kafka_txn_exporter_up"
CPU = "process_cpu_seconds_total"


@contextmanager
def receiver(tls: SSLContext | None = None) -> Iterator[Receiver]:
    found = Receiver()
    found.works.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if len(body) < int(self.headers["Content-Length"]):  # the sender was killed
                return
            found.requests += 1
            found.works.wait(LIMIT_S)
            answer, request = Answer(), decoded(self.path, dict(self.headers), body)
            if found.answers:
                answer = found.answers.pop(0)
            elif found.refuses(request):
                answer = Answer(400)
            if answer.status == 200:
                found.taken.append(request)
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    found.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
    try:
        yield found
    finally:
        found.works.set()
        server.shutdown()
        server.server_close()


def decoded(path: str, headers: Mapping[str, str], body: bytes) -> Taken:
    assert headers["Content-Type"] == "application/x-protobuf"
    plain = gzip.decompress(body) if headers.get("Content-Encoding") == "gzip" else body
    if path == "/v1/metrics":
        (of_metrics,) = ExportMetricsServiceRequest.FromString(plain).resource_metrics
        return Taken(
            headers,
            texts(of_metrics.resource.attributes),
            metrics=tuple(metric for scope in of_metrics.scope_metrics for metric in scope.metrics),
        )
    assert path == "/v1/traces"
    (of_spans,) = ExportTraceServiceRequest.FromString(plain).resource_spans
    return Taken(
        headers,
        texts(of_spans.resource.attributes),
        spans=tuple(span for scope in of_spans.scope_spans for span in scope.spans),
    )


def texts(attributes: Iterable[KeyValue]) -> dict[str, str]:
    return {attribute.key: attribute.value.string_value for attribute in attributes}


def values(span: Span) -> dict[str, Any]:
    return {
        attribute.key: getattr(attribute.value, str(attribute.value.WhichOneof("value")))
        for attribute in span.attributes
    }


def samples(metrics: Iterable[Metric]) -> Samples:
    """Returns the values as Prometheus' text format shows them: the count of a histogram bucket includes the buckets
    below it."""
    found: Samples = {}
    for metric in metrics:
        for point in (*metric.sum.data_points, *metric.gauge.data_points):
            found[metric.name, frozenset(texts(point.attributes).items())] = point.as_double
        for data_point in metric.histogram.data_points:
            labels = texts(data_point.attributes)
            bounds = [*map(str, data_point.explicit_bounds), "+Inf"]
            for bound, count in zip(bounds, accumulate(data_point.bucket_counts), strict=True):
                found[f"{metric.name}_bucket", frozenset({**labels, "le": bound}.items())] = count
            found[f"{metric.name}_sum", frozenset(labels.items())] = data_point.sum
            found[f"{metric.name}_count", frozenset(labels.items())] = data_point.count
    return found


def refusing(rejected: int, words: str) -> Answer:
    answer = ExportMetricsServiceResponse()
    answer.partial_success.rejected_data_points = rejected
    answer.partial_success.error_message = words
    return Answer(body=answer.SerializeToString())


def refusing_spans(rejected: int, words: str) -> Answer:
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = rejected
    answer.partial_success.error_message = words
    return Answer(body=answer.SerializeToString())
