"""Installs, upgrades, rolls back and removes the chart on a real API server: `make chart-server`. No controller and no
pod runs. In place of a controller, the test marks jobs as complete."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from deploy.helm.values_table import CHART
from tests.deploy.helm.api_server import ApiServer
from tests.deploy.helm.rendering import EXAMPLES, NAMESPACE, RELEASE, component, helm, of_kind, one, rendered
from tests.helpers.waiting import LIMIT_S

pytestmark = pytest.mark.timeout(3600)

JOBS: Final = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
DEPLOYMENTS: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
NOW: Final = "2026-11-28T10:00:00Z"
OF_OPERATORS: Final = (
    ("monitoring.coreos.com", "ServiceMonitor", "servicemonitors"),
    ("monitoring.coreos.com", "PrometheusRule", "prometheusrules"),
    ("gateway.networking.k8s.io", "HTTPRoute", "httproutes"),
)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Yields a server that also knows the resource kinds of operators (OF_OPERATORS). For these kinds, the server
    accepts any fields."""
    with ApiServer(tmp_path_factory.mktemp("kubernetes")) as server:
        for group, kind, plural in OF_OPERATORS:
            server.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(group, kind, plural))
        yield server


def definition(group: str, kind: str, plural: str) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, of a test"},
        },
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [version]},
    }


def on(server: ApiServer, *words: object) -> str:
    done = helm(*words, "--namespace", NAMESPACE, "--kubeconfig", server.kubeconfig)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def replicas(server: ApiServer) -> dict[str, int]:
    return {each["metadata"]["name"]: each["spec"]["replicas"] for each in server.get(DEPLOYMENTS)["items"]}


@contextmanager
def completing_jobs(server: ApiServer) -> Iterator[list[str]]:
    """Marks each job as complete until the end of the block. Yields a list, to which the names of these jobs are
    added."""
    completed: list[str] = []
    stop = threading.Event()

    def complete() -> None:
        while not stop.wait(0.1):
            for job in server.get(JOBS)["items"]:
                if "status" in job and job["status"].get("succeeded"):
                    continue
                name = job["metadata"]["name"]
                done = [{"type": kind, "status": "True"} for kind in ("SuccessCriteriaMet", "Complete")]
                status = {"succeeded": 1, "startTime": NOW, "completionTime": NOW, "conditions": done}
                server.patch(f"{JOBS}/{name}/status", {"status": status})
                completed.append(name)

    thread = threading.Thread(target=complete)
    thread.start()
    try:
        yield completed
    finally:
        stop.set()
        thread.join(LIMIT_S)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_chart_is_installed_upgraded_rolled_back_and_removed(server: ApiServer, example: str) -> None:
    values = ("--values", EXAMPLES[example])
    said = on(server, "install", RELEASE, CHART, "--create-namespace", *values)
    assert "STATUS: deployed" in said
    first = replicas(server)
    made = of_kind(rendered(example), "Deployment")
    assert first == {each["metadata"]["name"]: each["spec"].get("replicas", 1) for each in made}
    name = next(each["metadata"]["name"] for each in made if component(each) == "job")
    with completing_jobs(server) as completed:
        on(server, "upgrade", RELEASE, CHART, *values, "--set", "job.minReadySeconds=7")
    assert bool(completed) == ("pre-upgrade" in on(server, "get", "hooks", RELEASE))
    assert server.get(f"{DEPLOYMENTS}/{name}")["spec"]["minReadySeconds"] == 7
    on(server, "rollback", RELEASE, "1")
    assert server.get(f"{DEPLOYMENTS}/{name}")["spec"].get("minReadySeconds", 0) != 7
    assert replicas(server) == first
    on(server, "uninstall", RELEASE)
    assert replicas(server) == {}


def test_the_server_refuses_a_field_that_does_not_exist(server: ApiServer) -> None:
    """Without this refusal, the other tests would accept misspelt fields."""
    deployment = one(rendered("postgresql"), "Deployment", "service")
    broken = {**deployment, "spec": {**deployment["spec"], "replicsa": 2}}
    with pytest.raises(AssertionError, match="replicsa"):
        server.post(f"{DEPLOYMENTS}?fieldValidation=Strict", broken)
