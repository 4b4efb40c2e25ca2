"""Tests of the images as they are built: `make images`. The tests of running containers share one broker, one
PostgreSQL server with an empty database, and both containers. The service starts before the job."""

from __future__ import annotations

import json
import re
import subprocess
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import pytest

from deploy.compose.images import LIMITS, Built, build, content, podman
from deploy.demo.broker import Broker, is_free
from tests.deploy.compose_files import OURS
from tests.helpers.brokers import free_port
from tests.helpers.paths import ROOT
from tests.helpers.postgres import Postgres
from tests.helpers.servers import get_json
from tests.helpers.waiting import ANSWER_S, wait_until, wait_until_equal
from tests.images.podman import Container
from tests.integration.producers import create_topic, open_producer, transact

pytestmark = [pytest.mark.timeout(3600), pytest.mark.broker, pytest.mark.spark]

LARGEST: Final = {"service": 250_000_000, "job": 600_000_000}
"""Maximum size of each image (bytes), uncompressed."""
OF_PYTHON: Final = re.compile(r"Exception ignored in: <function _DeleteDummyThreadOnDel.__del__ .*>\nTraceback ")
"""Matches a message that Python 3.13.5 prints at its end if the process had threads that Python did not start."""
SOURCE: Final = "https://example.org/txnscope"
PORT: Final = 8080
URL: Final = f"http://127.0.0.1:{PORT}"
IDS: Final = ("orders-0", "orders-1")

LIBRARIES: Final = """
import pathlib, subprocess, sys
folders = [pathlib.Path(one) for one in ("/usr/bin", "/usr/lib", "/usr/local/lib", sys.prefix)]
files = [one for folder in folders for one in folder.rglob("*") if one.is_file() and not one.is_symlink()]
files = [one for one in files if "java-runtime" not in one.parts]  # Java's libraries are loaded into a JVM
elf = [str(one) for one in files if one.open("rb").read(4) == b"\\x7fELF"]
found = subprocess.run(["ldd", *elf], capture_output=True, text=True).stdout
print(len(elf), [line.strip() for line in found.splitlines() if "not found" in line])
"""

PRIVILEGES: Final = """
import json, os, pathlib
status = dict(line.split(":", 1) for line in pathlib.Path("/proc/1/status").read_text().splitlines())
def can_write(folder):
    try:
        pathlib.Path(folder, "probe").touch()
    except OSError:
        return False
    return True
print(json.dumps({
    "uid": os.getuid(), "gid": os.getgid(),
    "capabilities": int(status["CapEff"], 16) | int(status["CapPrm"], 16) | int(status["CapBnd"], 16),
    "no_new_privileges": int(status["NoNewPrivs"]),
    "writable": [one for one in ("/", "/opt/txnscope", "/usr", "/etc", "/var", "/tmp") if can_write(one)],
    "setuid": [str(one) for one in pathlib.Path("/usr").rglob("*") if one.is_file() and one.stat().st_mode & 0o6000],
}))
"""


@pytest.fixture(scope="session")
def images() -> dict[str, Built]:
    revision = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    built = {name: build(name, "try", revision, SOURCE) for name in OURS}
    for name, image in built.items():
        print(f"\n{name}: {image.size / 1e6:.0f} MB, built in {image.seconds:.0f} s")  # noqa: T201
    return built


def in_image(image: Built, script: str) -> str:
    """Runs a Python script in a new container of the image. Returns what the script writes to stdout."""
    return podman(
        "run", "--rm", "--network", "none", *LIMITS, "--entrypoint", "python", image.name, "-c", script
    ).stdout


@pytest.mark.parametrize("name", OURS)
def test_an_image_is_as_small_as_promised(images: Mapping[str, Built], name: str) -> None:
    assert images[name].size <= LARGEST[name]


@pytest.mark.parametrize("name", OURS)
def test_every_program_and_library_finds_its_libraries(images: Mapping[str, Built], name: str) -> None:
    count, missing = in_image(images[name], LIBRARIES).split(maxsplit=1)
    assert int(count) > 100
    assert missing.strip() == "[]"


@pytest.mark.parametrize("name", OURS)
def test_the_version_names_the_revision(images: Mapping[str, Built], name: str) -> None:
    said = podman("run", "--rm", "--network", "none", *LIMITS, images[name].name, "--version").stdout
    assert re.fullmatch(r"txnscope \S+, revision [0-9a-f]{12}\n", said)
    assert images[name].config["Labels"]["org.opencontainers.image.revision"].startswith(said.split()[-1])


@pytest.mark.parametrize("name", OURS)
def test_the_labels_name_version_revision_source_and_licence(images: Mapping[str, Built], name: str) -> None:
    labels = {
        key.removeprefix("org.opencontainers.image."): value for key, value in images[name].config["Labels"].items()
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert labels["version"] == project["version"]
    assert labels["licenses"] == project["license"]
    assert labels["source"] == SOURCE
    assert len(labels["revision"]) == 40
    assert labels["title"] == f"txnscope {name}"
    assert images[name].config["User"] == "10001:10001"


@pytest.mark.parametrize("name", OURS)
def test_the_sbom_lists_what_is_in_the_image(images: Mapping[str, Built], name: str) -> None:
    script = """
import importlib.metadata, pathlib, sys
print(*(one.metadata["Name"] for one in importlib.metadata.distributions()))
print("\\0", *(one.name for one in pathlib.Path(sys.prefix).rglob("*.jar")))
print("\\0", pathlib.Path("/var/lib/dpkg/status").read_text())
"""
    packages, jars, status = in_image(images[name], script).split("\0")
    sbom = json.loads(content(images[name].name))
    listed: dict[str, set[str]] = {kind: set() for kind in ("pypi", "maven", "generic", "deb")}
    for component in sbom["components"]:
        listed[component["purl"].removeprefix("pkg:").partition("/")[0]].add(component["name"])
    assert sbom["metadata"]["component"]["name"] == f"txnscope-{name}"
    assert listed["pypi"] == {re.sub(r"[-_.]+", "-", one).lower() for one in packages.split()}
    assert listed["deb"] == {line.split()[1] for line in status.strip().splitlines() if line.startswith("Package:")}
    spark = {jar.rpartition("-")[0] for jar in jars.split() if jar.startswith("spark-")}
    assert spark <= listed["maven"] | listed["generic"]
    assert bool(spark) == (name == "job")


class Stand(NamedTuple):
    """The job and the service over one store, which was empty before, and the broker that they use."""

    job: Container
    service: Container
    broker: Broker


@pytest.fixture(scope="session")
def stand(images: Mapping[str, Built], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    assert is_free(PORT), f"port {PORT} is taken; the images' own health check needs it"
    with (
        Broker("4.3.1", free_port(), tmp_path_factory.mktemp("kafka")) as broker,
        Postgres() as server,
        server.database(is_empty=True) as store,
    ):
        server.directory.chmod(0o711)
        create_topic(broker.bootstrap, "orders")
        settings = {"TXNSCOPE_STORE": store, "TXNSCOPE_BOOTSTRAP_SERVERS": broker.bootstrap}
        mount = server.directory
        serving = settings | {"TXNSCOPE_INSECURE": "true"}
        with Container(images["service"].name, [], serving, mount=mount) as service:
            waits_for_the_job(service)
            with Container(images["job"].name, [], settings | {"TXNSCOPE_CLUSTER": "orders"}, mount=mount) as job:
                yield Stand(job, service, broker)


def waits_for_the_job(service: Container) -> None:
    """Checks that log, readiness, pages and health check show that the service waits for the job to make the tables."""
    wait_until(lambda: "serving" in service.log, bool, "the service to serve")
    status, text = answer("/-/ready")
    assert status == 503
    assert "has no tables yet; the application (`txnscope ingest`" in text
    assert "has no tables yet; the application (`txnscope ingest`" in service.log
    status, page = answer("/")
    assert status == 503
    assert "txnscope waits for its application" in page
    assert answer("/-/healthy")[0] == 200
    assert not service.is_healthy()


def answer(path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(URL + path, timeout=ANSWER_S) as found:
            return found.status, found.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_fresh_store_becomes_ready_without_migrate(stand: Stand) -> None:
    begun_s = time.monotonic()
    wait_until_equal(lambda: answer("/-/ready"), (200, "OK\n"), "the readiness of the service")
    print(f"\nready {time.monotonic() - begun_s:.0f} s after the job's start")  # noqa: T201
    wait_until(
        lambda: "ready: the store can be read" in stand.service.log,
        bool,
        "the log of the service to say that the store can be read",
    )


def test_both_containers_are_healthy(stand: Stand) -> None:
    stand.service.wait_until_healthy()
    stand.job.wait_until_healthy()


def test_the_transactions_of_a_broker_are_shown(stand: Stand) -> None:
    for name in IDS:
        producer = open_producer(stand.broker.bootstrap, name)
        for commit in (True, False, True):
            transact(producer, "orders", commit)

    def shown() -> dict[str, str]:
        found = get_json(f"{URL}/api/v1/clusters/orders/transactions")["items"]
        return {one["transactional_id"]: one["state"] for one in found}

    expected = dict.fromkeys(IDS, "CompleteCommit")
    wait_until_equal(shown, expected, "the transactions", retry_on=(urllib.error.URLError,))
    assert "orders-0" in stand.service.run("txnscope", "transactions", "--cluster", "orders")


@pytest.mark.parametrize("name", OURS)
def test_a_container_has_no_privileges(stand: Stand, name: str) -> None:
    container: Container = getattr(stand, name)
    assert json.loads(container.python(PRIVILEGES)) == {
        "uid": 10001,
        "gid": 10001,
        "capabilities": 0,
        "no_new_privileges": 1,
        "writable": ["/tmp"],
        "setuid": [],
    }


def test_doctor_runs_in_the_image_of_the_job(stand: Stand) -> None:
    assert "VERDICT" in stand.job.run("txnscope", "doctor"), (
        "doctor did not print the verdicts, which are its last table"
    )


@pytest.mark.parametrize("name", OURS)
def test_a_container_that_is_stopped_ends_by_itself(stand: Stand, name: str) -> None:
    """Runs last, because it stops both containers."""
    container: Container = getattr(stand, name)
    assert container.stop() == 0
    assert container.log.count("Traceback") == len(OF_PYTHON.findall(container.log))
