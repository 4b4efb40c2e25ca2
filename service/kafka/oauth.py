"""Fetches tokens for SASL/OAUTHBEARER from a server, a file or a command, and uses each for most of its lifetime.

The keys are those of Kafka's Java clients (`SaslConfigs`, `OAuthBearerLoginCallbackHandler`); COMMAND is txnscope's own
key, for clouds that supply a Java class which fetches tokens (`sasl.login.callback.handler.class`).
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import shlex
import signal
import ssl
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus, unquote, urlencode, urlsplit

from kafka.net.sasl.oauth import AbstractTokenProvider

from service.clock import wall_clock_ms
from service.kafka.errors import KafkaUnavailable

COMMAND: Final = "txnscope.oauthbearer.token.command"
ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105  # the name of a key
SCOPE: Final = "sasl.oauthbearer.scope"
URL_ENCODES: Final = "sasl.oauthbearer.header.urlencode"
KEYS: Final = (COMMAND, ENDPOINT, CLIENT_ID, CLIENT_SECRET, SCOPE, URL_ENCODES)

COMMAND_TIMEOUT_S: Final = 10.0
ENDPOINT_TIMEOUT_S: Final = 10.0
"""Time limit (s) of each of three steps: the connection, the TLS handshake, and the exchange from the request to the
last byte of the answer."""
REFRESH_AFTER: Final = 0.8
"""Fraction of a token's lifetime after which a new one is requested, as with Java's
`sasl.login.refresh.window.factor`."""
UNKNOWN_LIFE_MS: Final = 60_000
"""Lifetime (ms) assumed for a token that does not show when it expires, such as a token for MSK."""

_MOST_BYTES: Final = 1 << 20
_EXTENSION: Final = "extension_"
_CREDENTIALS: Final = re.compile(r"^([a-z]+://)?[^/]*@", re.IGNORECASE)
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750, 2.1


class Token(NamedTuple):
    """A token. `expires_at_ms`: the time at which it expires, by the issuer's clock, or by the local clock if the time
    was computed from `expires_in`; None if the time is not known."""

    text: str
    expires_at_ms: int | None

    def __repr__(self) -> str:
        return f"Token(…, expires_at_ms={self.expires_at_ms})"


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """An OAuth server that gives tokens for a client id and its secret (RFC 6749, 4.4). `trusted`: PEM file of the
    authorities that may sign the server's certificate; None: the system's authorities. `url_encodes`: True if id and
    secret are form-encoded before they go into the header (RFC 6749, 2.3.1).

    Every source of tokens has a method `fetch` that returns a new token. `fetch` raises KafkaUnavailable with a text
    that names the source, but neither token nor secret.
    """

    url: str = field(repr=False)
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None
    trusted: str | None
    url_encodes: bool = False

    def fetch(self, now_ms: int) -> Token:
        """Sends the request that Kafka's Java client sends. Follows no redirect, so that no other server gets the
        secret."""
        # imported here, because Spark's workers, and most clusters, ask no OAuth server
        from service.http_client import NoAnswer, send

        place = urlsplit(self.url).netloc.rpartition("@")[2]
        login = [quote_plus(one) if self.url_encodes else one for one in (self.client_id, self.client_secret)]
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        headers = {
            "Accept": "application/json",
            "Authorization": f"Basic {base64.b64encode(':'.join(login).encode()).decode('ascii')}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        try:
            answer = send(
                "POST",
                self.url,
                headers,
                urlencode(form).encode(),
                timeout_s=ENDPOINT_TIMEOUT_S,
                tls=lambda: ssl.create_default_context(cafile=self.trusted),
                is_timed_as_a_whole=True,
            )
        except NoAnswer as e:
            raise KafkaUnavailable(f"no token from {place}: {e}") from e
        if answer.status != HTTPStatus.OK:
            raise KafkaUnavailable(f"no token from {place}: it answers {answer.status}{_error_in(answer.body)}")
        return _token_of(answer.body, now_ms, place)


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A file in which another program, such as Kubernetes, keeps a valid token."""

    path: Path

    def fetch(self, now_ms: int) -> Token:
        try:
            with self.path.open("rb") as file:
                return _token_of(file.read(_MOST_BYTES), now_ms, str(self.path))
        except OSError as e:
            raise KafkaUnavailable(f"no token from {self.path}: {e.strerror}") from e


@dataclass(frozen=True, slots=True)
class TokenCommand:
    """A command that prints a token: bare, or as the JSON of an OAuth server (`access_token`, `expires_in`). The
    command runs without a shell."""

    words: tuple[str, ...] = field(repr=False)

    def fetch(self, now_ms: int) -> Token:
        name = Path(self.words[0]).name
        try:
            running = subprocess.Popen(
                self.words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as e:
            raise KafkaUnavailable(f"no token from {name}: {e.strerror}") from e
        with running:
            try:
                out, complaint = running.communicate(timeout=COMMAND_TIMEOUT_S)
            except subprocess.TimeoutExpired as e:
                os.killpg(running.pid, signal.SIGKILL)  # the command's child processes hold the pipes open, too
                raise KafkaUnavailable(f"no token from {name}: it did not end within {COMMAND_TIMEOUT_S:.0f} s") from e
        if running.returncode:
            lines = complaint.decode(errors="replace").strip().splitlines()
            last = f": {lines[-1]}" if lines else ""
            raise KafkaUnavailable(f"no token from {name}: exit code {running.returncode}{last}")
        return _token_of(out, now_ms, name)


TokenSource = ClientCredentials | TokenFile | TokenCommand


def source_of(properties: Mapping[str, str], options: Mapping[str, str]) -> TokenSource:
    """Returns the source of tokens that is configured in client properties. `options`: the options of the JAAS login.
    Raises ValueError with a text that names the keys that are missing or wrong."""
    if command := properties.get(COMMAND):
        try:
            words = tuple(shlex.split(command))
        except ValueError as e:
            raise ValueError(f"{COMMAND}: {str(e).lower()}") from e
        return TokenCommand(words)
    url = properties.get(ENDPOINT)
    if not url:
        raise ValueError(f"sasl.mechanism=OAUTHBEARER needs {ENDPOINT} or {COMMAND}")
    parts = urlsplit(url)
    if parts.scheme == "file":
        return TokenFile(Path(unquote(parts.path)))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        shown = _CREDENTIALS.sub(r"\1", url)
        raise ValueError(f"{ENDPOINT}: {shown!r} is not a URL that begins with https://, http:// or file://")
    client_id = properties.get(CLIENT_ID) or options.get("clientId")
    client_secret = properties.get(CLIENT_SECRET) or options.get("clientSecret")
    if not client_id or not client_secret:
        raise ValueError(f"client id or secret is missing: set {CLIENT_ID} and {CLIENT_SECRET}")
    scope = properties.get(SCOPE) or options.get("scope")
    url_encodes = properties.get(URL_ENCODES, "").lower() == "true"
    trusted = options.get("ssl.truststore.location")
    return ClientCredentials(url, client_id, client_secret, scope, trusted, url_encodes)


def extensions_of(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Returns the SASL extensions of a JAAS login (`extension_logicalCluster` of Confluent Cloud, for instance)."""
    return tuple((key[len(_EXTENSION) :], value) for key, value in options.items() if key.startswith(_EXTENSION))


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # the library has no types
    """Gives kafka-python a token, and fetches a new token after REFRESH_AFTER of the old token's lifetime. If the fetch
    fails, uses the old token until it expires. If the old token does not show when it expires, a failed fetch raises
    KafkaUnavailable."""

    def __init__(
        self,
        source: TokenSource,
        extensions: tuple[tuple[str, str], ...] = (),
        now_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        super().__init__()
        self._source, self._extensions, self._now_ms = source, extensions, now_ms
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._refresh_at_ms = 0

    def token(self) -> str:
        """Returns the text of a valid token. Raises KafkaUnavailable."""
        return self.current().text

    def current(self) -> Token:
        """Returns the token in use, after fetching a new one if that is due. Raises KafkaUnavailable if the
        fetch fails and the old token must not be used any longer."""
        with self._lock:
            now_ms = self._now_ms()
            if self._token is None or now_ms >= self._refresh_at_ms:
                self._renew(now_ms)
            assert self._token is not None
            return self._token

    def extensions(self) -> dict[str, str]:
        return dict(self._extensions)

    def forget(self) -> None:
        """Drops the token. Called when a broker has refused the token."""
        with self._lock:
            self._token = None

    def _renew(self, now_ms: int) -> None:
        try:
            new = self._source.fetch(now_ms)
        except KafkaUnavailable:
            if self._token is None or self._token.expires_at_ms is None or now_ms >= self._token.expires_at_ms:
                raise
            return
        life_ms = UNKNOWN_LIFE_MS if new.expires_at_ms is None else max(new.expires_at_ms - now_ms, 0)
        self._token, self._refresh_at_ms = new, now_ms + int(life_ms * REFRESH_AFTER)


@cache
def provider(source: TokenSource, extensions: tuple[tuple[str, str], ...]) -> TokenProvider:
    """Returns this process's provider for a source. All connections share its token."""
    return TokenProvider(source, extensions)


def _error_in(body: bytes) -> str:
    """Returns a colon and the error code from the body of an error answer (RFC 6749, 5.2), such as `: invalid_client`.
    Returns an empty text if the body has no code."""
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return ""
    return f": {error[:100]}" if isinstance(error, str) else ""


def _token_of(answer: bytes, now_ms: int, place: str) -> Token:
    """Reads a token, bare or as the JSON of an OAuth server. Raises KafkaUnavailable naming `place`."""
    text = answer.decode("ascii", errors="replace").strip()
    life_s: Any = None
    if text.startswith("{"):
        try:
            body = json.loads(text)
        except ValueError as e:
            raise KafkaUnavailable(f"no token from {place}: its answer is not JSON") from e
        text, life_s = body.get("access_token"), body.get("expires_in")
    if not isinstance(text, str) or not _TOKEN.fullmatch(text):
        raise KafkaUnavailable(f"no token from {place}: its answer contains no token")
    expires_at_ms = _expiry_of_jwt(text)
    if expires_at_ms is None and isinstance(life_s, int | float):
        expires_at_ms = now_ms + int(life_s * 1000)
    return Token(text, expires_at_ms)


def _expiry_of_jwt(text: str) -> int | None:
    """Returns the `exp` of a JSON Web Token in ms; None for another kind of token, or one without `exp`."""
    parts = text.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return int(claims["exp"] * 1000)
    except (ValueError, KeyError, TypeError, OverflowError, binascii.Error):
        return None
