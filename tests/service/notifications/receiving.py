"""Servers and findings for tests of receivers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from service.api.schemas.findings import Finding as Body
from service.api.schemas.shape import to_json
from service.domain.findings.finding import Finding, Life
from service.domain.findings.kinds import Resolution, Severity, Status
from service.notifications.notification import Notification
from tests.helpers.findings import observe
from tests.helpers.stores import NOW_MS

BASE = "https://txnscope.example.org"


class Request(NamedTuple):
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Endpoint:
    """A real HTTP server. `answers` has the statuses of the next answers; after these, the server answers 200.
    `headers` are sent with each answer. `requests` has all requests, and `taken` has those that were answered with
    200."""

    url: str = ""
    requests: list[Request] = field(default_factory=list)
    taken: list[Request] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    found = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if len(body) < int(self.headers["Content-Length"]):  # the sender was killed
                return
            request = Request(self.path, dict(self.headers), body)
            found.requests.append(request)
            status = found.answers.pop(0) if found.answers else 200
            if status == 200:
                found.taken.append(request)
            self.send_response(status)
            for name, value in {"Content-Length": "0", **found.headers}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    found.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()


def notification(
    sequence: int = 1,
    event: str = "opened",
    name: bytes = b"pay",
    severity: Severity = Severity.CRITICAL,
    owner: str | None = "payments",
) -> Notification:
    """Returns a notification about an overdue transaction; with the event `resolved`, the transaction has ended."""
    is_over = event == "resolved"
    life = Life(
        status=Status.RESOLVED if is_over else Status.CONFIRMED,
        opened_at_ms=NOW_MS,
        confirmed_at_ms=NOW_MS,
        last_seen_ms=NOW_MS,
        count=1,
        resolved_at_ms=NOW_MS + 5_000 if is_over else None,
        resolution=Resolution.HEALED if is_over else None,
    )
    finding = Finding(f"id-of-{name.decode()}", observe(name=name, severity=severity, owner=owner), life)
    link = f"{BASE}/clusters/orders/findings/{finding.id}"
    return Notification(sequence, event, NOW_MS, "orders", finding, to_json(Body.of(finding, "orders")).decode(), link)
