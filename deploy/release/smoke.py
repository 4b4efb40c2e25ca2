"""Tries an installed txnscope: its version, a new store, and a service that answers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from deploy.compose.role_requirements import role
from deploy.release.commands import ReleaseError, run
from service.http_client import NoAnswer, send

_READY_S: Final = 60.0
_ENDS_S: Final = 20.0
ANSWERS: Final = (("/-/ready", "OK"), ("/guide/stability.md", "Deprecation"), ("/metrics", "kafka_txn_exporter_up"))
"""Paths of a service over an empty store, each with a word that the answer contains."""


def install(wheel: Path, tree: Path, folder: Path) -> tuple[str, ...]:
    """Installs the wheel in a new environment. Also installs the packages that the service needs, with the versions and
    hashes in the lock of `tree`. Returns the command that runs txnscope."""
    run((sys.executable, "-m", "venv", str(folder)), tree)
    needed = folder / "needed.txt"
    needed.write_text(role(tree, ("service",)), "utf-8")
    pip = (str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check")
    run((*pip, "--require-hashes", "--requirement", str(needed)), tree)
    run((*pip, "--no-deps", "--no-index", str(wheel)), tree)
    return (str(folder / "bin" / "txnscope"),)


def check(command: Sequence[str], version: str, revision: str, folder: Path) -> None:
    """Raises ReleaseError if the command reports another version or revision, or cannot run a service. `folder`: an
    empty folder, which becomes the working directory."""
    wanted = f"txnscope {version}, revision {revision[:12]}"
    nothing = {name: "" for name in os.environ if name.startswith(("TXNSCOPE_", "PYTHON"))}
    if (said := run((*command, "--version"), folder, nothing).strip()) != wanted:
        raise ReleaseError(f"--version says {said!r}, not {wanted!r}")
    run((*command, "migrate"), folder, nothing)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (folder / "serve.log").open("wb") as log:
        words = (*command, "serve", "--port", str(port))
        service = subprocess.Popen(words, cwd=folder, env=os.environ | nothing, stdout=log, stderr=log)
    try:
        for path, word in ANSWERS:
            _expect(service, f"http://127.0.0.1:{port}{path}", word)
    except ReleaseError as error:
        raise ReleaseError(f"{error}\n{(folder / 'serve.log').read_text('utf-8')}") from error
    finally:
        service.terminate()
        service.wait(_ENDS_S)


def _expect(service: subprocess.Popen[bytes], url: str, word: str) -> None:
    """Repeats a GET until the answer has status 200 and contains `word`. Raises ReleaseError if there is no such answer
    within about a minute, or if the service ends."""
    said, until = "no answer", time.monotonic() + _READY_S
    while time.monotonic() < until and service.poll() is None:
        try:
            answer = send("GET", url, {}, None, timeout_s=_READY_S)
        except NoAnswer as error:
            said = str(error)
        else:
            said = f"status {answer.status}"
            if answer.status == 200 and word.encode() in answer.body:
                return
        time.sleep(0.1)
    raise ReleaseError(f"{url}: {said}")
