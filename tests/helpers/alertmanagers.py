"""Runs a real Alertmanager on loopback."""

from __future__ import annotations

import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.helpers.waiting import LIMIT_S, wait_for

PROGRAMS: Final = ("prometheus-alertmanager", "alertmanager")


@contextmanager
def alertmanager(config: Path, folder: Path) -> Iterator[str]:
    """Yields the URL of an Alertmanager with the configuration `config`. Its log and data are in `folder`. Skips the
    test if Alertmanager is not installed."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("Alertmanager is not installed (make system-packages)")
    with socket.create_server(("127.0.0.1", 0)) as free:
        place = f"127.0.0.1:{free.getsockname()[1]}"
    given = (f"--config.file={config}", f"--storage.path={folder}", f"--web.listen-address={place}")
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen([program, *given, "--cluster.listen-address="], stderr=log, stdout=log)
        try:
            _wait(f"http://{place}/-/ready", running)
            yield f"http://{place}"
        finally:
            running.kill()
            running.wait(LIMIT_S)


def _wait(url: str, running: subprocess.Popen[bytes]) -> None:
    def is_ready() -> bool:
        assert running.poll() is None, "Alertmanager ended"
        with urllib.request.urlopen(url, timeout=1):
            return True

    wait_for(is_ready, f"Alertmanager to be ready at {url}", retry_on=(OSError,))
