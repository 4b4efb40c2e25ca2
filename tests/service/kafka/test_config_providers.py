"""Tests of variables in client.properties that refer to files, directories and the environment. A variable without a
value is refused, and named."""

from __future__ import annotations

import json
import traceback
from pathlib import Path

import pytest

from service.kafka.errors import BadClientConfig
from service.kafka.settings import ClientSettings
from tests.helpers.reader_options import option_of, through_spark
from tests.service.kafka.properties import load, refusal

CLASSES = "org.apache.kafka.common.config.provider"
PROVIDERS = (
    "config.providers=file, dir,env\n"
    f"config.providers.file.class={CLASSES}.FileConfigProvider\n"
    f"config.providers.dir.class={CLASSES}.DirectoryConfigProvider\n"
    f"config.providers.env.class={CLASSES}.EnvVarConfigProvider\n"
)
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SASL = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "kafka.properties").write_text(
        f'password=p w\\u00e4$\\{{x\\}}\nprotocol=SASL_PLAINTEXT\njaas={LOGIN} username="u" password="whole";\n'
    )
    (folder / "word").write_text("of the folder")
    return folder


def password(settings: ClientSettings) -> str:
    found: str = settings.kafka_python()["sasl_plain_password"]
    return found


def jaas(variable: str) -> str:
    return f'{SASL}sasl.jaas.config={LOGIN} username="u" password="{variable}";\n'


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        ("${file:SECRETS/kafka.properties:password}", "p wä${x}"),
        ("${dir:SECRETS:word}", "of the folder"),
        ("${env:TXNSCOPE_TEST_SECRET}", "of the environment"),
        ("<${dir:SECRETS:word}|${env:TXNSCOPE_TEST_SECRET}>", "<of the folder|of the environment>"),
        ("${vault:secret/kafka:password}", "${vault:secret/kafka:password}"),
        ("${word}", "${word}"),
    ],
)
def test_a_variable_in_the_login_is_replaced(
    tmp_path: Path, secrets: Path, variable: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TXNSCOPE_TEST_SECRET", "of the environment")
    assert password(load(tmp_path, PROVIDERS + jaas(variable.replace("SECRETS", str(secrets))))) == expected


def test_a_variable_in_any_value_is_replaced(tmp_path: Path, secrets: Path) -> None:
    file = f"${{file:{secrets}/kafka.properties"
    settings = load(
        tmp_path,
        f"{PROVIDERS}security.protocol={file}:protocol}}\nsasl.mechanism=PLAIN\nsasl.jaas.config={file}:jaas}}\n",
    )
    assert password(settings) == "whole"
    assert settings.kafka_python()["security_protocol"] == "SASL_PLAINTEXT"


def test_without_declared_providers_a_variable_is_text(tmp_path: Path) -> None:
    assert password(load(tmp_path, jaas("${file:/sec/p.properties:password}"))) == "${file:/sec/p.properties:password}"


@pytest.mark.parametrize(
    ("variable", "wrong"),
    [
        ("${file:SECRETS/none:password}", "SECRETS/none: No such file or directory"),
        ("${file:SECRETS/kafka.properties:none}", "no key none in SECRETS/kafka.properties"),
        ("${file:password}", "no path in it"),
        ("${dir:SECRETS:none}", "no file none in SECRETS"),
        ("${dir:SECRETS:../client.properties}", "no file ../client.properties in SECRETS"),
        ("${env:TXNSCOPE_TEST_NONE}", "this environment variable is not set"),
        ("${env:path:TXNSCOPE_TEST_NONE}", "EnvVarConfigProvider takes no path"),
    ],
)
def test_a_variable_without_a_value_is_never_sent(tmp_path: Path, secrets: Path, variable: str, wrong: str) -> None:
    variable, wrong = (text.replace("SECRETS", str(secrets)) for text in (variable, wrong))
    refused = refusal(tmp_path, PROVIDERS + jaas(variable))
    assert refused == f"sasl.jaas.config: {variable}: {wrong}"


def test_only_allowed_files_and_variables_are_read(
    tmp_path: Path, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = (
        f"{PROVIDERS}config.providers.file.param.allowed.paths={secrets}\n"
        f"config.providers.dir.param.allowed.paths={secrets}/sub\n"
        "config.providers.env.param.allowlist.pattern=KAFKA_.*\n"
    )
    (secrets / "sub").mkdir()
    monkeypatch.setenv("OTHER_KAFKA_", "x")
    assert password(load(tmp_path, allowed + jaas(f"${{file:{secrets}/sub/../kafka.properties:password}}")))
    for variable, parameter in {
        f"${{file:{secrets}/../client.properties:sasl.mechanism}}": "file.param.allowed.paths",
        f"${{file:{secrets}-other/x:y}}": "file.param.allowed.paths",
        f"${{dir:{secrets}:word}}": "dir.param.allowed.paths",
        "${env:OTHER_KAFKA_}": "env.param.allowlist.pattern",
    }.items():
        assert f"{variable}: config.providers.{parameter} does not allow it" in refusal(
            tmp_path, allowed + jaas(variable)
        )


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (
            "config.providers=vault\nconfig.providers.vault.class=com.vendor.VaultConfigProvider\n",
            "config.providers.vault.class=com.vendor.VaultConfigProvider is not supported: it can be File",
        ),
        ("config.providers=vault\n", "config.providers names 'vault', but config.providers.vault.class is missing"),
        (
            f"{PROVIDERS}config.providers.file.param.allowed.paths=sec\n",
            "file.param.allowed.paths: sec is not absolute",
        ),
        (f"{PROVIDERS}config.providers.dir.param.allowed.paths=/no/dir\n", "allowed.paths: /no/dir does not exist"),
        (f"{PROVIDERS}config.providers.env.param.allowlist.pattern=(\n", "param.allowlist.pattern: not a pattern: "),
    ],
)
def test_a_provider_that_cannot_be_used_is_named(tmp_path: Path, text: str, wrong: str) -> None:
    assert wrong in refusal(tmp_path, text)


def test_a_value_is_read_anew_for_each_connection_and_kept_nowhere(tmp_path: Path, secrets: Path) -> None:
    settings = load(tmp_path, PROVIDERS + jaas(f"${{dir:{secrets}:word}}"))
    assert "of the folder" not in option_of(settings)
    (secrets / "word").write_text("of the next day")
    assert password(settings.latest()) == "of the next day"
    assert password(through_spark(settings)) == "of the next day"


@pytest.mark.parametrize(
    "line",
    [
        "sasl.jaas.config={}",
        "security.protocol={}",
        "sasl.mechanism={}",
        "ssl.enabled.protocols={}",
        "sasl.login.class={}",
        "sasl.login.callback.handler.class={}",
        "sasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url={}",
        "security.protocol=SSL\nssl.truststore.location={}",
        "security.protocol=SSL\nssl.truststore.certificates={}",
        "bootstrap.servers={}",
    ],
)
def test_a_value_in_the_wrong_place_is_not_shown(tmp_path: Path, secrets: Path, line: str) -> None:
    (secrets / "word").write_text("s3cret-word\n")
    file = tmp_path / "client.properties"
    file.write_text(f"{PROVIDERS}{line.format(f'${{dir:{secrets}:word}}')}\n")
    with pytest.raises(BadClientConfig) as refused:
        ClientSettings.load(None if "bootstrap" in line else "a:1", file)
    assert "s3cret" not in "".join(traceback.format_exception(refused.value))


def test_settings_for_other_machines_hold_the_values(tmp_path: Path, secrets: Path) -> None:
    (secrets / "word").write_text("${env:HOME}")
    there = load(tmp_path, PROVIDERS + jaas(f"${{dir:{secrets}:word}}")).portable()
    assert str(secrets) not in option_of(there)
    assert "config.providers" not in json.dumps(there.properties)
    assert password(through_spark(there)) == "${env:HOME}", "a value that looks like a variable is not resolved again"
