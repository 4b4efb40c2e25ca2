"""The receiver of the demo's alerts and notifications: an endpoint on loopback that reports each change once.

Alertmanager posts its alerts here. txnscope posts its notifications of findings, which arrive before the alerts.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, NamedTuple

from service.domain.findings.lifecycle import RESOLVED
from service.store.escaped_text import printable

MAX_BYTES: Final = 4 * 2**20


class Notice(NamedTuple):
    """A change of an alert, or of a finding. `status`: `firing` or `resolved` for an alert, `notified` or `ended` for a
    finding. `name`: the name of the alert, or the kind of the finding. `link`: address of txnscope's page about the
    alert or finding."""

    status: str
    name: str
    severity: str
    summary: str
    link: str

    @property
    def line(self) -> str:
        return printable(f"{self.status:<8}  {self.name} ({self.severity}): {self.summary}  {self.link}")


class Webhook:
    """`with Webhook(on_alert) as webhook: webhook.url`. Alertmanager repeats firing alerts; `on_alert` is called only
    for changes, for one at a time, in a thread of the webhook."""

    def __init__(self, on_alert: Callable[[Notice], None]) -> None:
        self._on_alert = on_alert
        self._statuses: dict[str, str] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self.receive))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="webhook", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/"

    def receive(self, body: bytes) -> None:
        """Handles a notification of Alertmanager (version 4) or of txnscope. Raises ValueError for any other body."""
        notices = _notices(body)
        with self._lock:
            for fingerprint, notice in notices:
                if self._statuses.get(fingerprint) != notice.status:
                    self._statuses[fingerprint] = notice.status
                    self._on_alert(notice)

    def __enter__(self) -> Webhook:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, receive: Callable[[bytes], None], *arguments: Any) -> None:
        self._receive = receive
        super().__init__(*arguments)

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and int(length) <= MAX_BYTES):
            self.close_connection = True
            self._answer(413)
            return
        try:
            self._receive(self.rfile.read(int(length)))
        except ValueError:
            self._answer(400)
        else:
            self._answer(200)

    def log_message(self, *_: Any) -> None:
        """Logs nothing: `on_alert` reports the alerts already."""

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()


def _notices(body: bytes) -> list[tuple[str, Notice]]:
    """Returns the notices in `body`. From Alertmanager: (fingerprint, notice) of each alert, in the order of the body.
    From txnscope: (id, notice) of the one finding. Raises ValueError."""
    try:
        content = json.loads(body)
        if "finding" in content:
            return [(str(content["finding"]["id"]), _finding_notice(content))]
        return [(str(alert["fingerprint"]), _notice(alert)) for alert in content["alerts"]]
    except (KeyError, TypeError, AttributeError) as e:
        raise ValueError(f"not a notification of Alertmanager or txnscope: {type(e).__name__} {e}") from e


def _finding_notice(content: dict[str, Any]) -> Notice:
    finding = content["finding"]
    status = "ended" if content["event"] == RESOLVED else "notified"
    return Notice(status, finding["kind"], finding["severity"], finding["summary"], content["link"])


def _notice(alert: dict[str, Any]) -> Notice:
    labels, notes = alert["labels"], alert["annotations"]
    status, link = alert["status"], notes.get("page_url", "")
    return Notice(status, labels["alertname"], labels.get("severity", "none"), notes.get("summary", ""), link)
