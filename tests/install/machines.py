"""The machines on which commands of docs/install run: this machine, or a container that has only what the page
requires."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from deploy.compose.images import LIMITS, make_system, pip_files, podman

_STRICT: Final = ("bash", "-euo", "pipefail", "-c")
USER: Final = "1000:1000"
"""The user of an empty machine, as `chown` names it."""
_END_S: Final = 120.0


class Machine(Protocol):
    """A machine that runs blocks of commands with bash. A folder has the same path on the machine and for the tests."""

    def run(self, block: str, folder: Path, environment: Mapping[str, str], timeout_s: float) -> str:
        """Runs a block, and returns its stdout. Raises AssertionError if one of its commands fails, and TimeoutExpired
        after `timeout_s`."""
        ...

    @contextmanager
    def started(self, block: str, folder: Path, environment: Mapping[str, str]) -> Iterator[None]:
        """Starts the shell commands in `block`, which run until Ctrl-C, and sends Ctrl-C at the end of the `with`
        statement."""
        ...


class ThisMachine(Machine):
    def run(self, block: str, folder: Path, environment: Mapping[str, str], timeout_s: float) -> str:
        return _printed([*_STRICT, block], folder, environment, timeout_s)

    @contextmanager
    def started(self, block: str, folder: Path, environment: Mapping[str, str]) -> Iterator[None]:
        with _running(["bash", "-euc", f"exec {block}"], folder, environment) as process:
            yield
            os.killpg(process.pid, signal.SIGINT)


class EmptyMachine(Machine):
    """A container of Debian with `packages`, and nothing else: there is no cache, and the user has no privileges. The
    container shares the network of this machine, and the folder `shared`, which is the user's home directory."""

    def __init__(self, packages: Sequence[str], shared: Path) -> None:
        image = f"localhost/txnscope-empty:{'-'.join(packages)}"
        if podman("image", "exists", image, check=False).returncode:
            make_system(image, packages)
        self._id = podman(
            *("run", "--detach", "--init", "--network", "host", "--user", USER, "--env", f"HOME={shared}", *LIMITS),
            *(*pip_files(), "--volume", f"{shared}:{shared}", image, "sleep", "infinity"),
        ).stdout.strip()

    def __enter__(self) -> EmptyMachine:
        return self

    def __exit__(self, *_: object) -> None:
        podman("rm", "--force", "--time", "0", self._id, check=False)

    def run(self, block: str, folder: Path, environment: Mapping[str, str], timeout_s: float) -> str:
        return _printed([*self._exec(folder, environment), *_STRICT, block], folder, {}, timeout_s)

    @contextmanager
    def started(self, block: str, folder: Path, environment: Mapping[str, str]) -> Iterator[None]:
        # podman exec passes no signal on; its bash leads a process group, as in a terminal
        command = [*self._exec(folder, environment), "bash", "-euc", f"echo $$ >group; exec {block}"]
        with _running(command, folder, {}):
            yield
            self.run('kill -INT -- "-$(cat group)"', folder, {}, _END_S)

    def _exec(self, folder: Path, environment: Mapping[str, str]) -> list[str]:
        variables = [word for name, value in environment.items() for word in ("--env", f"{name}={value}")]
        return ["podman", "--runtime", "runc", "exec", "--workdir", str(folder), *variables, self._id]


def _printed(command: list[str], folder: Path, environment: Mapping[str, str], timeout_s: float) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    said = f"{command[-1]}: exit code {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    assert done.returncode == 0, said
    return done.stdout


@contextmanager
def _running(command: list[str], folder: Path, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Starts a command, which the block has to end. After the block, waits until the command has ended. If the block
    fails, prints the output of the command and kills the command."""
    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield process
            process.wait(_END_S)
        except BaseException:
            print(Path(log.name).read_text("utf-8"))  # noqa: T201
            process.kill()
            raise
