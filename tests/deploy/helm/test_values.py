"""Tests that the chart refuses wrong values with one line that names them, and that its documents agree with its
values."""

from __future__ import annotations

import json
import tarfile
import tomllib
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
import yaml

from deploy.helm.__main__ import main
from deploy.helm.package import files, write_package
from deploy.helm.values_table import CHART, VALUES, Undocumented, values, with_table
from deploy.release.versions import chart_version
from tests.deploy.helm.rendering import EXAMPLES, helm, of_kind, one, pods, rendered, rendered_text, template
from tests.helpers.paths import ROOT

SCHEMA: Final[dict[str, Any]] = json.loads((CHART / "values.schema.json").read_text("utf-8"))
DEFAULTS: Final[dict[str, Any]] = yaml.safe_load(VALUES.read_text("utf-8"))
CHART_YAML: Final[dict[str, Any]] = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
MINIMUM: Final = (
    "--set=clusters[0].name=orders",
    "--set=clusters[0].bootstrapServers=kafka:9092",
    "--set=store.url=postgresql://txnscope@postgres/txnscope",
    "--set=service.insecure=true",
)


def tables(schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Yields (path, schema) of every table of values for which the schema lists keys."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    if "properties" in schema:
        yield path, schema
        for name, below in schema["properties"].items():
            yield from tables(below, (*path, name))


TABLES: Final = [".".join(path) for path, _ in tables(SCHEMA)]


def with_key(path: str, key: str) -> dict[str, Any]:
    """Returns the default values with an additional key in the table at this path."""
    changed = deepcopy(DEFAULTS)
    table = changed
    for name in filter(None, path.split(".")):
        table = table.setdefault(name, {})
    table[key] = "x"
    return changed


def test_the_schema_accepts_the_defaults_and_the_examples() -> None:
    jsonschema.validate(DEFAULTS, SCHEMA, jsonschema.Draft7Validator)
    for file in EXAMPLES.values():
        jsonschema.validate(yaml.safe_load(file.read_text("utf-8")), SCHEMA, jsonschema.Draft7Validator)


@pytest.mark.parametrize("path", TABLES)
def test_a_misspelt_key_is_refused_in_every_table(path: str) -> None:
    with pytest.raises(jsonschema.ValidationError, match="replicsa"):
        jsonschema.validate(with_key(path, "replicsa"), SCHEMA, jsonschema.Draft7Validator)


def test_a_misspelt_key_of_a_cluster_is_refused() -> None:
    cluster = {"name": "orders", "bootstrapServers": "kafka:9092"}
    jsonschema.validate(DEFAULTS | {"clusters": [cluster]}, SCHEMA, jsonschema.Draft7Validator)
    with pytest.raises(jsonschema.ValidationError, match="kafkaConfig"):
        jsonschema.validate(DEFAULTS | {"clusters": [cluster | {"kafkaConfig": "x"}]}, SCHEMA)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("service.replicsa=2", "replicsa"),
        ("serviceMonitor.intervall=15s", "intervall"),
        ("clusters[0].topic=orders", "topic"),
        ("service.port=http", "/service/port"),
        ("store.url=postgresql://txnscope:secret@postgres/txnscope", "/store/url"),
        ("spark.master=yarn", "/spark/master"),
        ("image.service.digest=sha256:abc", "/image/service/digest"),
    ],
)
def test_helm_refuses_values_that_the_schema_does_not_allow(given: str, named: str) -> None:
    done = template(*MINIMUM, f"--set={given}")
    assert done.returncode != 0
    assert "don't meet the specifications of the schema" in done.stderr
    assert named in done.stderr


def test_the_least_that_has_to_be_given_is_enough() -> None:
    done = template(*MINIMUM)
    assert done.returncode == 0, done.stderr
    assert {m["kind"] for m in yaml.safe_load_all(done.stdout)} >= {"Deployment", "Service", "NetworkPolicy"}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["clusters=null"], "clusters: give at least one"),
        (["clusters[0].name=???"], "neither a letter nor a digit"),
        (
            ["clusters[1].name=ORDERS", "clusters[1].bootstrapServers=k:9092"],
            '"orders" and "ORDERS" would both be called "orders"',
        ),
        (["clusters[0].partitions=all"], 'partitions of "orders": all needs topics'),
        (["store.url="], "store: give store.url, or store.existingSecret with store.urlKey"),
        (["store.sqlite.enabled=true"], "give only one of store.url, store.urlKey and store.sqlite.enabled"),
        (["store.url=", "store.urlKey=url"], "store.urlKey: give store.existingSecret"),
        (["store.url=", "store.sqlite.enabled=true", "service.replicas=2"], "more than one replica needs PostgreSQL"),
        (["store.url=", "store.sqlite.enabled=true", "spark.master=spark://m:7077"], "(spark.master) needs PostgreSQL"),
        (["service.insecure=false"], "service.tls.existingSecret is missing"),
        (["service.insecure=false", "service.tls.existingSecret=tls"], "service.auth.existingSecret is missing"),
        (["service.tls.clientCaKey=ca.crt"], "service.tls.clientCaKey: give service.tls.existingSecret"),
        (["ingress.enabled=true"], "ingress.hosts: give at least one"),
        (["httpRoute.enabled=true"], "httpRoute.parentRefs: give at least one gateway"),
        (["prometheusRule.enabled=true", "prometheusRule.disabled[0]=KafkaNone"], 'there is no alert "KafkaNone"'),
    ],
)
def test_values_that_do_not_fit_together_are_refused(given: list[str], why: str) -> None:
    done = template(*MINIMUM, *(f"--set={one}" for one in given))
    assert done.returncode != 0
    assert why in done.stderr


def test_a_login_in_the_settings_counts_as_authentication() -> None:
    given = ("--set=service.insecure=false", "--set=service.tls.existingSecret=tls")
    done = template(*MINIMUM, *given, "--set-string=config=[auth]\nkeys = true")
    assert done.returncode == 0, done.stderr


def test_images_can_come_from_another_registry_by_digest() -> None:
    digests = {"job": "sha256:" + 64 * "1", "service": "sha256:" + 64 * "2"}
    for part, pod in pods(rendered("locked-down")):
        for container in pod["containers"]:
            image = "job" if part == "job" else "service"
            assert container["image"] == f"registry.example.org/observability/txnscope-{image}@{digests[image]}"
        assert pod["imagePullSecrets"] == [{"name": "registry-login"}]


def test_whatever_an_operator_adds_to_pods_is_there() -> None:
    more = (
        "--set=service.extraEnv[0].name=HTTPS_PROXY",
        "--set=service.extraEnv[0].value=http://proxy:3128",
        "--set=service.extraEnvFrom[0].secretRef.name=more",
        "--set=service.podLabels.a=b",
        "--set=service.podAnnotations.c=d",
    )
    template_ = one(rendered("postgresql", *more), "Deployment", "service")["spec"]["template"]
    (container,) = template_["spec"]["containers"]
    assert {"name": "HTTPS_PROXY", "value": "http://proxy:3128"} in container["env"]
    assert container["envFrom"] == [{"secretRef": {"name": "more"}}]
    assert template_["metadata"]["labels"]["a"] == "b"
    assert template_["metadata"]["annotations"]["c"] == "d"
    (spread,) = template_["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"].items() <= template_["metadata"]["labels"].items()
    locked = one(rendered("locked-down"), "Deployment", "service")["spec"]["template"]["spec"]
    assert locked["tolerations"]
    assert locked["nodeSelector"] == {"kubernetes.io/arch": "amd64"}
    assert locked["priorityClassName"] == "observability"


def test_settings_that_change_restart_the_pods_that_read_them() -> None:
    def sums(*more: str) -> list[str]:
        deployments = of_kind(rendered("several-clusters", *more), "Deployment")
        return [m["spec"]["template"]["metadata"]["annotations"]["checksum/config"] for m in deployments]

    before = sums()
    assert all(one != other for one, other in zip(before, sums("--set-string=config=[keep]"), strict=True))
    changed = [one != other for one, other in zip(before, sums("--set=clusters[0].bootstrapServers=k:1"), strict=True)]
    assert changed.count(True) == 1, (
        "only the service's settings have the cluster's address, so only its checksum changes"
    )


def test_migrations_run_before_an_upgrade_and_tests_when_asked() -> None:
    manifests = rendered("postgresql")
    assert one(manifests, "Job")["metadata"]["annotations"]["helm.sh/hook"] == "pre-upgrade"
    assert one(manifests, "Pod")["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert not of_kind(rendered("postgresql", "--set=migration.enabled=false"), "Job")
    assert not of_kind(rendered("postgresql", "--set=tests.enabled=false"), "Pod")


def test_every_value_is_documented_and_in_the_schema() -> None:
    documented = {one.path for one in values(VALUES.read_text("utf-8"))}
    known = {
        ".".join((*path, name)) for path, schema in tables(SCHEMA) for name in schema["properties"] if name != "global"
    }
    assert documented <= known
    above = {".".join(path) for path, _ in tables(SCHEMA)}
    whole = tuple(f"{path}." for path in documented)
    assert {path for path in known - above if not path.startswith(whole)} <= documented


def test_the_readme_has_all_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().err


def test_a_value_without_a_comment_is_refused() -> None:
    with pytest.raises(Undocumented, match=r"service\.port has no comment"):
        values("service:\n  # -- how many\n  replicas: 1\n  # no mark\n  port: 8080\n")
    with pytest.raises(Undocumented, match="the README lacks the line"):
        with_table("# txnscope\n", [])


def test_the_readme_names_every_example() -> None:
    readme = (CHART / "README.md").read_text("utf-8")
    assert all(f"| `{name}.yaml` |" in readme for name in EXAMPLES)


def test_the_chart_has_the_version_of_the_product() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert CHART_YAML["appVersion"] == project["version"]
    assert CHART_YAML["version"] == chart_version(project["version"])
    annotations = CHART_YAML["annotations"]
    assert annotations["artifacthub.io/license"] == project["license"]
    images = {one["image"] for one in yaml.safe_load(annotations["artifacthub.io/images"])}
    used = {container["image"] for _, pod in pods(rendered("postgresql")) for container in pod["containers"]}
    assert images == used
    assert all(one["description"] for one in yaml.safe_load(annotations["artifacthub.io/changes"]))


def test_packages_have_equal_bytes_and_the_files_of_helm(tmp_path: Path) -> None:
    package = write_package(tmp_path / "ours")
    assert package.name == f"txnscope-{CHART_YAML['version']}.tgz"
    assert write_package(tmp_path / "again").read_bytes() == package.read_bytes()
    assert len(list(files())) == len({file.relative_to(CHART) for file in files()})
    assert not [file for file in files() if file.name == ".lint"]
    for example in EXAMPLES:
        assert rendered_text(example, chart=package) == rendered_text(example)
    done = helm("package", CHART, "--destination", tmp_path / "theirs")
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "theirs" / package.name) == contents(package)


def contents(package: Path) -> dict[str, bytes]:
    """Returns the content of each file of a package. Chart.yaml is normalised, because Helm rewrites this file."""
    found = {}
    with tarfile.open(package) as archive:
        for member in archive.getmembers():
            extracted = archive.extractfile(member)
            assert extracted is not None
            found[member.name] = extracted.read()
    chart = yaml.safe_load(found["txnscope/Chart.yaml"])
    return found | {"txnscope/Chart.yaml": json.dumps(chart, sort_keys=True).encode()}
