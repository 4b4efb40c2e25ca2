"""Tests that the table [otlp] is read as it is documented, and that a mistake in it is named without secrets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from service import settings
from service.cli import exposure
from service.settings import DOCUMENT, SettingsError, for_ingest, for_service


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "SETTINGS", *(name.upper() for name in settings.Settings.model_fields)):
        monkeypatch.delenv(f"TXNSCOPE_{name}", raising=False)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "txnscope.toml"


def test_nothing_is_exported_by_default() -> None:
    assert settings.load({}).otlp is None


def test_an_endpoint_alone_gets_metrics_and_traces(config: Path) -> None:
    config.write_text('[otlp]\nendpoint = "http://collector:4318/"\n')
    otlp = settings.load({}, str(config)).otlp
    assert otlp is not None
    assert (otlp.endpoint, otlp.metrics, otlp.traces) == ("http://collector:4318", True, True)
    assert (otlp.interval, otlp.traces_per_minute) == (15_000, 100)
    assert "collector" not in repr(otlp)


def test_a_variable_can_name_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TXNSCOPE_OTLP", '{"endpoint": "https://collector", "interval": "1m"}')
    otlp = settings.load({}).otlp
    assert otlp is not None
    assert otlp.interval == 60_000


def test_only_the_service_gets_the_table(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text('[otlp]\nendpoint = "http://collector:4318"\ninterval = "30s"\nca = "/etc/ca.pem"\n')
    given = settings.load({}, str(config))
    assert "otlp" not in json.loads(for_ingest(given)[DOCUMENT])
    monkeypatch.setenv(DOCUMENT, for_service(given)[DOCUMENT])
    assert settings.load({}).otlp == given.otlp


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("metrics = true", "endpoint is missing: write endpoint = "),
        ('endpoint = "collector:4318"', "endpoint is no address like http://collector:4318"),
        ('endpoint = "http://s3cret@collector"', "endpoint has a user or a password"),
        ('endpoint = "http://collector?key=s3cret"', "endpoint has a query or a fragment"),
        ('endpoint = "http://c"\nmetrics = false\ntraces = false', "metrics and traces are both false"),
        ('endpoint = "http://c"\ninterval = "10m"', "interval: '10m' is not between 1s and 5m"),
        ('endpoint = "http://c"\ninterval = 15', "interval: 15 is no duration like"),
        ('endpoint = "http://c"\ntraces_per_minute = 0', "traces_per_minute: 0: "),
        ('endpoint = "http://c"\nattributes = {"service.name" = "x"}', "service.name is set by txnscope"),
        ('endpoint = "http://c"\nheader_file = "x"', "unknown key 'header_file' (did you mean headers_file?)"),
    ],
)
def test_a_mistake_in_the_table_is_named_in_one_line(table: str, says: str, config: Path) -> None:
    config.write_text(f"[otlp]\n{table}\n")
    with pytest.raises(SettingsError) as raised:
        settings.load({}, str(config))
    assert says in str(raised.value)
    assert "s3cret" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_with_secrets_that_others_can_read_is_named(config: Path, tmp_path: Path) -> None:
    headers, token = tmp_path / "headers", tmp_path / "token"
    for file in (headers, token):
        file.write_text("a: b")
        file.chmod(0o644)
    config.write_text(f'[otlp]\nendpoint = "http://c"\nheaders_file = "{headers}"\nbearer_file = "{token}"\n')
    config.chmod(0o600)
    lines = list(exposure.warnings(settings.load({}, str(config)), ("kafka_config",), str(config)))
    assert [line.partition(":")[0] for line in lines] == [str(token), str(headers)]
