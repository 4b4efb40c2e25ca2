"""Bearer tokens of an OpenID Connect issuer: checks signature, issuer, audience and time, and derives roles from a
claim."""

from __future__ import annotations

import hmac
import json
import secrets
import ssl
import threading
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import jwt
from jwt import PyJWKClient, PyJWKClientError, PyJWTError

from service.access.configuration import Oidc
from service.access.principal import Principal
from service.access.refusals import BadCredentials
from service.http_client import NoAnswer, send

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures with a public key only: with HS256, whoever has the public key could sign."""

LEEWAY_S: Final = 30
"""Seconds by which the clocks of the issuer and of this machine may differ."""

KEPT_S: Final = 60.0
"""Longest time (s) for which a valid token is not checked again."""

_TIMEOUT_S: Final = 5.0
_ASK_AGAIN_S: Final = 10.0
"""Seconds after which an issuer that did not answer is asked again."""
_MOST_KEPT: Final = 10_000
_DISCOVERY: Final = "/.well-known/openid-configuration"


class Tokens:
    """Checks the tokens of one issuer. Safe to call from many threads.

    The issuer's keys are fetched with the first token, and again when they are five minutes old. A token that names an
    unknown key also causes a fetch, but at most every 30 s.
    """

    def __init__(self, config: Oidc) -> None:
        self._config = config
        self._secret = secrets.token_bytes(32)
        self._right: dict[bytes, tuple[Principal, float]] = {}
        self._finding = threading.Lock()
        self._client: PyJWKClient | None = None
        self._asked_at_s = -_ASK_AGAIN_S

    def known(self, token: str, now_s: float) -> Principal | None:
        """Returns the principal of a token that was found valid within the last KEPT_S and has not expired since; None
        for any other token."""
        principal, until_s = self._right.get(self._mark(token), (None, 0.0))
        return principal if now_s < until_s else None

    def check(self, token: str, now_s: float) -> Principal:
        """Returns the principal with the roles of the token's claim. Raises BadCredentials if the token is not valid or
        gives no role, or if the issuer does not answer."""
        try:
            claims = self._claims(token)
        except PyJWTError as error:
            raise BadCredentials(f"the token is not valid: {_line(error)}") from None
        principal = self._principal(claims)
        right = {mark: kept for mark, kept in self._right.items() if now_s < kept[1]}
        if len(right) < _MOST_KEPT:
            left_s = float(claims["exp"]) - time.time()
            right[self._mark(token)] = (principal, now_s + min(KEPT_S, left_s))
        self._right = right
        return principal

    def _claims(self, token: str) -> Mapping[str, Any]:
        kid = jwt.get_unverified_header(token).get("kid")
        if not isinstance(kid, str):
            raise PyJWKClientError("its header names no key (kid)")
        key = self._keys().get_signing_key(kid)
        claims: Mapping[str, Any] = jwt.decode(
            token,
            key,
            algorithms=list(ALGORITHMS),
            audience=self._config.audience,
            issuer=self._config.issuer,
            leeway=LEEWAY_S,
            options={"require": ["exp", "iss", "aud", self._config.name_claim]},
        )
        return claims

    def _principal(self, claims: Mapping[str, Any]) -> Principal:
        given = claims.get(self._config.roles_claim, ())
        values = given if isinstance(given, list) else [given]
        found = [
            self._config.roles[value] for value in values if isinstance(value, str) and value in self._config.roles
        ]
        name = str(claims[self._config.name_claim])
        if not found:
            raise BadCredentials(
                f"the token of {name!r} gives no role: [auth.oidc] has no role for any value of its claim"
                f" {self._config.roles_claim}"
            )
        return Principal(name, frozenset().union(*found))

    def _keys(self) -> PyJWKClient:
        """Returns the client for the issuer's keys. Asks the issuer for the address of the keys, unless `jwks_url` is
        set, or the issuer has reported the address before. Raises PyJWTError."""
        with self._finding:
            if self._client is None:
                if time.monotonic() - self._asked_at_s < _ASK_AGAIN_S:
                    raise PyJWKClientError(f"{self._config.issuer} did not answer")
                trusted = self._trusted()
                self._asked_at_s = time.monotonic()
                url = self._config.jwks_url or self._discover(trusted)
                self._client = PyJWKClient(url, timeout=_TIMEOUT_S, ssl_context=trusted)
            return self._client

    def _trusted(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self._config.ca)
        except OSError as error:
            raise PyJWKClientError(f"[auth.oidc] ca {self._config.ca}: {_line(error)}") from None

    def _discover(self, trusted: ssl.SSLContext) -> str:
        address = self._config.issuer.rstrip("/") + _DISCOVERY
        try:
            answer = send(
                "GET", address, {}, timeout_s=_TIMEOUT_S, tls=lambda: trusted, most_redirects=10, with_proxies=True
            )
            if answer.status != HTTPStatus.OK:
                raise PyJWKClientError(f"{address} answers {answer.status}")
            found = json.loads(answer.body)
            if found["issuer"] != self._config.issuer:
                raise PyJWKClientError(f"{address} names another issuer")
            return str(found["jwks_uri"])
        except (NoAnswer, ValueError, KeyError, TypeError) as error:
            raise PyJWKClientError(f"{address}: {_line(error)}") from None

    def _mark(self, token: str) -> bytes:
        """Returns the key under which a valid token is remembered: a keyed hash, not the token itself."""
        return hmac.digest(self._secret, token.encode("utf-8", "surrogateescape"), "sha256")


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
