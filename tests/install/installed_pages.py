"""Runs all commands of docs/install/checkout.md and docs/install/pipx.md, installation included: `make install-pages`.

The commands run in a container of Debian's packages, which has only what the page requires. Python packages come from
the package index of this machine.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.helpers.paths import ROOT
from tests.install.machines import USER, EmptyMachine
from tests.install.on_a_broker import show_transactions
from tests.install.page_commands import blocks

pytestmark = [pytest.mark.timeout(3600), pytest.mark.broker, pytest.mark.spark]

INSTALL_S: Final = 2_400.0
"""Longest time (s) of an installation, which downloads up to 700 MB."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the checkout, or of the wheel."""
    return tmp_path / "here"


def test_checkout(folder: Path) -> None:
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    with machine(["python3", "python3-venv", "make", "ca-certificates"], folder) as empty:
        make, *after = blocks("checkout")
        install(empty, make, folder, {})
        show(empty, after, folder, {})


def test_pipx(folder: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, timeout=INSTALL_S)
    (wheel,) = folder.glob("*.whl")
    with machine(["python3", "pipx", "ca-certificates"], folder) as empty:
        command, *after = blocks("pipx")
        command, replaced = re.subn(r"txnscope-[\w.]+-py3-none-any\.whl", wheel.name, command)
        assert replaced == 1
        on_path = {"PATH": f"{folder}/.local/bin:/usr/local/bin:/usr/bin:/bin"}
        assert re.search(r"^txnscope \S+, revision ", install(empty, command, folder, on_path), re.MULTILINE)
        show(empty, after, folder, on_path)


@contextmanager
def machine(packages: Sequence[str], folder: Path) -> Iterator[EmptyMachine]:
    """Starts an empty machine. The home directory of its user is `folder`."""
    subprocess.run(["chown", "--recursive", USER, str(folder)], check=True)
    with EmptyMachine(packages, folder) as empty:
        yield empty


def install(empty: EmptyMachine, block: str, folder: Path, environment: Mapping[str, str]) -> str:
    begun_s = time.monotonic()
    said = empty.run(block, folder, environment, INSTALL_S)
    used = subprocess.run(["du", "-sm", str(folder)], capture_output=True, text=True, check=True).stdout.split()[0]
    print(f"\ninstalled in {time.monotonic() - begun_s:.0f} s, {used} MB")  # noqa: T201
    return said


def show(empty: EmptyMachine, after: list[str], folder: Path, environment: Mapping[str, str]) -> None:
    begun_s = time.monotonic()
    assert "CompleteAbort" in show_transactions(empty, after, folder, environment)
    print(f"transactions shown {time.monotonic() - begun_s:.0f} s later, including the start of a broker")  # noqa: T201
