"""The demo as somebody starts it: a process with all that comes from it."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from deploy.demo.broker import is_free
from tests.brokers import free_ports

ROOT = Path(__file__).parents[2]
MARK = "DEMO_TEST_MARK"


class Demo:
    """`python -m deploy.demo` in a group of its own; every process that comes from it carries a mark."""

    def __init__(self, scratch: Path, *arguments: str, **environment: str) -> None:
        self.scratch, self.mark, self.said = scratch, uuid4().hex, ""
        ports = dict(zip(("KAFKA_PORT", "PORT", "PROMETHEUS_PORT", "ALERTMANAGER_PORT"), free_ports(4), strict=True))
        self.ports = (*ports.values(), ports["KAFKA_PORT"] + 1)
        mine = {name: str(port) for name, port in ports.items()} | {"TMPDIR": str(scratch), MARK: self.mark}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "deploy.demo", *arguments],
            cwd=ROOT,
            env=os.environ | mine | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def read_until(self, text: str, timeout_s: float = 200) -> None:
        assert self.process.stdout is not None
        give_up = time.monotonic() + timeout_s
        while text not in self.said:
            assert time.monotonic() < give_up, f"no {text!r} in:\n{self.said}"
            if select.select([self.process.stdout], [], [], 0.2)[0]:
                some = os.read(self.process.stdout.fileno(), 65_536)
                assert some, f"ended before it said {text!r}:\n{self.said}"
                self.said += some.decode()

    def urls(self) -> list[str]:
        """Those it showed, in order."""
        return re.findall(r"http://\S+$", self.said, re.MULTILINE)

    def end(self, timeout_s: float = 20) -> int:
        """Its exit code, once it ends by itself."""
        self.said += self.process.communicate(timeout=timeout_s)[0].decode()
        return self.process.returncode

    def processes(self) -> dict[int, str]:
        """Command lines of all that came from it and still run."""
        found = {}
        for directory in Path("/proc").glob("[0-9]*"):
            try:
                if f"{MARK}={self.mark}".encode() in (directory / "environ").read_bytes():
                    found[int(directory.name)] = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
        return {pid: command for pid, command in found.items() if command}

    def leftovers(self) -> list[str]:
        ports = [port for port in self.ports if not is_free(port)]
        files = [path.name for path in self.scratch.iterdir()]
        return [f"port {port}" for port in ports] + files + list(self.processes().values())

    def kill(self) -> None:
        """Whatever is left of it."""
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        self.process.communicate()


@contextmanager
def showing(scratch: Path) -> Iterator[Demo]:
    """A demo that has said what to look at."""
    demo = Demo(scratch)
    try:
        demo.read_until("Ctrl-C ends all of it.")
        yield demo
        demo.process.terminate()
        demo.end()
    finally:
        demo.kill()
