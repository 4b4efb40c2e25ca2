"""Sends HTTP requests with limits on time, on the size of the answer, and on redirects.

A redirected request has no header Authorization. The proxies that the environment names are used only if the caller
allows them."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import httpx2

MOST_BYTES: Final = 1 << 20
_NO_CERTIFICATES: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""The SSL context of requests without TLS. It loads no certificates, because loading them would take longer than such a
request. So it trusts no server."""

logging.getLogger("httpx2").setLevel(logging.WARNING)  # it would log each URL, which may contain a secret


class NoAnswer(Exception):
    """No answer came. The message is one line. `was_refused`: True if the connection was refused, so that nothing was
    sent."""

    def __init__(self, text: str, *, was_refused: bool = False) -> None:
        super().__init__(text)
        self.was_refused = was_refused


class HttpAnswer(NamedTuple):
    """The answer to a request. `body`: the body as it was sent, cut off at `most_bytes` of `send`."""

    status: int
    headers: httpx2.Headers
    body: bytes


def send(
    method: str,
    url: str,
    headers: dict[str, str],
    body: bytes | None = None,
    *,
    timeout_s: float,
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    most_bytes: int | None = MOST_BYTES,
    most_redirects: int = 0,
    with_proxies: bool = False,
    is_timed_as_a_whole: bool = False,
) -> HttpAnswer:
    """Sends a request and returns the answer, at most `most_bytes` of its body (None: the whole body). Follows at most
    `most_redirects` redirects, and no redirect that would repeat a write. `tls` makes the context for https. Raises
    NoAnswer.

    `timeout_s` limits the connection, the TLS handshake, and each wait for the next byte. With `is_timed_as_a_whole` it
    also limits the time from the first byte of the request to the last byte of the answer."""
    try:
        request = httpx2.Request(method, url, headers={"Accept-Encoding": "identity"} | headers, content=body)
        while True:
            context = tls() if request.url.scheme == "https" else _NO_CERTIFICATES
            proxy = _proxy_of(str(request.url)) if with_proxies else None
            content = bytearray()
            with (
                httpx2.Client(verify=context, trust_env=False, timeout=timeout_s, proxy=proxy) as client,
                _ending(request, timeout_s) if is_timed_as_a_whole else nullcontext(),
                # Auth() keeps the library from sending credentials in the URL
                closing(client.send(request, stream=True, auth=httpx2.Auth())) as response,
            ):
                for part in response.iter_raw():
                    content += part
                    if most_bytes is not None and len(content) >= most_bytes:
                        break
            following = response.next_request
            if following is None or following.method != "GET" or most_redirects == 0:  # a write is not repeated
                return HttpAnswer(response.status_code, response.headers, bytes(content[:most_bytes]))
            request, most_redirects = following, most_redirects - 1
            request.headers.pop("Authorization", None)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise _no_answer(error) from error


@contextmanager
def _ending(request: httpx2.Request, within_s: float) -> Iterator[None]:
    """Ends a request `within_s` after its first byte was sent. A socket's timeout cannot do this, because it starts
    anew with every byte. Raises httpx2.ReadTimeout."""
    streams: list[Any] = []
    was_cut = threading.Event()

    def cut() -> None:
        was_cut.set()
        with suppress(OSError):
            streams[-1].get_extra_info("socket").shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(within_s, cut)
    timer.daemon = True

    def trace(event: str, info: dict[str, Any]) -> None:
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            streams.append(info["return_value"])
        elif event == "http11.send_request_headers.started":
            timer.start()

    request.extensions = {**request.extensions, "trace": trace}
    try:
        yield
    except httpx2.TransportError:
        if not was_cut.is_set():
            raise
    finally:
        timer.cancel()
    if was_cut.is_set():  # without a Content-Length, an answer that was cut off looks complete
        raise httpx2.ReadTimeout(f"the answer did not end within {within_s:g} s")


def _proxy_of(url: str) -> str | None:
    """Returns the proxy that the environment names for a URL, by the rules of the standard library; None: no proxy."""
    from urllib.request import getproxies, proxy_bypass  # imported here, because most processes need no proxy

    parts = urlsplit(url)
    proxy = None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"


def _no_answer(error: BaseException) -> NoAnswer:
    """Returns the failure with a text from its cause: the reason why the certificate is refused, or the operating
    system's text. Without such a cause the text is the library's."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    text = str(error).rstrip(".") or type(error).__name__
    if isinstance(cause, ssl.SSLCertVerificationError):
        text = f"certificate: {cause.verify_message}"
    elif isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError):
        text = cause.strerror or text
    return NoAnswer(" ".join(text.split()), was_refused=isinstance(cause, ConnectionRefusedError))
