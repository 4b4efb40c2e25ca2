"""Asks an OAuth server for a token, within a limit of time and bytes. Follows no redirect: it would take the secret."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
import threading
from contextlib import suppress
from typing import Final
from urllib.parse import urlencode, urlsplit

from service.kafka.errors import KafkaUnavailable

TIMEOUT_S: Final = 10.0
"""Longest time for the connection, for the handshake of TLS, and from the request to the last byte of the answer."""

_MOST_BYTES: Final = 1 << 20
_OK: Final = 200


def ask_endpoint(url: str, client_id: str, client_secret: str, scope: str | None, trusted: str | None) -> bytes:
    """Returns the body of the answer to a request for client credentials, with the header that Kafka's Java client
    sends. Raises KafkaUnavailable naming the server."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    login = base64.b64encode(f"{client_id}:{client_secret}".encode()).decode("ascii")
    form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
    headers = {
        "Accept": "application/json",
        "Authorization": f"Basic {login}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection = _connection(parts.scheme, parts.hostname or "", parts.port, trusted)
        connection.connect()
        cut = threading.Timer(TIMEOUT_S, _cut, [connection.sock])
        cut.daemon = True
        cut.start()
        try:
            connection.request("POST", target, urlencode(form), headers)
            with connection.getresponse() as answer:
                body = answer.read(_MOST_BYTES)
        finally:
            cut.cancel()
            connection.close()
    except ssl.SSLCertVerificationError as e:
        raise KafkaUnavailable(f"no token from {place}: certificate: {e.verify_message}") from e
    except (OSError, ValueError, http.client.HTTPException) as e:
        raise KafkaUnavailable(f"no token from {place}: {e or type(e).__name__}") from e
    if answer.status != _OK:
        raise KafkaUnavailable(f"no token from {place}: it answers {answer.status}{_error_in(body)}")
    return body


def _connection(scheme: str, host: str, port: int | None, trusted: str | None) -> http.client.HTTPConnection:
    if scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    context = ssl.create_default_context(cafile=trusted)
    return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)


def _cut(sock: socket.socket) -> None:
    """Ends a request that takes too long: the socket's own timeout begins anew with every byte."""
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _error_in(body: bytes) -> str:
    """Returns the error code of RFC 6749, 5.2, as `: invalid_client`; nothing if there is none."""
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return ""
    return f": {error[:100]}" if isinstance(error, str) else ""
