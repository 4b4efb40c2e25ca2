"""Tests that requests are bounded in time, bytes and redirects, that credentials and proxies are used only where
allowed, that certificates are checked, and that a request without an answer gives an error of one line."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from service.http_client import MOST_BYTES, NoAnswer, send
from tests.helpers.brokers import free_port
from tests.helpers.certificates import Authority
from tests.helpers.servers import Served, serving
from tests.helpers.waiting import LIMIT_S

SECRET = {"Authorization": "Bearer s3cret"}


class Redirecting(ThreadingHTTPServer):
    """A server that answers /to/CODE with that code and a redirect: from /to/301 to /to/302, and from any other code to
    /here. The server answers any other path with 200.

    `asked` has the method, the path and the credentials of each request.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, str, str | None]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Redirecting

    def do_GET(self) -> None:
        self.server.asked.append((self.command, self.path, self.headers["Authorization"]))
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        code = int(self.path.removeprefix("/to/")) if self.path.startswith("/to/") else 200
        self.send_response(code)
        if code != 200:
            self.send_header("Location", "/to/302" if self.path == "/to/301" else "/here")
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"body")

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Prints nothing."""


@pytest.fixture
def server() -> Iterator[Redirecting]:
    with Redirecting() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join(LIMIT_S)


def test_a_redirect_is_an_answer_unless_a_caller_allows_some(server: Redirecting) -> None:
    assert send("GET", f"{server.url}/to/302", SECRET, timeout_s=LIMIT_S).status == 302
    assert server.asked == [("GET", "/to/302", "Bearer s3cret")]


def test_a_redirect_gets_no_credentials(server: Redirecting) -> None:
    answer = send("GET", f"{server.url}/to/301", SECRET, timeout_s=LIMIT_S, most_redirects=2)
    assert (answer.status, answer.body) == (200, b"body")
    assert server.asked == [("GET", "/to/301", "Bearer s3cret"), ("GET", "/to/302", None), ("GET", "/here", None)]
    assert send("GET", f"{server.url}/to/301", {}, timeout_s=LIMIT_S, most_redirects=1).status == 302


def test_a_write_is_not_repeated_at_another_address(server: Redirecting) -> None:
    assert send("POST", f"{server.url}/to/307", SECRET, b"{}", timeout_s=LIMIT_S, most_redirects=2).status == 307
    assert server.asked == [("POST", "/to/307", "Bearer s3cret")]


def test_credentials_in_an_address_do_not_replace_those_of_the_request(server: Redirecting) -> None:
    send("GET", server.url.replace("//", "//ann:pw@"), SECRET, timeout_s=LIMIT_S)
    assert server.asked == [("GET", "/", "Bearer s3cret")]


def test_proxies_of_the_environment_are_used_only_if_a_caller_says_so(
    server: Redirecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, server.url.removeprefix("http://"))
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    elsewhere = f"http://127.0.0.1:{free_port()}/page"
    with pytest.raises(NoAnswer):
        send("GET", elsewhere, {}, timeout_s=LIMIT_S)
    assert send("GET", elsewhere, {}, timeout_s=LIMIT_S, with_proxies=True).status == 200
    assert [path for _, path, _ in server.asked] == [elsewhere]
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(NoAnswer):
        send("GET", elsewhere, {}, timeout_s=LIMIT_S, with_proxies=True)


@pytest.mark.parametrize("sent", [b"H", b"HTTP/1.1 200 OK\r\n\r\n{"])
def test_an_answer_over_tls_that_never_ends_is_left(sent: bytes, tmp_path: Path) -> None:
    """The timeout limits the whole answer, also over TLS. A socket's own timeout would begin again with each byte."""
    authority = Authority(tmp_path)
    certificate = authority.issue("server")
    with (
        serving(Served(sent, then_every_s=0.1, more=b" "), certificate=certificate) as address,
        pytest.raises(NoAnswer, match=r"^the answer did not end within 1 s$"),
    ):
        send(
            "GET",
            f"https://{address}/",
            {},
            timeout_s=1.0,
            tls=lambda: ssl.create_default_context(cafile=authority.certificate),
            is_timed_as_a_whole=True,
        )


@pytest.mark.parametrize(("most_bytes", "expected"), [(MOST_BYTES, MOST_BYTES), (1_000, 1_000), (None, MOST_BYTES + 5)])
def test_an_answer_is_cut_off_at_the_limit(most_bytes: int | None, expected: int) -> None:
    body = b"x" * (MOST_BYTES + 5)
    with serving(Served(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))) as address:
        answer = send("GET", f"http://{address}/", {}, timeout_s=LIMIT_S, most_bytes=most_bytes)
    assert (answer.status, answer.body) == (200, body[:expected])


def test_an_answer_without_an_end_is_read_up_to_the_limit() -> None:
    """Bytes come all the time, so that no timeout of a single wait ends the request."""
    endless = Served(b"HTTP/1.1 200 OK\r\n\r\n", then_every_s=0.001, more=b"x" * 65_536)
    with serving(endless) as address:
        answer = send("GET", f"http://{address}/", {}, timeout_s=LIMIT_S)
    assert answer.body == b"x" * MOST_BYTES


@pytest.mark.parametrize(
    ("host", "life", "is_trusted", "why"),
    [
        ("127.0.0.1", timedelta(days=1), False, "unable to get local issuer certificate"),
        ("127.0.0.1", timedelta(minutes=-5), True, "certificate has expired"),
        ("127.0.0.2", timedelta(days=1), True, "IP address mismatch, certificate is not valid for '127.0.0.2'."),
    ],
    ids=["of an unknown authority", "expired", "of another host"],
)
def test_a_server_with_a_wrong_certificate_gets_no_request(
    host: str, life: timedelta, is_trusted: bool, why: str, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    trusted = authority if is_trusted else Authority(tmp_path / "other")
    served = Served(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    with (
        serving(served, host=host, certificate=authority.issue("server", life=life)) as address,
        pytest.raises(NoAnswer) as raised,
    ):
        send(
            "GET",
            f"https://{address}/",
            SECRET,
            timeout_s=LIMIT_S,
            tls=lambda: ssl.create_default_context(cafile=trusted.certificate),
        )
    assert (str(raised.value), raised.value.was_refused) == (f"certificate: {why}", False)
    assert (served.accepted, served.sent) == (1, 0)


def test_a_server_with_a_valid_certificate_gets_the_request(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    served = Served(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    with serving(served, certificate=authority.issue("server")) as address:
        answer = send(
            "GET",
            f"https://{address}/",
            SECRET,
            timeout_s=LIMIT_S,
            tls=lambda: ssl.create_default_context(cafile=authority.certificate),
        )
        with pytest.raises(NoAnswer, match=r"^certificate: "):
            send("GET", f"https://{address}/", SECRET, timeout_s=LIMIT_S)
    assert (answer.status, answer.body) == (200, b"ok")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://127.0.0.1:1/", "Connection refused"),
        ("http://host.invalid/", "Name or service not known|Temporary failure in name resolution|No address associ.*"),
        ("ftp://127.0.0.1/", "Request URL has an unsupported protocol 'ftp://'"),
        ("http://[::1/", ".*"),
    ],
)
def test_no_answer_is_one_line_in_the_words_of_the_system(url: str, why: str) -> None:
    with pytest.raises(NoAnswer, match=f"^({why})$") as raised:
        send("GET", url, SECRET, timeout_s=LIMIT_S)
    assert raised.value.was_refused == (why == "Connection refused")
    assert "s3cret" not in str(raised.value)
