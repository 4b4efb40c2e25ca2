"""Tests that the product has everything that the rendered manifests name: commands, flags, settings, paths, ports and
addresses."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from argparse import Namespace
from pathlib import Path, PurePosixPath
from typing import Final

import pytest
from fastapi.routing import APIRoute

from service.access.hosts import AllowedHosts
from service.access.needs import OPEN
from service.api.routes import health
from service.cli.exposure import check_exposure
from service.cli.kafka import canary_plans
from service.cli.parser import parse
from service.settings import ENV_PREFIX, Settings, load
from spark_jobs.runtime.watchdog import liveness_reporter
from tests.deploy.containerfile import lineage
from tests.deploy.helm.rendering import (
    EXAMPLES,
    NAMESPACE,
    Manifest,
    component,
    mounted,
    of_kind,
    one,
    pods,
    rendered,
)
from tests.helpers.access import HASHED
from tests.helpers.brokers import free_port
from tests.helpers.certificates import Authority
from tests.helpers.stores import SeededCluster
from tests.helpers.waiting import LIMIT_S
from tests.service.cli.test_running import Command

SECRETS: Final = {
    "TXNSCOPE_STORE": "postgresql://txnscope@postgres/txnscope",
    "TXNSCOPE_AUTH": json.dumps({"keys": True, "basic": {"ann": {"password": HASHED.text, "roles": ["viewer"]}}}),
    "TXNSCOPE_OPERATORS": json.dumps({"ann": "4d9c6b0f7e21a835"}),
    "PGPASSWORD": "s3cret",
}
NOT_SETTINGS: Final = {"PGPASSWORD", "POD_IP"}
"""Variables that are not settings of txnscope. libpq reads PGPASSWORD, and values of other variables refer to POD_IP.
"""
COMMANDS: Final = {"job": "ingest", "service": "serve", "migration": "migrate"}


def environment(container: Manifest) -> dict[str, str]:
    """Returns the variables as the container gets them. If the manifest has no value for a variable, the value comes
    from SECRETS, or else is the pod's address, 10.0.0.7."""
    found: dict[str, str] = {}
    for variable in container.get("env", ()):
        value = variable.get("value", SECRETS.get(variable["name"], "10.0.0.7"))
        for known, text in found.items():
            value = value.replace(f"$({known})", text)
        found[variable["name"]] = value
    return found


def flags_of(container: Manifest) -> Namespace:
    return parse([str(argument) for argument in container["args"]])


def settings_of(manifests: list[Manifest], pod: Manifest, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Settings:
    """Returns the settings with which the pod's only container runs. Changes the environment of this process to that of
    the container, and writes the file of settings into `folder`."""
    (container,) = pod["containers"]
    for name in [name for name in os.environ if name.startswith(ENV_PREFIX)]:
        monkeypatch.delenv(name)
    for name, value in environment(container).items():
        monkeypatch.setenv(name, value)
    flags = flags_of(container)
    file = folder / "txnscope.toml"
    file.write_text(content(manifests, pod, container, flags.config))
    return load({name: getattr(flags, name) for name in flags.command.settings}, str(file))


def content(manifests: list[Manifest], pod: Manifest, container: Manifest, path: str) -> str:
    """Returns the content of the file at `path` in the container. The file comes from a mounted ConfigMap."""
    place = PurePosixPath(path)
    described = mounted(pod, container)[str(place.parent)]["configMap"]
    (key,) = [item["key"] for item in described["items"] if item["path"] == place.name]
    (found,) = [m for m in of_kind(manifests, "ConfigMap") if m["metadata"]["name"] == described["name"]]
    return str(found["data"][key])


def deployed(example: str, part: str, *more: str) -> list[tuple[str, Manifest]]:
    """Returns (name, pod) of each Deployment of the component. `more`: further arguments for Helm."""
    found = [m for m in of_kind(rendered(example, *more), "Deployment") if component(m) == part]
    return [(m["metadata"]["name"], m["spec"]["template"]["spec"]) for m in found]


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_command_and_flag_exists(example: str) -> None:
    seen = set()
    for part, pod in pods(rendered(example)):
        for container in pod["containers"]:
            if "args" in container:
                assert flags_of(container).command.name == COMMANDS[part]
                seen.add(part)
            else:
                assert container["command"][0] in ("python", "sh")
                for words in re.findall(r"\btxnscope ([^;&|]+)", container["command"][-1]):
                    parse(words.split())
    assert seen == COMMANDS.keys() - (set() if of_kind(rendered(example), "Job") else {"migration"})


def test_images_begin_with_the_command_that_arguments_are_for() -> None:
    for image in ("job", "service"):
        ((entrypoint,),) = [stage.words("ENTRYPOINT") for stage in lineage(image) if stage.all("ENTRYPOINT")]
        assert entrypoint == "txnscope"


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_variable_is_a_setting(example: str) -> None:
    for _, pod in pods(rendered(example)):
        for container in pod["containers"]:
            names = environment(container).keys() - NOT_SETTINGS
            assert {name.removeprefix(ENV_PREFIX).lower() for name in names} <= Settings.model_fields.keys()
            assert all(name.startswith(ENV_PREFIX) for name in names)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_service_and_each_job_can_use_their_settings(
    example: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    manifests = rendered(example)
    ((_, pod),) = deployed(example, "service")
    service = settings_of(manifests, pod, monkeypatch, tmp_path)
    check_exposure(service)
    watched = {settings.cluster: settings for settings in service.of_each_cluster()}
    jobs = [settings_of(manifests, pod, monkeypatch, tmp_path) for _, pod in deployed(example, "job")]
    assert [job.cluster for job in jobs] == list(watched)
    for job in jobs:
        ours = watched[job.cluster]
        assert job.store == service.store
        assert (job.bootstrap_servers, job.kafka_config) == (ours.bootstrap_servers, ours.kafka_config)
        assert (job.topics, job.mirrored, job.partitions) == (ours.topics, ours.mirrored, ours.partitions)
        assert (job.rules, job.keep) == (service.rules, service.keep)


def test_the_settings_of_the_examples_reach_the_service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ((_, pod),) = deployed("several-clusters", "service")
    settings = settings_of(rendered("several-clusters"), pod, monkeypatch, tmp_path)
    assert settings.url == "https://txnscope.example.org"
    assert [table.name for table in settings.notify] == ["pager"]
    assert list(settings.operators) == ["ann"]
    assert settings.auth.is_on
    orders = settings.of_each_cluster()[0]
    assert orders.canary is not None
    assert str(orders.remediation_config) == "/etc/txnscope/remediation/orders/client.properties"
    ((_, pod),) = deployed("gateway", "service")
    assert settings_of(rendered("gateway"), pod, monkeypatch, tmp_path).mcp


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_path_of_a_setting_is_mounted(example: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for part in ("service", "job"):
        for _, pod in deployed(example, part):
            (container,) = pod["containers"]
            settings = settings_of(rendered(example), pod, monkeypatch, tmp_path)
            paths = [flags_of(container).config, settings.tls_cert, settings.tls_key, settings.tls_client_ca]
            for cluster in settings.of_each_cluster():
                paths += [cluster.kafka_config, cluster.remediation_config]
            folders = mounted(pod, container)
            for path in filter(None, paths):
                assert str(PurePosixPath(path).parent) in folders, path
            if settings.store.startswith("sqlite"):
                assert str(PurePosixPath(settings.store.removeprefix("sqlite:///")).parent) in folders


@pytest.mark.parametrize("example", EXAMPLES)
def test_health_probes_ask_paths_and_ports_that_answer_without_a_login(example: str) -> None:
    routes = {route.path for route in health.router.routes if isinstance(route, APIRoute)}
    ((_, pod),) = deployed(example, "service")
    (container,) = pod["containers"]
    flags = flags_of(container)
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == {"http": int(flags.port)}
    asked = set()
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        if (question := container[probe].get("httpGet")) is None:
            assert flags.tls_client_ca is not None, (
                "only a service that demands client certificates may have a probe without httpGet"
            )
            continue
        asked.add(question["path"])
        assert question["port"] == "http"
        assert question["scheme"] == ("HTTP" if flags.tls_cert is None else "HTTPS")
        assert question["path"] in OPEN & routes
    assert asked == (set() if flags.tls_client_ca else {"/-/healthy", "/-/ready"})


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_probes_of_a_job_ask_the_port_of_its_liveness(example: str) -> None:
    for _, pod in deployed(example, "job"):
        (container,) = pod["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert flags_of(container).liveness == f"0.0.0.0:{ports['liveness']}"
        for probe in ("startupProbe", "livenessProbe"):
            assert container[probe]["httpGet"] == {"path": "/", "port": "liveness"}


@pytest.mark.parametrize("more", [(), ("--set", "job.livenessHost=::")], ids=["IPv4", "IPv6"])
def test_a_job_answers_its_probe_while_it_makes_progress(more: tuple[str, ...]) -> None:
    ((_, pod),) = deployed("postgresql", "job", *more)
    (container,) = pod["containers"]
    port = free_port()
    host, _, _ = flags_of(container).liveness.rpartition(":")
    report = liveness_reporter(f"{host}:{port}")
    mine = "[::1]" if more else "127.0.0.1"
    address = f"http://{mine}:{port}{container['livenessProbe']['httpGet']['path']}"
    with pytest.raises(urllib.error.HTTPError, match="503"):
        urllib.request.urlopen(address, timeout=LIMIT_S)
    report()
    with urllib.request.urlopen(address, timeout=LIMIT_S) as answer:
        assert answer.status == 200


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_service_answers_under_every_name_that_leads_to_it(example: str) -> None:
    manifests = rendered(example)
    ((_, pod),) = deployed(example, "service")
    flags = flags_of(pod["containers"][0])
    hosts = AllowedHosts(flags.host, flags.allowed_hosts)
    service = one(manifests, "Service")
    name, (port,) = service["metadata"]["name"], service["spec"]["ports"]
    assert port["targetPort"] == "http"
    names = [f"{name}:{port['port']}", f"{name}.{NAMESPACE}", f"{name}.{NAMESPACE}.svc", "10.0.0.7:8080"]
    for ingress in of_kind(manifests, "Ingress"):
        names += [rule["host"] for rule in ingress["spec"]["rules"]]
        for rule in ingress["spec"]["rules"]:
            (path,) = rule["http"]["paths"]
            assert path["backend"]["service"] == {"name": name, "port": {"name": port["name"]}}
    for route in of_kind(manifests, "HTTPRoute"):
        names += route["spec"]["hostnames"]
        assert route["spec"]["rules"][0]["backendRefs"] == [{"name": name, "port": port["port"]}]
    for host in names:
        assert hosts.allows(host, "10.0.0.7"), host
    assert not hosts.allows("evil.example", "10.0.0.7")
    for pod in of_kind(manifests, "Pod"):
        asked = re.findall(r"[\w.-]+\.svc", pod["spec"]["containers"][0]["command"][-1])
        assert asked == [f"{name}.{NAMESPACE}.svc"]


def test_executors_of_a_cluster_reach_the_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    manifests = rendered("spark-cluster")
    ((_, pod),) = deployed("spark-cluster", "job")
    settings = settings_of(manifests, pod, monkeypatch, tmp_path)
    ports = {port["name"]: port["containerPort"] for port in pod["containers"][0]["ports"]}
    assert settings.spark_master == "spark://spark-master.spark.svc:7077"
    assert settings.spark_conf == {
        "spark.driver.host": "10.0.0.7",
        "spark.driver.port": str(ports["driver"]),
        "spark.driver.blockManager.port": str(ports["blocks"]),
        "spark.cores.max": "8",
        "spark.executor.memory": "1g",
    }
    opened = [rule["ports"] for m in of_kind(manifests, "NetworkPolicy") for rule in m["spec"].get("ingress") or ()]
    assert [{"port": "driver", "protocol": "TCP"}, {"port": "blocks", "protocol": "TCP"}] in opened


def test_the_canary_of_an_example_has_what_it_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ((_, pod),) = deployed("several-clusters", "service")
    settings = settings_of(rendered("several-clusters"), pod, monkeypatch, tmp_path)
    login = tmp_path / "client.properties"
    login.write_text("security.protocol=PLAINTEXT\n")
    clusters = tuple(cluster.model_copy(update={"kafka_config": login}) for cluster in settings.clusters)
    plans = canary_plans(settings.model_copy(update={"clusters": clusters}), needs_library=False)
    assert len(plans) == 1


def test_a_service_as_rendered_passes_its_probes(tmp_path: Path) -> None:
    """Runs the command of a manifest, with local folders in place of the container's. Then runs the readiness probe and
    the command of `helm test`."""
    manifests = rendered("locked-down")
    ((_, pod),) = deployed("locked-down", "service")
    (container,) = pod["containers"]
    tls, config, kafka = (tmp_path / name for name in ("tls", "config", "kafka"))
    for folder in (tls, config, kafka):
        folder.mkdir()
    authority = Authority(tmp_path / "authority")
    both = authority.issue("service")
    for name, source in (("tls.crt", both), ("tls.key", both), ("ca.crt", authority.certificate)):
        (tls / name).write_bytes(source.read_bytes())
    (kafka / "client.properties").write_text("security.protocol=PLAINTEXT\n")
    places = {"/etc/txnscope/tls": tls, "/etc/txnscope/config": config, "/etc/txnscope/kafka/orders": kafka}

    def here(text: str) -> str:
        for there, folder in places.items():
            text = text.replace(there, str(folder))
        return text

    (config / "txnscope.toml").write_text(here(content(manifests, pod, container, flags_of(container).config)))
    store = f"sqlite:///{tmp_path / 'txnscope.db'}"
    SeededCluster(store).close()
    port = free_port()
    arguments = [here(str(argument)) for argument in container["args"]]
    arguments[arguments.index("--port") + 1] = str(port)
    arguments[arguments.index("--host") + 1] = "127.0.0.1"
    service = Command(tmp_path, *arguments, TXNSCOPE_STORE=store)
    try:
        service.wait_for_text("serving https")
        _, *asked = [str(word) for word in container["readinessProbe"]["exec"]["command"]]
        assert asks(asked, "8080", str(port))
        questions = one(manifests, "Pod")["spec"]["containers"][0]["command"]
        address = f"{one(manifests, 'Service')['metadata']['name']}.{NAMESPACE}.svc"
        _, *asked = [str(word).replace(address, "127.0.0.1") for word in questions]
        assert asks(asked, "8080", str(port))
        assert not asks(asked, "8080", str(free_port())), "nobody listens there"
    finally:
        service.process.terminate()
        service.process.wait(LIMIT_S)


def asks(words: list[str], before: str, after: str) -> bool:
    """Runs Python with the arguments `words`, in which `before` is replaced by `after`. Returns whether the exit code
    is 0."""
    command = [sys.executable, *(word.replace(before, after) for word in words)]
    return subprocess.run(command, capture_output=True, timeout=LIMIT_S, check=False).returncode == 0
