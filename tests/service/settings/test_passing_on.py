"""Tests that a child process gets the settings that it needs, and no others, as one document in its environment."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from service.access.credentials import Hashed
from service.settings import DOCUMENT, Settings, SettingsError, for_ingest, for_service, for_store, load

KEY = "the-key-of-ann-000"
HASHED = Hashed.of("correct-horse-battery").text
EVERYTHING = f"""
bootstrap_servers = "a:1"
kafka_config = "client.properties"
cluster = "orders"
store = "postgresql://me:s3cret@host/db"
checkpoint = "scratch"
port = 1001
allowed_hosts = ["a.example"]
insecure = true
mcp = true
topics = ["orders-*", "pay"]
partitions = "all"
spark_master = "spark://m:7077"

[spark_conf]
"spark.ssl.keyPassword" = "of-spark"

[operators]
ann = "{KEY}"

[auth]
keys = true

[auth.basic.bob]
password = "{HASHED}"
roles = ["operator@orders", "viewer"]

[auth.oidc]
issuer = "https://x"
audience = "a"
roles = {{g = ["viewer"]}}
ca = "/etc/ca.pem"

[keep]
history = "30d"

[[rules]]
prefix = "etl '1'-"
long_after = "2h"
full_history = true

[[applications]]
pattern = '(?P<name>[a-z]+)-\\d+'
kind = "flink"

[[rules]]
topic = "orders*"
owner = "shöp"
mute_until = 2026-01-01T00:00:00.123Z
"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in [name for name in os.environ if name.startswith("TXNSCOPE_")]:
        monkeypatch.delenv(name)
    file = tmp_path / "txnscope.toml"
    file.write_text(EVERYTHING)
    return load({}, str(file))


def in_child(environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Returns the settings that a child process without flags loads."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return load({})


SERVED = {"port", "allowed_hosts", "insecure", "mcp", "operators", "auth"}
INGESTED = {
    "cluster",
    "checkpoint",
    "topics",
    "partitions",
    "spark_master",
    "spark_conf",
    "keep",
    "rules",
    "applications",
}
OF_KAFKA = {"bootstrap_servers", "kafka_config"}


@pytest.mark.parametrize(
    ("passes", "names"),
    [(for_store, set()), (for_service, SERVED | OF_KAFKA), (for_ingest, INGESTED | OF_KAFKA)],
    ids=["store", "service", "ingest"],
)
def test_a_child_gets_exactly_the_settings_that_it_needs(
    passes: Callable[[Settings], dict[str, str]],
    names: set[str],
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    child = in_child(passes(settings), monkeypatch)
    wanted = names | {"store"}
    assert {name for name in Settings.model_fields if getattr(child, name) != getattr(Settings(), name)} == wanted
    assert all(getattr(child, name) == getattr(settings, name) for name in wanted)


def test_keys_and_passwords_reach_only_the_child_that_needs_them(settings: Settings) -> None:
    for secret, has in ((KEY, for_service), (HASHED, for_service), ("of-spark", for_ingest)):
        for passes in (for_store, for_service, for_ingest):
            assert (secret in str(passes(settings))) is (passes is has)


def test_variables_that_the_document_contains_are_cleared(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child inherits its parent's variables. A variable of a setting would override the document."""
    for name in ("TXNSCOPE_AUTH", "TXNSCOPE_PORT", "TXNSCOPE_CONFIG", "TXNSCOPE_LIFELINE"):
        monkeypatch.setenv(name, "7")
    passed = for_ingest(settings)
    assert {name: value for name, value in passed.items() if name != DOCUMENT} == {
        "TXNSCOPE_AUTH": "",
        "TXNSCOPE_PORT": "",
        "TXNSCOPE_CONFIG": "",
    }
    assert in_child(passed, monkeypatch).cluster == "orders"


def test_a_flag_wins_over_the_document(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    in_child(for_ingest(settings), monkeypatch)
    assert load({"cluster": "other"}).cluster == "other"


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ("{", ": not JSON"),
        (json.dumps({"prot": 1}), ": unknown key 'prot' (did you mean port?)"),
        (json.dumps({"port": "x"}), ": port: 'x': Input should be a valid integer"),
        ("[]", ": not a table"),
    ],
)
def test_an_invalid_settings_document_is_refused_in_one_line(
    document: str, says: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DOCUMENT, document)
    with pytest.raises(SettingsError) as raised:
        load({})
    assert str(raised.value).startswith(f"TXNSCOPE_SETTINGS{says}")
