"""Runs an OAuth server on loopback. The server issues tokens for client credentials. It also writes the public key
with which brokers verify the tokens."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any, Final

AUDIENCE: Final = "kafka"


class TokenIssuer:
    """Issues tokens at `issuer.url` for `clients` (id: secret): `with TokenIssuer(directory, {"ann": "secret"}) as
    issuer`. `issuer.keys` is the file with the public key (JWKS). `life_s` is the lifetime of a token in seconds."""

    def __init__(self, directory: Path, clients: dict[str, str], life_s: float = 600) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.clients, self.life_s = clients, life_s
        self.given: list[str] = []
        """The client of each request that got a token."""
        self.forms: list[str] = []
        """The body of each request that got a token."""
        self._key, self.keys = directory / "issuer.key", directory / "jwks.json"
        subprocess.run(["openssl", "genrsa", "-out", self._key, "2048"], check=True, capture_output=True)
        found = subprocess.run(
            ["openssl", "rsa", "-in", self._key, "-noout", "-modulus"], check=True, capture_output=True, text=True
        )
        modulus = bytes.fromhex(found.stdout.strip().partition("=")[2])
        key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "of-the-test", "n": _b64(modulus), "e": "AQAB"}
        self.keys.write_text(json.dumps({"keys": [key]}))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/token"

    def token(self, client: str, life_s: float | None = None) -> str:
        now = int(time.time())
        life = self.life_s if life_s is None else life_s
        claims = {"sub": client, "aud": AUDIENCE, "iat": now, "exp": now + int(life), "scope": "kafka"}
        signed = f"{_json({'alg': 'RS256', 'kid': 'of-the-test'})}.{_json(claims)}"
        signature = subprocess.run(
            ["openssl", "dgst", "-sha256", "-sign", self._key], input=signed.encode(), check=True, capture_output=True
        )
        return f"{signed}.{_b64(signature.stdout)}"

    def __enter__(self) -> TokenIssuer:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self._answer))
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, login: str, form: str) -> tuple[int, dict[str, Any]]:
        client, _, secret = base64.b64decode(login.removeprefix("Basic ")).decode().partition(":")
        if not secret or self.clients.get(client) != secret:
            return 401, {"error": "invalid_client", "error_description": f"not the secret of {client}"}
        self.given.append(client)
        self.forms.append(form)
        return 200, {"access_token": self.token(client), "token_type": "Bearer", "expires_in": int(self.life_s)}


def _handler(answer: Callable[[str, str], tuple[int, dict[str, Any]]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # http.server defines this name
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            status, body = answer(self.headers["Authorization"], form)
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # http.server defines this name
            """Logs nothing."""

    return Handler


def _json(value: dict[str, Any]) -> str:
    return _b64(json.dumps(value).encode())


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
