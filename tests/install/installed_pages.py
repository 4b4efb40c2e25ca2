"""Runs all commands of docs/install/pipx.md, installation included: `make install-pages`.

They run in an empty home: no environment, no cache of packages, no archive of Spark's classes. Packages come from the
package index of the machine.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from tests.helpers.paths import ROOT
from tests.install.on_a_broker import run, show_transactions
from tests.install.page_commands import blocks

pytestmark = [pytest.mark.timeout(3600), pytest.mark.broker, pytest.mark.spark]

INSTALL_S: Final = 2_400.0
"""Longest time of an installation, which downloads up to 700 MB."""


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """The variables of a user with an empty home."""
    folder = tmp_path / "home"
    folder.mkdir()
    return {"HOME": str(folder), "XDG_CACHE_HOME": str(folder / ".cache"), "PYTHONPATH": "", "VIRTUAL_ENV": ""}


def test_pipx(home: dict[str, str], tmp_path: Path) -> None:
    tools, folder = tmp_path / "tools", tmp_path / "here"
    subprocess.run([sys.executable, "-m", "venv", str(tools)], check=True, timeout=INSTALL_S)
    subprocess.run([str(tools / "bin" / "pip"), "install", "--quiet", "pipx"], check=True, timeout=INSTALL_S)
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, timeout=INSTALL_S)
    (wheel,) = folder.glob("*.whl")
    home["PATH"] = f"{tools / 'bin'}:{home['HOME']}/.local/bin:/usr/local/bin:/usr/bin:/bin"
    command, *after = blocks("pipx")
    command, replaced = re.subn(r"txnscope-[\w.]+-py3-none-any\.whl", wheel.name, command)
    assert replaced == 1
    assert re.search(r"^txnscope \S+, revision ", install(command, folder, home), re.MULTILINE)
    show(after, folder, home)


def install(block: str, folder: Path, environment: dict[str, str]) -> str:
    begun_s = time.monotonic()
    said = run(block, folder, environment, INSTALL_S)
    used = subprocess.run(
        ["du", "-sm", "--exclude", "kafka", str(folder.parent)], capture_output=True, text=True, check=True
    ).stdout.split()[0]
    print(f"\ninstalled in {time.monotonic() - begun_s:.0f} s, {used} MB")  # noqa: T201
    return said


def show(after: list[str], folder: Path, environment: dict[str, str]) -> None:
    begun_s = time.monotonic()
    assert "CompleteAbort" in show_transactions(after, folder, environment)
    print(f"transactions {time.monotonic() - begun_s:.0f} s after that, a broker's start included")  # noqa: T201
