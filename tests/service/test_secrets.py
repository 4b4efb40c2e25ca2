"""Tests that secrets are never shown: by repr or str of the objects that hold them (also after pickling), by errors, or
by commands that fail."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from service.access.authenticator import Authenticator, _given
from service.access.configuration import AuthConfig
from service.access.credentials import Hashed, Passwords
from service.api.http.kafka import Kafka
from service.app import create_app
from service.cli import main
from service.kafka import oauth
from service.kafka.client import KafkaClient
from service.kafka.client_properties import login
from service.kafka.errors import KafkaFailure
from service.kafka.settings import ClientSettings
from service.processes.supervisor import ChildCommand, Supervisor
from service.settings import SettingsError, for_service, load
from service.store.engine import open_engine, open_reader
from service.store.errors import StoreError
from spark_jobs.runtime.session import Master
from spark_jobs.settings import IngestSettings
from tests.helpers.reader_options import option_of, through_spark

MARK: Final = "m4rk3d-s3cr3t-0f-th3-t3st"
LOGIN: Final = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{MARK}";'
STORE: Final = f"postgresql://user:{MARK}@127.0.0.1:1/db"
STORE_QUERY: Final = f"postgresql://user@127.0.0.1:1/db?password={MARK}&sslpassword={MARK}"
PROPERTIES: Final = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={LOGIN}\n"
OAUTH: Final = {
    oauth.ENDPOINT: "https://127.0.0.1:1/token",
    oauth.CLIENT_ID: "id",
    oauth.CLIENT_SECRET: MARK,
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "client.properties"
    file.write_text(PROPERTIES + f"ssl.key.password={MARK}\nssl.keystore.key={MARK}\n")
    return file


def client_of(file: Path) -> ClientSettings:
    file.write_text(PROPERTIES)
    return ClientSettings.load("127.0.0.1:1", file)


def provided(file: Path, jaas_config: str) -> ClientSettings:
    """Returns client settings whose JAAS login a config provider reads from another file."""
    (file.parent / "login").write_text(jaas_config)
    of_class = "config.providers.d.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider"
    line = f"sasl.jaas.config=${{d:{file.parent}:login}}"
    file.write_text(f"config.providers=d\n{of_class}\n{PROPERTIES.rpartition('sasl.jaas')[0]}{line}\n")
    return ClientSettings.load("127.0.0.1:1", file)


def ingest_of(file: Path) -> IngestSettings:
    file.write_text(PROPERTIES)
    return IngestSettings.of(load(SETTINGS | {"bootstrap_servers": "127.0.0.1:1", "kafka_config": file}))


SETTINGS: Final = {
    "store": STORE,
    "url": f"http://user:{MARK}@127.0.0.1:8080",
    "operators": {"ann": MARK},
    "spark_conf": {"spark.ssl.keyPassword": MARK},
    "auth": {"keys": True, "basic": {"ann": {"password": Hashed.of(MARK).text, "roles": ["viewer"]}}},
}
HASH: Final = repr(Hashed.parse(SETTINGS["auth"]["basic"]["ann"]["password"]).hash)[2:-1]  # type: ignore[index]


def settings() -> Any:
    return load(SETTINGS)


HOLDERS: Final[dict[str, Callable[[Path, pytest.MonkeyPatch], Any]]] = {
    "settings": lambda _, __: settings(),
    "settings of ingest": lambda file, _: ingest_of(file),
    "settings of readers": lambda file, _: ingest_of(file).reader,
    "Spark's master": lambda _, __: Master("local", (("spark.ssl.keyPassword", MARK),)),
    "client settings": lambda file, _: client_of(file),
    "client settings, pickled": lambda file, _: pickle.loads(pickle.dumps(client_of(file))),
    "client settings after a transfer through Spark": lambda file, _: through_spark(client_of(file)),
    "a connection of the service": lambda file, _: Kafka(client_of(file)),
    "client settings with a config provider": lambda file, _: provided(file, LOGIN),
    "client settings with a config provider, as an option of Spark": lambda file, _: option_of(provided(file, LOGIN)),
    "a JAAS login": lambda _, __: login.parse(LOGIN),
    "a token source": lambda _, __: oauth.source_of(OAUTH, {}),
    "a token provider": lambda _, __: oauth.TokenProvider(oauth.source_of(OAUTH, {})),
    "a token command": lambda _, __: oauth.source_of({oauth.COMMAND: f"print {MARK}"}, {}),
    "a token": lambda _, __: oauth.Token(MARK, None),
    "an engine": lambda _, __: open_engine(STORE),
    "an engine's address": lambda _, __: open_engine(STORE).url,
    "an engine, with the password in the query": lambda _, __: open_engine(STORE_QUERY),
    "a reader, with the password in the query": lambda _, __: open_reader(STORE_QUERY),
    "[auth]": lambda _, __: AuthConfig.model_validate(SETTINGS["auth"]),
    "an authenticator": lambda _, __: Authenticator(AuthConfig.model_validate(SETTINGS["auth"]), {"ann": MARK}, list),
    "passwords": lambda _, __: Passwords({}),
    "a header": lambda _, __: _given(f"Bearer {MARK}"),
    "a child": lambda _, __: ChildCommand("serve", ["x"], for_service(settings())),
    "a supervisor": lambda _, __: Supervisor([ChildCommand("serve", ["x"], for_service(settings()))]),
    "the application": lambda file, _: create_app(STORE, kafka=client_of(file), operators={"ann": MARK}),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_what_holds_a_secret_does_not_show_it(name: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = HOLDERS[name](file, monkeypatch)
    for shown in (repr(held), str(held), repr([held]), f"{held}", f"{held!r}"):
        assert MARK not in shown
        assert HASH not in shown


FAILING: Final[dict[str, Callable[[Path], Any]]] = {
    "a weak key in operators": lambda _: load({"operators": {"ann": MARK[:9]}}),
    "operators given as a text": lambda _: load({"operators": MARK}),
    "a password that is no hash": lambda _: load({"auth": {"basic": {"ann": {"password": MARK, "roles": ["viewer"]}}}}),
    "a Spark setting whose name does not begin with spark.": lambda _: load({"spark_conf": {"x": MARK}}),
    "a store in an unsupported database": lambda _: open_engine(f"mysql://user:{MARK}@host/db"),
    "a store with a bad port": lambda _: open_engine(f"postgresql://user:{MARK}@host:port/db"),
    "a store that does not answer": lambda _: open_engine(STORE).connect(),
    "a store that does not answer, with the password in the query": lambda _: open_reader(STORE_QUERY).connect(),
    "a login without its semicolon": lambda file: ClientSettings.load("h:1", changed(file, LOGIN, LOGIN[:-1])),
    "a password without quotes": lambda file: ClientSettings.load("h:1", changed(file, f'"{MARK}"', f"{MARK}!x")),
    "a key that is no PEM": lambda file: ClientSettings.load(
        "h:1",
        added(file, f"security.protocol=SASL_SSL\nssl.keystore.certificate.chain={MARK}\nssl.keystore.key={MARK}\n"),
    ),
    "a broker that does not answer": lambda file: KafkaClient(client_of(file)),
    "a login from a config provider, without its semicolon": lambda file: provided(file, LOGIN[:-1]),
    "a login from a config provider, with an unsupported module": lambda file: provided(
        file, LOGIN.replace("plain.Plain", "vault.Vault")
    ),
}


def changed(file: Path, old: str, new: str) -> Path:
    file.write_text(PROPERTIES.replace(old, new))
    return file


def added(file: Path, more: str) -> Path:
    file.write_text(PROPERTIES + more)
    return file


@pytest.mark.parametrize("name", FAILING)
def test_an_error_does_not_show_it(name: str, file: Path) -> None:
    """No error contains the secret. A traceback in a log also shows the causes of an error, so the causes must not
    contain the secret either."""
    with pytest.raises((SettingsError, StoreError, KafkaFailure)) as caught:
        FAILING[name](file)
    reported = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    said = [line for line in reported.splitlines() if not line.lstrip().startswith(("return", "def"))]
    assert not [line for line in said if MARK[:9] in line]


@pytest.mark.parametrize(
    "arguments",
    [
        ("serve", "--store", f"mysql://user:{MARK}@host/db"),
        ("serve", "--store", f"postgresql://u:{MARK}@h:x/db?password={MARK}"),
        ("hanging", "--url", f"http://user:{MARK}@127.0.0.1:1 "),
        ("hanging", "--url", f"http://user:{MARK}@127.0.0.1:1"),
        ("migrate", "--store", STORE_QUERY),
    ],
    ids=["another kind", "a bad port", "a bad address", "no service", "no store"],
)
def test_a_command_that_fails_does_not_show_it(arguments: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) != 0
    reported = capfd.readouterr()
    assert MARK not in reported.out + reported.err
    assert len(reported.err.splitlines()) == 1
