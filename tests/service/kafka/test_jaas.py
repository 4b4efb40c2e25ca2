"""Logins as Kafka's own tools read them from the same file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from service.kafka.client import KafkaClient
from service.kafka.client_properties import login
from service.kafka.cluster import cluster_id
from service.kafka.settings import ClientSettings
from tests.helpers.acls import BrokerWithAcls, escaped

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
def test_what_is_in_quotes_is_read_as_java_does(text: str, password: str) -> None:
    assert options(text) == {"password": password}


def test_the_module_and_all_options() -> None:
    found = login.parse(f'\n  {PLAIN} REQUIRED\n  username="scope" password="p"\n  tokenauth=true;\n')
    assert found == login.Login(PLAIN, {"username": "scope", "password": "p", "tokenauth": "true"})


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "no login module in it"),
        ("= required;", "no login module in it"),
        (f'{PLAIN} username="u";', f"no control flag (required) after {PLAIN}"),
        ("only-a-secret", "no control flag (required) after the first word"),
        (f'{PLAIN} required username="u" password="secret"', "no semicolon at its end"),
        (f'{PLAIN} required username password="secret";', "no value for username"),
        (f'{PLAIN} required password="secret;', "no value for password"),
        (f"{PLAIN} required password=two secrets;", "no value for an option"),
        (f'{PLAIN} required username=u "secret";', "no value for an option"),
        (f'{PLAIN} required ; {PLAIN} required password="secret";', "more than one login module"),
    ],
)
def test_what_is_wrong_is_named_and_no_password(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(wrong)}$"):
        login.parse(text)


@pytest.mark.broker
def test_the_file_that_kafkas_tools_log_in_with_is_good_for_us(tmp_path: Path) -> None:
    with BrokerWithAcls("4.3.1", tmp_path, list(HARD), passwords=HARD) as guarded:
        for user in HARD:
            file = guarded.properties(user)
            tool = ("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", guarded.bootstrap)
            guarded.broker.tool(*tool, "--command-config", str(file), "--list")
            with KafkaClient(ClientSettings.load(guarded.bootstrap, file)) as client:
                assert cluster_id(client)


def test_escapes_of_the_test_are_those_of_a_properties_file() -> None:
    assert escaped('a\\"é\n') == 'a\\\\"\\u00e9\\n'
