"""Tests of OIDC tokens with a real issuer on loopback: which tokens are accepted, and how often the issuer is asked."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from service.access.authenticator import Authenticator
from service.access.configuration import AuthConfig, Oidc
from service.access.principal import parse_grants
from service.access.refusals import BadCredentials
from tests.helpers.access import bearer, guarded

ROLES = {"oncall": parse_grants(["operator@orders"]), "everybody": parse_grants(["viewer"])}


class Issuer:
    """An issuer with one signing key at a time. `asked` has the paths that were requested. While `is_down` is true,
    every answer is 500."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.is_down = False
        self.keys: dict[str, ec.EllipticCurvePrivateKey] = {}
        self.rotate("first")
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append(self.path)
                body = json.dumps(issuer.answer(self.path)).encode()
                self.send_response(500 if issuer.is_down else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - the base class names it
                """Suppresses the log of requests on stderr."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/realm"

    def answer(self, path: str) -> dict[str, Any]:
        if path.endswith("/openid-configuration"):
            return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        public = {kid: json.loads(ECAlgorithm.to_jwk(key.public_key())) for kid, key in self.keys.items()}
        return {"keys": [{**one, "kid": kid, "use": "sig", "alg": "ES256"} for kid, one in public.items()]}

    def rotate(self, kid: str) -> None:
        self.keys = {kid: ec.generate_private_key(ec.SECP256R1())}

    def token(self, key: Any = None, algorithm: str = "ES256", kid: str | None = None, **claims: Any) -> str:
        known, private = next(iter(self.keys.items()))
        now = int(time.time())
        given = {"iss": self.url, "aud": "txnscope", "sub": "ann", "exp": now + 600, "groups": ["oncall", "x"]} | claims
        given = {name: value for name, value in given.items() if value is not None}
        return jwt.encode(given, key or private, algorithm=algorithm, headers={"kid": kid or known})


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    one = Issuer()
    serving = threading.Thread(target=one.server.serve_forever, args=(0.01,))
    serving.start()
    yield one
    one.server.shutdown()
    serving.join()
    one.server.server_close()


def authenticator(issuer: Issuer, **more: Any) -> Authenticator:
    config = AuthConfig(oidc=Oidc(issuer=issuer.url, audience="txnscope", roles=ROLES, **more))
    return Authenticator(config, {}, lambda: ())


def test_a_token_gives_its_name_and_the_roles_of_its_groups(issuer: Issuer) -> None:
    here = authenticator(issuer)
    header = bearer(issuer.token())["Authorization"]
    assert here.known(header, 0.0) is None
    principal = here.check(header, 0.0)
    assert (principal.name, principal.grants) == ("ann", ROLES["oncall"])
    assert here.known(header, 1.0) == principal
    assert here.known(header, 61.0) is None
    for _ in range(20):
        here.check(bearer(issuer.token(sub="bob", groups=["oncall", "everybody"]))["Authorization"], 0.0)
    assert issuer.asked == ["/realm/.well-known/openid-configuration", "/realm/keys"]


def test_the_settings_name_the_claims_of_a_token(issuer: Issuer) -> None:
    here = authenticator(issuer, roles_claim="roles", name_claim="email", jwks_url=f"{issuer.url}/keys")
    token = issuer.token(groups=None, roles="everybody", email="ann@example.org")
    principal = here.check(bearer(token)["Authorization"], 0.0)
    assert (principal.name, principal.grants) == ("ann@example.org", ROLES["everybody"])
    assert issuer.asked == ["/realm/keys"]


def _forged(issuer: Issuer) -> dict[str, str]:
    """Returns tokens that must be refused, keyed by their defect."""
    other, now = ec.generate_private_key(ec.SECP256R1()), int(time.time())
    head, claims, signature = issuer.token().split(".")
    public = issuer.answer("/keys")["keys"][0]
    return {
        "another key": issuer.token(other),
        "unknown key": issuer.token(other, kid="second"),
        "expired": issuer.token(exp=now - 60),
        "not yet": issuer.token(nbf=now + 600),
        "no end": issuer.token(exp=None),
        "another audience": issuer.token(aud="grafana"),
        "no audience": issuer.token(aud=None),
        "another issuer": issuer.token(iss="https://evil.example"),
        "no name": issuer.token(sub=None),
        "no role": issuer.token(groups=["strangers"]),
        "odd groups": issuer.token(groups={"oncall": True}),
        "none": jwt.encode({"iss": issuer.url, "aud": "txnscope", "sub": "ann", "exp": now + 600}, "", "none"),
        "public key as secret": issuer.token(public["x"].ljust(64), "HS256"),
        "changed claims": f"{head}.{claims[:-4]}AAAA.{signature}",
        "no signature": f"{head}.{claims}.",
        "nonsense": "a.b.c",
    }


def test_a_forged_token_is_refused(issuer: Issuer) -> None:
    here = authenticator(issuer)
    for what, token in _forged(issuer).items():
        with pytest.raises(BadCredentials) as error:
            here.check(f"Bearer {token}", 0.0)
        assert token not in str(error.value), what
        assert here.known(f"Bearer {token}", 1.0) is None
    assert len(issuer.asked) < 5, "bad tokens caused many requests to the issuer"


def test_a_token_is_refused_after_its_expiry(issuer: Issuer) -> None:
    here = authenticator(issuer)
    header = bearer(issuer.token(exp=int(time.time()) + 5))["Authorization"]
    assert here.check(header, 0.0)
    assert here.known(header, 6.0) is None


def test_an_issuer_that_is_down_is_asked_seldom_and_known_tokens_pass(issuer: Issuer) -> None:
    here = authenticator(issuer)
    issuer.is_down = True
    for _ in range(5):
        with pytest.raises(BadCredentials, match="the token is not valid"):
            here.check(bearer(issuer.token())["Authorization"], 0.0)
    assert len(issuer.asked) == 1
    issuer.is_down, late = False, authenticator(issuer)
    header = bearer(issuer.token())["Authorization"]
    assert late.check(header, 0.0)
    issuer.is_down = True
    assert late.known(header, 1.0)
    assert late.check(header, 100.0), "the issuer's signing key is known"


def test_an_unusable_file_of_authorities_is_named(issuer: Issuer, tmp_path: Path) -> None:
    (tmp_path / "empty.pem").touch()
    for name in ("missing.pem", "empty.pem"):
        here = authenticator(issuer, ca=str(tmp_path / name))
        with pytest.raises(BadCredentials, match=rf"\[auth.oidc\] ca .*{name}: "):
            here.check(bearer(issuer.token())["Authorization"], 0.0)


def test_tokens_open_routes_by_their_roles(issuer: Issuer, tmp_path: Path) -> None:
    auth = AuthConfig(keys=True, oidc=Oidc(issuer=issuer.url, audience="txnscope", roles=ROLES))
    with guarded(f"sqlite:///{tmp_path / 'store.db'}", auth) as here:
        asked = {
            path: here.client.get(path, headers=bearer(issuer.token())).status_code
            for path in ("/api/v1/clusters/orders", "/api/v1/clusters/orders/audit", "/api/v1/clusters/payments")
        }
        assert list(asked.values()) == [200, 200, 403]
        assert here.ask("viewer", "/api/v1/clusters/orders").status_code == 200
        refused = here.client.get("/", headers=bearer(issuer.token(aud="grafana")))
        assert refused.status_code == 401
