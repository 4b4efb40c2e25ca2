"""Tests of commands whose service answers unexpectedly, or whose --url is another server. The command reports the
problem in one line, and never prints the key. `txnscope resolve` also reports whether the marker was written, if the
answer shows it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from service.cli import main

KEY = "the-key-of-ann-000"
NOT_KNOWN = "it is not known whether the marker was written"
WRITTEN = {
    "finding_id": "f",
    "dry_run": False,
    "executed": True,
    "marker": "COMMIT",
    "topic": "orders",
    "partition": 3,
    "producer_id": 7,
    "producer_epoch": 2,
    "coordinator_epoch": 0,
    "reason": "its transaction was committed",
    "steps": ["looked", "wrote COMMIT to broker 1, its leader"],
    "command": None,
    "checked_at": "2026-09-21T14:13:50.123Z",
}


class Odd(HTTPServer):
    """A server that gives a fixed answer, or closes the connection if `status` is 0. `asked` has the method, path and
    key of each request."""

    status, body, location = 200, json.dumps(WRITTEN).encode(), ""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.asked: list[tuple[str, str, str | None]] = []


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Odd)
        self.server.asked.append((self.command, self.path, self.headers["Authorization"]))
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        status = 200 if self.path == "/elsewhere" else self.server.status
        if not status:
            return
        self.send_response(status)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    do_GET = do_POST  # noqa: N815 - the base class names it

    def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - the base class names it
        """Suppresses the log of requests on stderr."""


@pytest.fixture
def odd() -> Iterator[Odd]:
    with Odd(("127.0.0.1", 0), _Handler) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        yield server
        server.shutdown()
        serving.join()


def run(odd: Odd, tmp_path: Path, *more: str) -> int:
    file = tmp_path / "ann.key"
    file.write_text(f"{KEY}\n")
    url = f"http://127.0.0.1:{odd.server_port}"
    return main(["resolve", "f", "--cluster", "c", "--url", url, "--operator-key-file", str(file), *more])


def test_a_written_marker_is_reported(odd: Odd, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(odd, tmp_path, "--execute") == 0
    out = capsys.readouterr().out
    assert out.startswith("wrote COMMIT to orders-3 for producer id 7, epoch 2 (coordinator epoch 0)\n")
    assert "add --execute" not in out
    assert odd.asked == [("POST", "/api/v1/clusters/c/findings/f/resolve", f"Bearer {KEY}")]
    assert run(odd, tmp_path, "--execute", "--json") == 0
    assert json.loads(capsys.readouterr().out) == WRITTEN


@pytest.mark.parametrize(("status", "body"), [(0, b""), (504, b"<html>"), (200, b"{}"), (200, b"<html>")])
def test_without_an_answer_it_is_not_known_whether_a_marker_was_written(
    odd: Odd, tmp_path: Path, capsys: pytest.CaptureFixture[str], status: int, body: bytes
) -> None:
    odd.status, odd.body = status, body
    assert run(odd, tmp_path, "--execute") == 3
    executing = capsys.readouterr().err
    assert run(odd, tmp_path) == 3
    dry = capsys.readouterr().err
    assert (NOT_KNOWN in executing, NOT_KNOWN in dry) == (True, False)
    assert (executing.count("\n"), KEY in executing + dry) == (1, False)


def test_a_refusal_is_reported_in_the_words_of_the_service(
    odd: Odd, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for status, code in ((403, 2), (409, 2), (502, 3), (503, 3)):
        odd.status, odd.body = status, b'{"title": "t", "detail": "nothing was written: so it is"}'
        assert run(odd, tmp_path, "--execute") == code
        assert capsys.readouterr().err == "txnscope resolve: nothing was written: so it is\n"


def test_the_key_is_not_sent_to_the_target_of_a_redirect(odd: Odd, tmp_path: Path) -> None:
    odd.status, odd.location = 302, "/elsewhere"
    run(odd, tmp_path, "--execute")
    assert [key for _, path, key in odd.asked if path == "/elsewhere"] == [None]


@pytest.mark.parametrize("text", ["", "\n", "two words and more", "one\ntwo", "schl\u00fcssel-schl\u00fcssel"])
def test_a_file_without_a_key_is_named(odd: Odd, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    file = tmp_path / "odd.key"
    file.write_text(text, "utf-8")
    assert run(odd, tmp_path, "--operator-key-file", str(file)) == 2
    err = capsys.readouterr().err
    assert err == f"txnscope resolve: --operator-key-file {file}: the file has to contain one key, and nothing else\n"
    assert odd.asked == []


def test_resolve_needs_a_key_file(
    odd: Odd, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TXNSCOPE_OPERATOR_KEY_FILE", raising=False)
    assert main(["resolve", "f", "--url", f"http://127.0.0.1:{odd.server_port}"]) == 2
    assert "--key-file is missing" in capsys.readouterr().err
    assert odd.asked == []


# --url names another server


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
def test_an_answer_of_another_service_is_one_line_and_exit_code_3(
    odd: Odd, command: str, status: int, body: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    odd.status, odd.body = status, body
    name, *rest = command.split()
    url = f"http://127.0.0.1:{odd.server_port}"
    assert main([name, "--url", url, *rest]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"txnscope {name}: {url} (--url) answers")
    assert captured.err.endswith("is not txnscope\n")
    assert captured.err.count("\n") == 1
