"""Tests of OAuth logins: JAAS texts as Kafka's own tools read them, tokens, and the servers that issue tokens."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from service.kafka import librdkafka, oauth
from service.kafka.client import KafkaClient
from service.kafka.client_properties import login
from service.kafka.cluster import cluster_id
from service.kafka.errors import KafkaUnavailable
from service.kafka.oauth import ClientCredentials, Token, TokenCommand, TokenFile, TokenProvider
from service.kafka.settings import ClientSettings
from tests.helpers.acls import BrokerWithAcls, escaped
from tests.helpers.certificates import Authority
from tests.helpers.servers import Served, serving
from tests.service.kafka.properties import refusal

OAUTH = "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"


def jwt(expires_at_s: float) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expires_at_s}).encode()).decode().rstrip("=")
    return f"e30.{claims}.c2ln"


@dataclass
class Issuer:
    """An issuer of tokens that are valid for 100 s. While `down` is true, no token is issued."""

    down: bool = False
    given: list[str] = field(default_factory=list)

    def fetch(self, now_ms: int) -> Token:
        if self.down:
            raise KafkaUnavailable("no token from the issuer: it is down")
        self.given.append(f"token-{len(self.given)}")
        return Token(self.given[-1], now_ms + 100_000)


class TestOneToken:
    def test_a_new_token_is_fetched_before_the_old_token_expires(self) -> None:
        now_ms, issuer = [0], Issuer()
        provider = TokenProvider(issuer, (), lambda: now_ms[0])  # type: ignore[arg-type]
        assert [provider.token(), provider.token()] == ["token-0", "token-0"]
        now_ms[0] = 79_999
        assert provider.token() == "token-0"
        now_ms[0] = 80_000
        assert provider.token() == "token-1"

    def test_an_issuer_that_is_down_does_no_harm_until_the_token_expires(self) -> None:
        now_ms, issuer = [0], Issuer()
        provider = TokenProvider(issuer, (), lambda: now_ms[0])  # type: ignore[arg-type]
        provider.token()
        issuer.down, now_ms[0] = True, 99_999
        assert provider.token() == "token-0"
        now_ms[0] = 100_000
        with pytest.raises(KafkaUnavailable, match="it is down"):
            provider.token()
        issuer.down = False
        assert provider.token() == "token-1"

    def test_librdkafka_gets_a_token_with_its_time_of_expiry(self, tmp_path: Path) -> None:
        token = tmp_path / "token"
        token.write_text(jwt(4_000_000_000))
        file = tmp_path / "client.properties"
        file.write_text(f"{OAUTH}sasl.oauthbearer.token.endpoint.url={token.as_uri()}\n")
        callback = librdkafka.config(ClientSettings.load("127.0.0.1:9092", file))["oauth_cb"]
        assert callback("") == (token.read_text(), 4_000_000_000.0, "", {})

    def test_a_refused_token_is_not_used_again(self) -> None:
        provider = TokenProvider(Issuer(), (("logicalCluster", "lkc-1"),))  # type: ignore[arg-type]
        provider.token()
        provider.forget()
        assert provider.token() == "token-1"
        assert provider.extensions() == {"logicalCluster": "lkc-1"}


class TestExpiry:
    @pytest.mark.parametrize(
        ("printed", "token", "expires_at_ms"),
        [
            ("opaque", "opaque", None),
            (jwt(5_000), jwt(5_000), 5_000_000),
            (f'{{"access_token": "{jwt(5_000)}", "expires_in": 7}}', jwt(5_000), 5_000_000),
            ('{"access_token": "opaque", "expires_in": 7}', "opaque", 1_007_000),
            ('{"access_token": "opaque"}', "opaque", None),
            ("a.b.c", "a.b.c", None),
        ],
    )
    def test_a_printed_token_has_its_expiry(
        self, tmp_path: Path, printed: str, token: str, expires_at_ms: int | None
    ) -> None:
        file = tmp_path / "token"
        file.write_text(f"{printed}\n")
        assert TokenFile(file).fetch(1_000_000) == Token(token, expires_at_ms)

    @pytest.mark.parametrize(
        "printed", ["", "two words", "{", '{"error": "x"}', "[]\x01", "pässwörd", '{"access_token": 1}']
    )
    def test_a_text_that_is_no_token_is_not_shown(self, tmp_path: Path, printed: str) -> None:
        file = tmp_path / "token"
        file.write_text(printed)
        with pytest.raises(
            KafkaUnavailable, match=rf"^no token from {file}: its answer (contains no token|is not JSON)$"
        ):
            TokenFile(file).fetch(0)


class TestCommand:
    def test_a_command_that_does_not_end_is_ended_with_its_children(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(oauth, "COMMAND_TIMEOUT_S", 0.5)
        program = tmp_path / "giver"
        program.write_text("#!/bin/sh\nsleep 600\n")
        program.chmod(0o755)
        began = time.monotonic()
        with pytest.raises(KafkaUnavailable, match=r"^no token from giver: it did not end within 0 s$"):
            TokenCommand((str(program),)).fetch(0)
        assert time.monotonic() - began < 60

    def test_a_missing_command_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(KafkaUnavailable, match=r"^no token from gone: No such file or directory$"):
            TokenCommand((str(tmp_path / "gone"),)).fetch(0)


@contextmanager
def asking(answer: Served) -> Iterator[ClientCredentials]:
    with serving(answer) as address:
        yield ClientCredentials(f"http://u:s3cret@{address}/token?tenant=1", "ann", "s3cret", None, None)


class TestEndpoint:
    @pytest.mark.parametrize(
        ("answer", "why"),
        [
            (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", "it answers 302"),
            (b'HTTP/1.1 400 Bad\r\n\r\n{"error": "invalid_scope"}', "it answers 400: invalid_scope"),
            (b"HTTP/1.1 200 OK\r\n\r\n<html>", "its answer contains no token"),
            (b"\0\0\0\1garbage\r\n\r\n", r".*garbage.*"),
            (b"", "Server disconnected without sending a response"),
        ],
    )
    def test_a_failing_endpoint_is_named_in_one_line_without_the_secret(self, answer: bytes, why: str) -> None:
        with asking(Served(answer)) as credentials, pytest.raises(KafkaUnavailable) as failure:
            credentials.fetch(0)
        place = credentials.url.split("/")[2].removeprefix("u:s3cret@")
        assert re.fullmatch(f"no token from {place}: {why}", str(failure.value))
        assert "s3cret" not in str(failure.value) + repr(credentials)

    @pytest.mark.parametrize("sent", [b"", b"H", b"HTTP/1.1 200 OK\r\n\r\n{"])
    def test_an_endpoint_that_never_ends_its_answer_is_given_up(
        self, monkeypatch: pytest.MonkeyPatch, sent: bytes
    ) -> None:
        monkeypatch.setattr(oauth, "ENDPOINT_TIMEOUT_S", 0.5)
        with asking(Served(sent, then_every_s=0.1, more=b" ")) as credentials, pytest.raises(KafkaUnavailable):
            credentials.fetch(0)

    def test_an_endless_answer_of_an_endpoint_is_cut_off(self) -> None:
        flood = Served(b"HTTP/1.1 200 OK\r\n\r\n", then_every_s=0, more=b" " * (1 << 20))
        with asking(flood) as credentials, pytest.raises(KafkaUnavailable, match="its answer contains no token"):
            credentials.fetch(0)

    def test_an_endpoint_with_an_expired_certificate_is_named(self, tmp_path: Path) -> None:
        authority = Authority(tmp_path)
        expired = authority.issue("issuer", life=-timedelta(days=1))
        with serving(Served(b""), certificate=expired) as address:
            source = ClientCredentials(f"https://{address}/", "ann", "s3cret", None, str(authority.certificate))
            with pytest.raises(
                KafkaUnavailable, match=f"^no token from {address}: certificate: certificate has expired$"
            ):
                source.fetch(0)


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        (
            "",
            "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url or txnscope.oauthbearer.token.command",
        ),
        ("sasl.oauthbearer.token.endpoint.url=ftp://a/", "'ftp://a/' is not a URL that begins with https://"),
        ("sasl.oauthbearer.token.endpoint.url=ftp://u:pw@a/", "'ftp://a/' is not a URL that begins with https://"),
        ("sasl.oauthbearer.token.endpoint.url=u:pw@a", "'a' is not a URL that begins with https://"),
        (
            "sasl.oauthbearer.token.endpoint.url=https://a/",
            "client id or secret is missing: set sasl.oauthbearer.client.credentials.client.id and",
        ),
        ("txnscope.oauthbearer.token.command=giver 'x", "txnscope.oauthbearer.token.command: no closing quotation"),
        ("txnscope.oauthbearer.token.comand=giver", "txnscope.oauthbearer.token.comand is not supported"),
        (
            "sasl.login.callback.handler.class=com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler",
            "GcpLoginCallbackHandler is for Java only: set txnscope.oauthbearer.token.command",
        ),
        ("sasl.mechanism=AWS_MSK_IAM", "is for Java only: use OAUTHBEARER, and set txnscope.oauthbearer.token.command"),
    ],
)
def test_a_missing_key_is_named(tmp_path: Path, lines: str, wrong: str) -> None:
    assert wrong in refusal(tmp_path, f"{OAUTH}{lines}\n")


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
HARD = {
    "quotes": 'it\'s "quoted"',
    "backslash": r"a\b\\c\n",
    "marks": "p=;#!:w // /* x",
    "unicode": "pässwörd-Ω-秘密",
    "spaces": " two  spaces ",
}


def options(text: str) -> dict[str, str]:
    return login.parse(f"{PLAIN} required {text}").options


@pytest.mark.parametrize(
    ("text", "password"),
    [
        (r'password="a\\b";', r"a\b"),
        (r'password="say \"hi\"";', 'say "hi"'),
        (r"password='it is \'so\'';", "it is 'so'"),
        (r'password="\t\101\0601";', "\tA01"),
        (r'password="\d\\";', "d\\"),
        ("password=plain-word_1.2$;", "plain-word_1.2$"),
        ('password=";";', ";"),
        ('password="";', ""),
        ('password /* spelt out */ = "x" // and said\n ;', "x"),
    ],
)
def test_a_quoted_login_option_is_read_as_java_does(text: str, password: str) -> None:
    assert options(text) == {"password": password}


def test_a_login_has_its_module_and_all_options() -> None:
    found = login.parse(f'\n  {PLAIN} REQUIRED\n  username="scope" password="p"\n  tokenauth=true;\n')
    assert found == login.Login(PLAIN, {"username": "scope", "password": "p", "tokenauth": "true"})


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "no login module"),
        ("= required;", "no login module"),
        (f'{PLAIN} username="u";', f"no control flag, such as `required`, after {PLAIN}"),
        ("only-a-secret", "no control flag, such as `required`, after the first word"),
        (f'{PLAIN} required username="u" password="secret"', "no semicolon at its end"),
        (f'{PLAIN} required username password="secret";', "no value for username"),
        (f'{PLAIN} required password="secret;', "no value for password"),
        (f"{PLAIN} required password=two secrets;", "no value for an option"),
        (f'{PLAIN} required username=u "secret";', "no value for an option"),
        (f'{PLAIN} required ; {PLAIN} required password="secret";', "more than one login module"),
    ],
)
def test_a_wrong_login_is_named_without_its_password(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(wrong)}$"):
        login.parse(text)


@pytest.mark.broker
def test_we_log_in_with_the_same_file_as_kafkas_tools(tmp_path: Path) -> None:
    with BrokerWithAcls("4.3.1", tmp_path, list(HARD), passwords=HARD) as guarded:
        for user in HARD:
            file = guarded.properties(user)
            tool = ("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", guarded.bootstrap)
            guarded.broker.tool(*tool, "--command-config", str(file), "--list")
            with KafkaClient(ClientSettings.load(guarded.bootstrap, file)) as client:
                assert cluster_id(client)


def test_the_test_escapes_values_as_a_properties_file_does() -> None:
    assert escaped('a\\"é\n') == 'a\\\\"\\u00e9\\n'
