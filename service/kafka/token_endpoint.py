"""Asks an OAuth server for a token, within a limit of time and bytes. Follows no redirect: it would take the secret."""

from __future__ import annotations

import base64
import json
import ssl
from typing import Final
from urllib.parse import urlencode, urlsplit

from service.kafka.errors import KafkaUnavailable

TIMEOUT_S: Final = 10.0
"""Longest time for the connection, for the handshake of TLS, and from the request to the last byte of the answer."""

_OK: Final = 200


def ask_endpoint(url: str, client_id: str, client_secret: str, scope: str | None, trusted: str | None) -> bytes:
    """Returns the body of the answer to a request for client credentials, with the header that Kafka's Java client
    sends. Raises KafkaUnavailable naming the server."""
    # here, because Spark's workers, and most clusters, ask no OAuth server
    from service.http_client import NoAnswer, send

    place = urlsplit(url).netloc.rpartition("@")[2]
    login = base64.b64encode(f"{client_id}:{client_secret}".encode()).decode("ascii")
    form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
    headers = {
        "Accept": "application/json",
        "Authorization": f"Basic {login}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    try:
        answer = send(
            "POST",
            url,
            headers,
            urlencode(form).encode(),
            timeout_s=TIMEOUT_S,
            tls=lambda: ssl.create_default_context(cafile=trusted),
            is_timed_as_a_whole=True,
        )
    except NoAnswer as e:
        raise KafkaUnavailable(f"no token from {place}: {e}") from e
    if answer.status != _OK:
        raise KafkaUnavailable(f"no token from {place}: it answers {answer.status}{_error_in(answer.body)}")
    return answer.body


def _error_in(body: bytes) -> str:
    """Returns the error code of RFC 6749, 5.2, as `: invalid_client`; nothing if there is none."""
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return ""
    return f": {error[:100]}" if isinstance(error, str) else ""
