"""Tests that API servers accept the manifests of each example of the chart, and that pods run with few privileges."""

from __future__ import annotations

import json
import subprocess
from copy import deepcopy
from typing import Any, Final

import kubernetes_validate
import pytest

from deploy.helm.values_table import CHART
from tests.deploy.helm.rendering import (
    EXAMPLES,
    NAMESPACE,
    component,
    helm,
    of_kind,
    one,
    pods,
    rendered,
    rendered_text,
    tool,
)
from tests.helpers.go_tools import KUBE_SCORE
from tests.helpers.waiting import LIMIT_S

VERSIONS: Final = ("1.25", "1.28", "1.31", "1.34", "1.37")
"""Versions of Kubernetes against whose API schemas the manifests are checked."""
OF_OPERATORS: Final = {"ServiceMonitor", "PrometheusRule", "HTTPRoute"}
"""Kinds that operators define. The schemas of Kubernetes do not have them."""


def test_there_are_examples_for_each_way_to_run_it() -> None:
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("example", EXAMPLES)
def test_helm_finds_nothing_to_complain_about(example: str) -> None:
    done = helm("lint", CHART, "--strict", "--values", EXAMPLES[example])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 chart(s) failed" in done.stdout


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("example", EXAMPLES)
def test_api_servers_of_five_versions_know_every_field(example: str, version: str) -> None:
    manifests = [one for one in rendered(example) if one["kind"] not in OF_OPERATORS]
    assert manifests
    for manifest in manifests:
        kubernetes_validate.validate(manifest, version, strict=True)


def test_a_misspelt_field_of_a_manifest_would_be_found() -> None:
    manifest = deepcopy(one(rendered("postgresql"), "Deployment", "service"))
    manifest["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="readinesProbe"):
        kubernetes_validate.validate(manifest, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("example", EXAMPLES)
def test_kube_score_finds_nothing_critical(example: str) -> None:
    command = [str(tool(KUBE_SCORE)), "score", "--output-format", "json", "-"]
    done = subprocess.run(
        command, input=rendered_text(example), capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    scored: list[dict[str, Any]] = json.loads(done.stdout)
    assert len(scored) >= len(list(pods(rendered(example))))
    critical = [
        (found["object_name"], check["check"]["id"], check["comments"])
        for found in scored
        for check in found["checks"]
        if not check["skipped"] and check["grade"] <= 1
    ]
    assert critical == []


@pytest.mark.parametrize("example", EXAMPLES)
def test_pods_fit_the_restricted_pod_security_standard(example: str) -> None:
    for _, pod in pods(rendered(example)):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == 10001
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            limits = container["securityContext"]
            assert limits["allowPrivilegeEscalation"] is False
            assert limits["readOnlyRootFilesystem"] is True
            assert limits["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_service_of_the_namespace_sets_no_setting(example: str) -> None:
    """With service links, Kubernetes would set TXNSCOPE_PORT=tcp://… in each pod for a Service named txnscope."""
    assert all(pod["enableServiceLinks"] is False for _, pod in pods(rendered(example)))


@pytest.mark.parametrize("example", EXAMPLES)
def test_selectors_find_the_pods_that_they_are_meant_for(example: str) -> None:
    manifests = rendered(example)
    labels = {
        (component(m), m["metadata"]["name"]): m["spec"]["template"]["metadata"]["labels"]
        for m in of_kind(manifests, "Deployment")
    }
    for manifest in of_kind(manifests, "Deployment"):
        wanted = manifest["spec"]["selector"]["matchLabels"].items()
        found = [key for key, has in labels.items() if wanted <= has.items()]
        assert found == [(component(manifest), manifest["metadata"]["name"])], "no other Deployment's pods"
    selector = one(manifests, "Service")["spec"]["selector"].items()
    assert {part for (part, _), has in labels.items() if selector <= has.items()} == {"service"}
    for budget in of_kind(manifests, "PodDisruptionBudget"):
        wanted = budget["spec"]["selector"]["matchLabels"].items()
        assert {part for (part, _), has in labels.items() if wanted <= has.items()} == {component(budget)}


@pytest.mark.parametrize("example", EXAMPLES)
def test_all_objects_have_the_namespace_and_distinct_names(example: str) -> None:
    names = [(m["kind"], m["metadata"]["name"]) for m in rendered(example)]
    assert len(names) == len(set(names))
    assert {m["metadata"]["namespace"] for m in rendered(example)} == {NAMESPACE}


def test_only_the_service_gets_what_may_write() -> None:
    manifests = rendered("several-clusters")
    for part, pod in pods(manifests):
        text = json.dumps(pod)
        is_service = part == "service"
        assert ("orders-kafka-markers" in text) == is_service
        assert ("TXNSCOPE_OPERATORS" in text) == is_service
        assert ("TXNSCOPE_AUTH" in text) == is_service


def test_a_job_gets_the_login_of_its_own_cluster_alone() -> None:
    jobs = [m for m in of_kind(rendered("several-clusters"), "Deployment") if component(m) == "job"]
    assert {m["metadata"]["labels"]["txnscope-cluster"] for m in jobs} == {"orders", "billing-eu", "reports"}
    for manifest in jobs:
        secrets = [v["secret"]["secretName"] for v in manifest["spec"]["template"]["spec"]["volumes"] if "secret" in v]
        is_orders = manifest["metadata"]["labels"]["txnscope-cluster"] == "orders"
        assert secrets == (["orders-kafka"] if is_orders else [])


def test_with_sqlite_all_pods_share_one_node_and_one_claim() -> None:
    manifests = rendered("trial")
    claim = one(manifests, "PersistentVolumeClaim")["metadata"]["name"]
    deployments = of_kind(manifests, "Deployment")
    assert len(deployments) == 2
    for manifest in deployments:
        pod = manifest["spec"]["template"]["spec"]
        claims = [v["persistentVolumeClaim"]["claimName"] for v in pod["volumes"] if "persistentVolumeClaim" in v]
        assert claims == [claim]
        (term,) = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        wanted = term["labelSelector"]["matchLabels"].items()
        assert wanted <= manifest["spec"]["template"]["metadata"]["labels"].items(), (
            "the first pod must match its own affinity"
        )
    assert one(manifests, "Deployment", "job")["spec"]["strategy"] == {"type": "Recreate"}
    assert not of_kind(manifests, "Job"), "a migration hook on another node could not mount the claim"


def test_a_release_of_another_name_has_the_product_in_its_name() -> None:
    names = {m["metadata"]["name"] for m in rendered("postgresql")}
    assert all(name.startswith("obs-txnscope") for name in names)
    assert {m["metadata"]["name"].split("-job")[0] for m in of_kind(rendered("locked-down"), "Deployment")} == {
        "kafka-observer"
    }
