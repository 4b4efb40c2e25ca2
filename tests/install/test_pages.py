"""Tests the pages of docs/install without an installation: each page fits on one screen, and its commands exist."""

from __future__ import annotations

import importlib
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from service.cli.parser import build_parser
from tests.deploy.helm.rendering import NEWEST, helm, of_kind, one
from tests.helpers.paths import ROOT
from tests.install.page_commands import PAGES, blocks, commands

ONE_SCREEN: Final = 45
"""Maximum number of lines of a page, so that a page fits into a window of a common size."""


def words_of(page: str, program: str) -> list[list[str]]:
    return [words for words in commands(page) if Path(words[0]).name == program]


def test_there_is_a_page_for_each_of_the_four_ways() -> None:
    assert sorted(PAGES) == ["checkout", "helm", "images", "pipx"]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_one_screen(page: str) -> None:
    assert len(PAGES[page].read_text("utf-8").splitlines()) <= ONE_SCREEN


@pytest.mark.parametrize("page", ["checkout", "pipx"])
def test_every_command_of_txnscope_is_one_that_it_has(page: str) -> None:
    found = words_of(page, "txnscope")
    assert {words[1] for words in found} >= {"doctor", "watch", "transactions"}
    for words in found:
        if words[1] != "--version":  # which would end this process
            build_parser().parse_args(words[1:])


def test_what_helm_installs_is_what_the_page_speaks_of(tmp_path: Path) -> None:
    values = tmp_path / "my-values.yaml"
    values.write_text("".join(blocks("helm", "yaml")), "utf-8")
    lint, install, test = words_of("helm", "helm")
    assert lint[:2] == ["helm", "lint"]
    assert install[:2] == ["helm", "install"]
    linted = helm(*at(lint[1:], values))
    assert linted.returncode == 0, linted.stdout
    # `helm install --dry-run` needs a cluster; `helm template` takes the same arguments, and needs no cluster
    done = helm("template", *at(install[2:], values), "--kube-version", NEWEST)
    assert done.returncode == 0, done.stderr
    manifests: list[dict[str, Any]] = [found for found in yaml.safe_load_all(done.stdout) if found]
    (hook,) = [pod for pod in of_kind(manifests, "Pod") if pod["metadata"]["annotations"]["helm.sh/hook"] == "test"]
    release, namespace = install[2], install[install.index("--namespace") + 1]
    assert test[1:3] == ["test", release]
    assert hook["metadata"]["namespace"] == namespace == test[test.index("--namespace") + 1]
    (forward,) = words_of("helm", "kubectl")
    kind, _, name = forward[-2].partition("/")
    service = one(manifests, "Service", "service")
    assert (kind, name, forward[forward.index("--namespace") + 1]) == (
        "service",
        service["metadata"]["name"],
        namespace,
    )
    assert int(forward[-1]) in [port["port"] for port in service["spec"]["ports"]]


def at(words: list[str], values: Path) -> list[str]:
    """Returns `words` with the paths of the chart and of the values file replaced by paths on this machine."""
    places = {"deploy/helm/txnscope": str(ROOT / "deploy/helm/txnscope"), values.name: str(values)}
    return [places.get(word, word) for word in words]


def test_images_are_built_and_run_as_the_tests_of_images_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Compares the podman commands of the page about images with those of `make images`, without running them."""
    podman = importlib.import_module("tests.images.podman")
    build = getattr(podman, "build", None) or importlib.import_module("deploy.compose.images").build
    ran: list[list[str]] = []

    def recorded(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        return subprocess.CompletedProcess(command, 0, '[{"Size": 1, "Config": {}, "Labels": {}}]', "")

    monkeypatch.setattr(subprocess, "run", recorded)
    for target in ("job", "service"):
        build(target, "one", "two")
        podman.Container(f"txnscope-{target}", [], {}, mount=tmp_path)
    for kind in ("build", "run"):
        tested = [words for words in ran if kind in words]
        written = [words for words in words_of("images", "podman") if words[1] == kind]
        assert len(written) == len(tested) == 2
        for ours, theirs in zip(written, tested, strict=True):
            assert flags(ours) <= flags(theirs), kind


def flags(words: list[str]) -> set[tuple[str, str]]:
    """Returns (flag, value) of each flag of a podman command, except flags about names, files and variables."""
    alone = {"--detach", "--init", "--read-only"}
    free = {"--tag", "--env", "--file", "--volume", "--build-arg"}
    found = [(word, "" if word in alone else words[at + 1]) for at, word in enumerate(words) if word.startswith("--")]
    return {(flag, value) for flag, value in found if flag not in free}
