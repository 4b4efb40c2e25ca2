"""Tests of files with secrets. A file that a command creates is readable by its owner only. Commands warn of the user's
files that others can read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from service.cli import main
from service.cli.exposure import warnings
from service.settings import load
from service.store.engine import open_engine
from spark_jobs.runtime.direct_batches import scratch_folder
from tests.helpers.waiting import LIMIT_S

KAFKA = ("kafka_config", "tls_key", "key_file", "operator_key_file", "client_cert")
FILE_PROVIDER = (
    "config.providers=f\nconfig.providers.f.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
)
LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def written(path: Path, content: str, mode: int = 0o644) -> Path:
    path.write_text(content)
    path.chmod(mode)
    return path


def reported(settings: dict[str, str], config: Path | None = None) -> list[str]:
    name = None if config is None else str(config)
    return list(warnings(load(settings, name), KAFKA, name))


def test_only_the_owner_can_read_a_store_that_a_command_creates(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    command = [sys.executable, "-m", "service.cli", "migrate", "--store", f"sqlite:///{store}"]
    subprocess.run(command, check=True, umask=0, timeout=LIMIT_S)
    assert mode_of(store) == 0o600
    engine = open_engine(f"sqlite:///{store}")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE t (x)"))
        modes = {file.name: mode_of(file) for file in tmp_path.iterdir()}
    engine.dispose()
    assert modes == {"store.db": 0o600, "store.db-wal": 0o600, "store.db-shm": 0o600}


def test_a_store_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    engine = open_engine(f"sqlite:///{store}")
    engine.connect().close()
    engine.dispose()
    store.chmod(0o640)
    engine = open_engine(f"sqlite:///{store}")
    engine.connect().close()
    engine.dispose()
    assert mode_of(store) == 0o640


def test_only_the_owner_can_read_the_scratch_folder() -> None:
    with scratch_folder() as folder:
        assert mode_of(folder) == 0o700


@pytest.mark.parametrize(("mode", "who"), [(0o644, "everybody on this machine"), (0o640, "its group"), (0o600, None)])
def test_readable_client_properties_with_a_password_are_reported(tmp_path: Path, mode: int, who: str | None) -> None:
    file = written(tmp_path / "client.properties", f"sasl.jaas.config={LOGIN}\n", mode)
    lines = reported({"kafka_config": str(file)})
    warning = f"{file}: {who} can read this file with a secret; to protect it, run: chmod 600 {file}"
    assert lines == ([] if who is None else [warning])


def test_client_properties_without_a_secret_may_be_read_by_all(tmp_path: Path) -> None:
    file = written(tmp_path / "client.properties", "security.protocol=SSL\n")
    assert reported({"kafka_config": str(file)}) == []


def test_a_readable_private_key_of_client_properties_is_reported(tmp_path: Path) -> None:
    key_store = written(tmp_path / "client.pem", "-----BEGIN PRIVATE KEY-----\n")
    trusted = written(tmp_path / "ca.pem", "-----BEGIN CERTIFICATE-----\n")
    properties = f"ssl.keystore.location={key_store}\nssl.truststore.location={trusted}\n"
    file = written(tmp_path / "client.properties", properties)
    assert [line.partition(":")[0] for line in reported({"kafka_config": str(file)})] == [str(key_store)]


def test_a_readable_file_of_a_config_provider_is_reported(tmp_path: Path) -> None:
    secrets = written(tmp_path / "secrets.properties", "password=p\n")
    login = LOGIN.replace('"p"', f'"${{f:{secrets}:password}}"')
    file = written(tmp_path / "client.properties", f"{FILE_PROVIDER}sasl.jaas.config={login}\n")
    assert [line.partition(":")[0] for line in reported({"kafka_config": str(file)})] == [str(secrets)]


@pytest.mark.parametrize("setting", ["key_file", "operator_key_file", "client_cert"])
def test_a_readable_key_of_the_service_is_reported(tmp_path: Path, setting: str) -> None:
    file = written(tmp_path / "my key", "secret")
    (line,) = reported({setting: str(file)})
    assert line.endswith(f"chmod 600 '{file}'")


@pytest.mark.parametrize(
    ("content", "has_secret"),
    [
        ("[operators]\nann = 'wP3nQ7vK9xR2mT5z'\n", True),
        ("store = 'postgresql://u:p@h/db'\n", True),
        ("store = 'postgresql://u@h/db?password=p'\n", True),
        ("store = 'postgresql://u@h/db'\n[keep]\nhistory = '7d'\n", False),
        ("[auth]\nkeys = true\n", False),
        ("[[notify]]\nname = 'a'\nkind = 'apprise'\nurl = 'slack://a/b/c'\n", True),
        ("[[notify]]\nname = 'a'\nkind = 'webhook'\nurl = 'https://u:p@h'\n", True),
        ("[[notify]]\nname = 'a'\nkind = 'webhook'\nurl = 'https://h'\n", False),
    ],
)
def test_a_readable_settings_file_with_a_secret_is_reported(tmp_path: Path, content: str, has_secret: bool) -> None:
    assert len(reported({}, written(tmp_path / "txnscope.toml", content))) == has_secret


def test_a_readable_file_of_a_receiver_is_reported(tmp_path: Path) -> None:
    secret, address = (written(tmp_path / name, "secret") for name in ("secret", "address"))
    table = f"[[notify]]\nname = 'a'\nkind = 'webhook'\nurl_file = '{address}'\nsecret_file = '{secret}'\n"
    lines = reported({}, written(tmp_path / "txnscope.toml", table))
    assert [line.partition(":")[0] for line in lines] == [str(address), str(secret)]


def test_a_readable_file_of_each_cluster_is_reported(tmp_path: Path) -> None:
    files = [written(tmp_path / name, f"sasl.jaas.config={LOGIN}\n") for name in ("a.properties", "b.properties")]
    tables = "".join(
        f"[[clusters]]\nname = '{file.stem}'\nbootstrap_servers = 'h:1'\nkafka_config = '{file}'\n" for file in files
    )
    assert len(reported({}, written(tmp_path / "txnscope.toml", tables))) == 2


def test_a_command_warns_once_and_goes_on(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`serve` fails after the warning, because the directory of its store does not exist."""
    security = "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
    file = written(tmp_path / "client.properties", f"{security}sasl.jaas.config={LOGIN}\n")
    code = main(["serve", "--kafka-config", str(file), "--bootstrap-servers", "h:1", "--store", "sqlite:///no/dir.db"])
    lines = capfd.readouterr().err.splitlines()
    assert code == 2
    assert len(lines) == 2
    assert lines[0].startswith(f"txnscope serve: warning: {file}: everybody")


def test_a_child_of_a_supervisor_does_not_repeat_the_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path / "key", "k")
    monkeypatch.setenv("TXNSCOPE_LIFELINE", "7")
    main(["hanging", "--key-file", str(file), "--url", "http://127.0.0.1:1"])
    assert "warning" not in capfd.readouterr().err


def test_a_path_that_is_no_regular_file_is_not_reported(tmp_path: Path) -> None:
    assert reported({"key_file": "/dev/null", "kafka_config": str(tmp_path / "none")}) == []


def test_ignored_keys_of_client_properties_are_noted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path / "client.properties", "acks=all\nssl.provider=SunJSSE\n")
    command = ["doctor", "--kafka-config", str(file), "--bootstrap-servers", "SSL://127.0.0.1:1"]
    assert main(command) == 3
    lines = capfd.readouterr().err.splitlines()
    name = f"txnscope doctor: note: client properties {file}: "
    assert lines[:2] == [
        f"{name}ignored (only Java clients need them): acks, ssl.provider",
        f"{name}the scheme of SSL://127.0.0.1:1 has no effect: security.protocol is PLAINTEXT (the default)",
    ]
    assert len(lines) == 3
    monkeypatch.setenv("TXNSCOPE_LIFELINE", "7")
    main(command)
    assert "note: " not in capfd.readouterr().err
