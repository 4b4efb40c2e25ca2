"""Tests that everything named in deploy/compose/compose.yml exists, and that our containers have few privileges."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from service.access.hosts import AllowedHosts
from service.cli.parser import parse
from service.domain.retention_policy import DEFAULT
from service.settings import ENV_PREFIX, Settings, load
from tests.deploy.compose_files import (
    COMPOSE,
    OURS,
    SECRETS,
    behind,
    compose,
    example_environment,
    mounts,
    published,
    variables,
)
from tests.deploy.containerfile import stages
from tests.helpers.waiting import LIMIT_S

SERVICES = sorted(compose()["services"])
CONFIG = f"{ENV_PREFIX}CONFIG"


@pytest.fixture
def services() -> dict[str, Any]:
    found: dict[str, Any] = compose()["services"]
    return found


def texts(value: Any) -> Iterator[str]:
    """Yields every text in `value`. Keys of mappings are left out."""
    if isinstance(value, dict):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    else:
        yield str(value)


def ours(environment: dict[str, str]) -> dict[str, str]:
    """Returns the variables that txnscope reads, except the one with the path of the settings file. This path is
    different in the container."""
    return {name: value for name, value in environment.items() if name.startswith(ENV_PREFIX) and name != CONFIG}


def test_the_file_has_the_compose_schema() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    result = subprocess.run(
        [*command, str(COMPOSE / "compose.yml")], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("name", SERVICES)
def test_mounted_files_exist_and_are_read_only(services: dict[str, Any], name: str) -> None:
    for mount in mounts(services[name]):
        assert mount.source.exists(), mount
        assert mount.mode == "ro", mount
    named = [volume.split(":")[0] for volume in services[name].get("volumes", ()) if not volume.startswith(".")]
    assert set(named) <= set(compose()["volumes"])


@pytest.mark.parametrize("name", OURS)
def test_commands_and_their_flags_exist(services: dict[str, Any], name: str) -> None:
    flags = parse(services[name]["command"])
    assert flags.command.name == {"job": "ingest", "service": "serve"}[name]
    assert services[name]["command"] == stages()[name].words("CMD")


@pytest.mark.parametrize("name", OURS)
def test_variables_are_settings_and_can_be_used(
    services: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = services[name]["environment"]
    for variable in ours(environment):
        assert variable.removeprefix(ENV_PREFIX).lower() in Settings.model_fields, variable
        monkeypatch.setenv(variable, environment[variable])
    monkeypatch.delenv(CONFIG, raising=False)
    settings = load({}, str(behind(services[name], environment[CONFIG])))
    assert settings.store == "postgresql://txnscope@postgres/txnscope"
    assert settings.bootstrap_servers == "kafka:9092"
    assert settings.kafka_config is None
    assert settings.cluster is None
    assert settings.keep.keep == DEFAULT
    assert not settings.operators


def test_prometheus_reaches_the_service_and_an_open_service_has_no_port(services: dict[str, Any]) -> None:
    environment = services["service"]["environment"]
    assert environment["TXNSCOPE_INSECURE"] == "true"
    assert {address for address, _, _ in published(services["service"])} == {"127.0.0.1"}
    scraped = yaml.safe_load((COMPOSE / "prometheus" / "prometheus.yml").read_text("utf-8"))["scrape_configs"]
    (target,) = next(job for job in scraped if job["job_name"] == "txnscope")["static_configs"][0]["targets"]
    hosts = AllowedHosts("0.0.0.0", environment["TXNSCOPE_ALLOWED_HOSTS"].split())
    assert hosts.allows(target, "172.18.0.3")
    assert not hosts.allows("evil.example", "172.18.0.3")


def test_only_the_service_knows_the_keys_of_operators() -> None:
    key = "0123456789abcdef"
    services = compose(example_environment() | {"OPERATORS": json.dumps({"ann": key})})["services"]
    assert [name for name in sorted(services) if any(key in text for text in texts(services[name]))] == ["service"]


def test_only_the_service_sees_the_login_that_may_write(services: dict[str, Any]) -> None:
    sees = [name for name in OURS if any(mount.source == COMPOSE / "remediation" for mount in mounts(services[name]))]
    assert sees == ["service"]
    path = "/etc/txnscope-remediation/client.properties"
    given = compose(example_environment() | {"REMEDIATION_CONFIG": path})["services"]
    assert [name for name in OURS if path in texts(given[name])] == ["service"]
    assert behind(given["service"], path).parent == COMPOSE / "remediation"


@pytest.mark.parametrize("name", OURS)
def test_our_containers_have_minimal_privileges(services: dict[str, Any], name: str) -> None:
    container = services[name]
    assert container["user"] == "10001:10001"
    assert container["read_only"] is True
    assert container["cap_drop"] == ["ALL"]
    assert "cap_add" not in container
    assert not container.get("privileges", container.get("privileged"))
    assert [mount.split(":")[0] for mount in container["tmpfs"]] == ["/tmp"]
    assert all(mount.mode == "ro" for mount in mounts(container))


@pytest.mark.parametrize("name", SERVICES)
def test_no_container_gains_privileges_or_listens_beyond_loopback(services: dict[str, Any], name: str) -> None:
    assert "no-new-privileges:true" in services[name]["security_opt"]
    assert {address for address, _, _ in published(services[name])} <= {"127.0.0.1"}


def test_no_two_services_publish_the_same_port(services: dict[str, Any]) -> None:
    ports = [host for service in services.values() for _, host, _ in published(service)]
    assert len(ports) == len(set(ports))


@pytest.mark.parametrize("name", SERVICES)
def test_images_are_pinned(services: dict[str, Any], name: str) -> None:
    image = services[name]["image"]
    assert re.fullmatch(r"[\w./-]+:v?\d[\w.-]*", image), image
    assert ("build" in services[name]) == (name in OURS)


@pytest.mark.parametrize("name", OURS)
def test_our_images_are_built_from_this_repository(services: dict[str, Any], name: str) -> None:
    build = services[name]["build"]
    context = (COMPOSE / build["context"]).resolve()
    assert (context / build["dockerfile"]).resolve() == COMPOSE / "Containerfile"
    assert build["target"] == name
    assert name in stages()


@pytest.mark.parametrize("name", SERVICES)
def test_secrets_are_in_the_environment_alone(services: dict[str, Any], name: str) -> None:
    elsewhere = {key: value for key, value in services[name].items() if key != "environment"}
    assert not [text for text in texts(elsewhere) for secret in SECRETS.values() if secret in text]
    assert not [text for text in texts(services[name]) if re.search(r"://[^/\s]*:[^/\s]*@", text)]


@pytest.mark.parametrize("missing", [*sorted(SECRETS), "KAFKA_BOOTSTRAP_SERVERS"])
def test_a_variable_without_a_default_is_required(missing: str) -> None:
    with pytest.raises(KeyError, match=missing):
        compose({name: value for name, value in example_environment().items() if name != missing})


def test_the_example_has_every_variable() -> None:
    result = set(re.findall(r"^#?(\w+)=", (COMPOSE / ".env.example").read_text("utf-8"), re.MULTILINE))
    assert result == variables() | {"COMPOSE_PROFILES"}


def test_no_service_needs_the_services_of_the_demo(services: dict[str, Any]) -> None:
    assert example_environment()["COMPOSE_PROFILES"] == "demo"
    demo = {name for name, service in services.items() if service.get("profiles") == ["demo"]}
    assert demo == {"kafka", "orders", "settlement"}
    for name, service in services.items():
        wanted = set(service.get("depends_on", ()))
        assert wanted <= services.keys()
        assert name in demo or not wanted & demo, name
        for other, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}
            assert "healthcheck" in services[other], other


def test_the_demo_broker_advertises_the_addresses_that_clients_use(services: dict[str, Any]) -> None:
    environment = services["kafka"]["environment"]
    inside, outside = environment["KAFKA_ADVERTISED_LISTENERS"].split(",")
    assert inside == f"INSIDE://{example_environment()['KAFKA_BOOTSTRAP_SERVERS']}"
    assert [f"OUTSIDE://localhost:{host}" for _, host, _ in published(services["kafka"])] == [outside]
    assert services["kafka"]["hostname"] == "kafka"
    listeners = {listener.split("://")[0] for listener in environment["KAFKA_LISTENERS"].split(",")}
    mapped = dict(pair.split(":") for pair in environment["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(","))
    assert listeners == mapped.keys()
    assert {environment["KAFKA_INTER_BROKER_LISTENER_NAME"], environment["KAFKA_CONTROLLER_LISTENER_NAMES"]} < listeners
    for setting in ("OFFSETS_TOPIC", "TRANSACTION_STATE_LOG"):
        assert environment[f"KAFKA_{setting}_REPLICATION_FACTOR"] == "1", "there is one broker"
