"""Makes a request from a number: a route of the service with its parameters, damaged in up to three places. One request
of ten also has some bytes changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import Final, NamedTuple
from urllib.parse import quote

from tests.helpers.paths import ROOT

CLUSTER: Final = "orders"
_PAGES: Final = (
    *("/", f"/clusters/{CLUSTER}", f"/clusters/{CLUSTER}/", f"/clusters/{CLUSTER}/transactions"),
    *(f"/clusters/{CLUSTER}/{page}" for page in ("findings", "partitions", "expiring", "groups", "pipeline", "goto")),
    *(f"/clusters/{CLUSTER}/partitions/orders/0", f"/clusters/{CLUSTER}/transaction", "/static/style.css", "/events"),
)
_VALUES: Final = (
    *("", "0", "-1", "1", "50", "200", "201", "9223372036854775807", "9223372036854775808", "-9223372036854775809"),
    *("1e9", "0x10", "NaN", "true", "null", "Ongoing", "Expired", "Empty,Ongoing", "age", "transactional_id", "pay"),
    *("1s", "15m", "24h", "7d", "99999999d", "-1h", "1.5h", "%", "%25", "_", "\\", "\\x{ff}", "\\u{d800}", "'", '"'),
    *("'; DROP TABLE clusters; --", "<script>alert(1)</script>", "{{7*7}}", "../../etc/passwd", "\x00", "\r\nX: y"),
    *("\N{SNOWMAN}", "\N{RIGHT-TO-LEFT OVERRIDE}", "é" * 300, "a" * 1_001, "A" * 40_000, "pay\tload", " ", "*"),
)
_RAW: Final = (b"\xff", b"%ff%fe", b"%00", b"%c0%af", b"%", b"%zz", b"%2e%2e/", b"\x80\x81", b"%ed%a0%80", b"+", b"&&=")
_HEADERS: Final = (
    *((b"If-None-Match", v) for v in (b"*", b'W/"x"', b'"' * 500, b"\xff", b",,,")),
    *((b"Last-Event-ID", v) for v in (b"1", b"-1", b"9" * 400, b"\xff", b"\xd9\xa1")),
    *(
        (b"Accept", v)
        for v in (b"text/html", b"application/openmetrics-text;version=1.0.0", b"q=" * 300, b";;;", b"\xe9")
    ),
    *((b"Accept-Encoding", v) for v in (b"gzip", b"gzip;q=0", b"identity;q=0, *;q=0", b"br" * 200)),
    *((b"Range", v) for v in (b"bytes=0-1", b"bytes=-1", b"bytes=9-1,3-", b"bytes=" + b"0-1," * 200)),
    *(
        (b"Authorization", v)
        for v in (b"Bearer x", b"Bearer", b"Basic ====", b"Basic /w==", b"Digest a", b"Bearer \xff")
    ),
    *((b"Content-Type", v) for v in (b"application/json", b"text/plain", b"application/json; charset=utf-7", b"/")),
    *((b"Content-Length", v) for v in (b"-1", b"1", b"99999999999999999999", b"1, 2", b"x")),
    *((b"Transfer-Encoding", v) for v in (b"chunked", b"gzip, chunked", b"identity", b"chunked, chunked")),
    *((b"Host", v) for v in (b"", b"evil.example", b"127.0.0.1:1", b"[::1", b"a" * 300, b"localhost, evil")),
    *((b"Cookie", b"theme=" + v) for v in (b"dark", b"\xff", b";" * 300)),
    *((b"Expect", b"100-continue"), (b"Upgrade", b"h2c"), (b"Upgrade", b"websocket"), (b"Connection", b"upgrade")),
    *((b"X-Forwarded-For", b"1.2.3.4" * 50), (b"X-Forwarded-Proto", b"javascript"), (b"HX-Request", b"true")),
)
_BODIES: Final = (
    b"",
    b"{}",
    b'{"dry_run": true}',
    b'{"dry_run": false}',
    b'{"dry_run": "false"}',
    b'{"dry_run": true, "dry_run": false}',
    b"[" * 5_000,
    b'{"a":' * 3_000,
    b'"\\ud800"',
    b"\xff\xfe\x00",
    b"1e400",
    b"-" * 1_000,
    b"a" * 1_100_000,
)
_METHODS: Final = (
    b"GET",
    b"HEAD",
    b"POST",
    b"DELETE",
    b"PUT",
    b"PATCH",
    b"OPTIONS",
    b"TRACE",
    b"get",
    b"BREW",
    b"\x00",
)
_VERSIONS: Final = (b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/0.9", b"HTTP/1.1 ", b"")


class Request(NamedTuple):
    """A request in its parts. `query` has names and values in their encoded form."""

    method: bytes
    path: bytes
    query: tuple[tuple[bytes, bytes], ...]
    version: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    def encode(self) -> bytes:
        query = b"&".join(name + b"=" + value for name, value in self.query)
        target = self.path + (b"?" + query if query else b"")
        headers = b"".join(name + b": " + value + b"\r\n" for name, value in self.headers)
        return b" ".join((self.method, target, self.version)) + b"\r\n" + headers + b"\r\n" + self.body


def make(seed: int, number: int) -> bytes:
    """Returns the bytes of the request with that number. The same seed always gives the same bytes."""
    rng = Random(f"{seed}/{number}")
    request = _drawn(rng)
    for _ in range(rng.randrange(4)):
        request = rng.choice(_DAMAGES)(rng, request)
    data = request.encode()
    return _bytes_changed(rng, data) if rng.random() < 0.1 else data


@cache
def _routes() -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Returns (method, path, parameters) of every route in the OpenAPI document, then of every page."""
    document = json.loads((ROOT / "docs" / "openapi.json").read_text())
    found = [
        (method.upper(), path, tuple(p["name"] for p in operation.get("parameters", ()) if p["in"] == "query"))
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]
    filters = ("state", "prefix", "q", "sort", "cursor", "id", "offset", "to", "kind", "within", "blocked", "theme")
    return (*found, *(("GET", page, filters) for page in _PAGES))


def _drawn(rng: Random) -> Request:
    method, path, parameters = rng.choice(_routes())
    for name in ("cluster", "topic", "partition", "offset", "finding", "id", "producer_id"):
        usual = {"cluster": CLUSTER, "topic": "orders"}.get(name, "0")
        value = usual if rng.random() < 0.9 else rng.choice(_VALUES)
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    chosen = [name for name in parameters if rng.random() < 0.4]
    query = tuple((name.encode(), quote(rng.choice(_VALUES)).encode()) for name in chosen)
    body = rng.choice(_BODIES) if method not in ("GET", "HEAD") else b""
    headers: list[tuple[bytes, bytes]] = [(b"Host", b"127.0.0.1")]
    if body:
        headers += [(b"Content-Type", b"application/json"), (b"Content-Length", str(len(body)).encode())]
    return Request(method.encode(), path.encode(), query, b"HTTP/1.1", tuple(headers), body)


def _path_with_more(rng: Random, request: Request) -> Request:
    at = rng.randrange(len(request.path) + 1)
    more = rng.choice([*_RAW, b"//", b"/./", b"/../", b";x", b"#x", quote(rng.choice(_VALUES)).encode()])
    return request._replace(path=request.path[:at] + more + request.path[at:])


def _absolute_path(rng: Random, request: Request) -> Request:
    return request._replace(path=rng.choice((b"http://evil.example", b"*", b"//evil.example")) + request.path)


def _more_query(rng: Random, request: Request) -> Request:
    name = rng.choice([*(n for n, _ in request.query), b"limit", b"cursor", b"unknown", *_RAW])
    value = rng.choice([quote(rng.choice(_VALUES)).encode(), *_RAW])
    return request._replace(query=(*request.query, (name, value)) * rng.choice((1, 1, 1, 50)))


def _more_headers(rng: Random, request: Request) -> Request:
    return request._replace(headers=(*request.headers, rng.choice(_HEADERS)) * rng.choice((1, 1, 1, 30)))


def _fewer_headers(rng: Random, request: Request) -> Request:
    return request._replace(headers=tuple(header for header in request.headers if rng.random() < 0.5))


_DAMAGES: Final[tuple[Callable[[Random, Request], Request], ...]] = (
    lambda rng, request: request._replace(method=rng.choice(_METHODS)),
    lambda rng, request: request._replace(version=rng.choice(_VERSIONS)),
    _path_with_more,
    _absolute_path,
    _more_query,
    _more_query,
    _more_headers,
    _more_headers,
    _fewer_headers,
    lambda rng, request: request._replace(body=rng.choice(_BODIES)),
)


def _bytes_changed(rng: Random, data: bytes) -> bytes:
    changed = bytearray(data[:4_000])
    for at in _places(rng, len(changed)):
        changed[at] = rng.randrange(256)
    return bytes(changed) + data[4_000:]


def _places(rng: Random, length: int) -> Iterator[int]:
    for _ in range(rng.randrange(1, 6)):
        yield rng.randrange(length)
