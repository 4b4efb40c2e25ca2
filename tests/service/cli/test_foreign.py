"""Another server at --url: whatever it answers, it is one line that says so."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from service.cli import main


class Foreign(HTTPServer):
    """Answers everything with `status` and `body`."""

    status = 200
    body = b""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Foreign)
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - the base class names it
        """Not on the tests' stderr."""


@pytest.fixture
def foreign() -> Iterator[Foreign]:
    with Foreign(("127.0.0.1", 0), _Handler) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        yield server
        server.shutdown()
        serving.join()


LIST = b'"next_cursor":null,"as_of":null'


@pytest.mark.parametrize(
    "command",
    [
        "transactions",
        "transactions --cluster x",
        "transaction --cluster x id",
        "expiring --cluster x",
        "partitions --cluster x",
        "hanging --cluster x",
    ],
)
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"<html>"),
        (200, b"\xff"),
        (200, b"null"),
        (200, b"[]"),
        (200, b'{"status":"ok"}'),
        (200, b'{"items":[]}'),
        (200, b'{"items":{},' + LIST + b"}"),
        (200, b'{"items":[1],' + LIST + b"}"),
        (200, b'{"items":[{}],' + LIST + b"}"),
        (404, b"not here"),
        (404, b"[]"),
        (502, b""),
    ],
)
def test_a_foreign_answer_is_one_line_and_3(
    foreign: Foreign, command: str, status: int, body: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign.status, foreign.body = status, body
    name, *rest = command.split()
    url = f"http://127.0.0.1:{foreign.server_port}"
    assert main([name, "--url", url, *rest]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"txnscope {name}: {url} (--url) answers")
    assert captured.err.endswith("is not txnscope\n")
    assert captured.err.count("\n") == 1
