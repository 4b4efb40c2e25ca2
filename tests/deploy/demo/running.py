"""Runs the demo as a user starts it, finds all its processes, and checks that they end."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psutil

from deploy.demo.broker import is_free
from tests.helpers.brokers import free_ports
from tests.helpers.paths import ROOT
from tests.helpers.processes import command_of, send, with_environment
from tests.helpers.waiting import LIMIT_S, wait_until

MARK = "DEMO_TEST_MARK"


class Demo:
    """Runs `python -m deploy.demo` in a process group of its own. All its descendants inherit an environment variable,
    by which they are found."""

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

    def read_until(self, text: str) -> None:
        stdout = self.process.stdout
        assert stdout is not None

        def said() -> str:
            if text not in self.said and select.select([stdout], [], [], 0.2)[0]:
                some = os.read(stdout.fileno(), 65_536)
                assert some, f"the demo ended before it printed {text!r}:\n{self.said}"
                self.said += some.decode()
            return self.said

        wait_until(said, lambda said: text in said, repr(text))

    def urls(self) -> list[str]:
        """Returns the URLs at the ends of the lines that the demo printed, in order."""
        return re.findall(r"http://\S+$", self.said, re.MULTILINE)

    def end(self) -> int:
        """Waits until the demo ends, and returns its exit code."""
        self.said += self.process.communicate(timeout=LIMIT_S)[0].decode()
        return self.process.returncode

    def processes(self) -> list[psutil.Process]:
        """Returns the processes that still run: the demo and its descendants."""
        return with_environment(MARK, self.mark)

    def leftovers(self) -> list[str]:
        ports = [port for port in self.ports if not is_free(port)]
        files = [path.name for path in self.scratch.iterdir()]
        return [f"port {port}" for port in ports] + files + [command_of(process) for process in self.processes()]

    def kill(self) -> None:
        send(signal.SIGKILL, self.processes())
        self.process.communicate()


@contextmanager
def showing(scratch: Path) -> Iterator[Demo]:
    """Runs a demo until it has printed its tour. At the end of the block, sends SIGTERM to the demo, and asserts that
    the demo exits with 0, and that no process, file or open port of the demo remains. After a failure, kills the
    demo."""
    demo = Demo(scratch)
    try:
        demo.read_until("Ctrl-C ends the demo.")
        yield demo
        demo.process.terminate()
        assert demo.end() == 0
        assert demo.leftovers() == []
    finally:
        demo.kill()
