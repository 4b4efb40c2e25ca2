"""Runs Prometheus with the shipped rules and Alertmanager with the shipped routes, for `make demo-full`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from dashboards.rules import __main__ as rules
from dashboards.rules.build import RULES
from deploy.demo.child_process import ChildProcess
from deploy.demo.options import MonitoringPorts

EXAMPLE: Final = Path(rules.__file__).with_name("alertmanager.example.yml")
SCRAPE_EVERY_S: Final = 15
REPLACED_RECEIVERS: Final = ("page", "ticket")
"""Receivers of the example configuration that the webhook replaces. The heartbeat's receiver is not replaced, because
the heartbeat always fires."""
_HOST: Final = "127.0.0.1"


class NotInstalled(Exception):
    """A program is not installed. The message names a command that installs it."""


class Programs(NamedTuple):
    """Paths of the programs of Prometheus and Alertmanager."""

    prometheus: str
    alertmanager: str


def find_programs(path: str | None = None) -> Programs:
    """Finds the programs on `path` (default: PATH). Raises NotInstalled."""
    return Programs(
        _find("Prometheus", ("prometheus",), path),
        _find("Alertmanager", ("prometheus-alertmanager", "alertmanager"), path),
    )


class Monitoring:
    """Prometheus and Alertmanager on loopback, with all their files below `directory`.

    `port`: the port of txnscope, which Prometheus scrapes and to which alerts link; `webhook`: URL that receives the
    alerts.
    """

    def __init__(self, programs: Programs, ports: MonitoringPorts, directory: Path, port: int, webhook: str) -> None:
        self._programs, self._ports, self._directory = programs, ports, directory
        self._port, self._webhook = port, webhook
        self._running: dict[str, ChildProcess] = {}

    @property
    def prometheus(self) -> str:
        return f"http://{_HOST}:{self._ports.prometheus_port}"

    @property
    def alertmanager(self) -> str:
        return f"http://{_HOST}:{self._ports.alertmanager_port}"

    def start(self) -> None:
        """Starts both programs. After about a second, they answer at /-/ready."""
        self._configure()
        at = f"--web.listen-address={_HOST}"
        here = self._directory
        self._run(
            "Alertmanager",
            self._programs.alertmanager,
            f"--config.file={here / 'alertmanager.yml'}",
            f"--storage.path={here / 'alertmanager'}",
            f"{at}:{self._ports.alertmanager_port}",
            f"--web.external-url={self.alertmanager}",
            "--cluster.listen-address=",  # otherwise it searches for peers on the network
        )
        self._run(
            "Prometheus",
            self._programs.prometheus,
            f"--config.file={here / 'prometheus.yml'}",
            f"--storage.tsdb.path={here / 'prometheus'}",
            f"{at}:{self._ports.prometheus_port}",
            f"--web.external-url={self.prometheus}",
        )

    def kill(self) -> None:
        """Ends both programs by SIGKILL, because their data are not needed any more."""
        for process in self._running.values():
            process.kill()
        self._running.clear()

    def ended_program(self, lines: int = 20) -> str | None:
        """Returns a text about a program that has ended: its name, its exit code and the end of its log. Returns None
        while both run."""
        for name, process in self._running.items():
            if (code := process.poll()) is not None:
                log = self._log(name).read_text(errors="replace").splitlines()[-lines:]
                return "\n".join([f"{name} ended with code {code}; its log ends:", *log])
        return None

    def _configure(self) -> None:
        folder = self._directory / "rules"
        folder.mkdir()
        rules.main(["--page", f"http://{_HOST}:{self._port}", "--out", str(folder)])
        self._write("prometheus.yml", prometheus_config(self._port, self._ports.alertmanager_port, folder / RULES))
        self._write("alertmanager.yml", alertmanager_config(self._webhook))

    def _write(self, name: str, document: dict[str, Any]) -> None:
        (self._directory / name).write_text(yaml.safe_dump(document, sort_keys=False), "utf-8")

    def _run(self, name: str, *command: str) -> None:
        with self._log(name).open("wb") as log:
            self._running[name] = ChildProcess(list(command), log)

    def _log(self, name: str) -> Path:
        return self._directory / f"{name.lower()}.log"


def prometheus_config(port: int, alertmanager_port: int, rule_file: Path) -> dict[str, Any]:
    """Returns the configuration of Prometheus for a txnscope at `port`."""
    every = f"{SCRAPE_EVERY_S}s"
    service, alertmanager = f"{_HOST}:{port}", f"{_HOST}:{alertmanager_port}"
    return {
        "global": {"scrape_interval": every, "evaluation_interval": every},
        "rule_files": [str(rule_file)],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]},
        "scrape_configs": [{"job_name": "txnscope", "honor_labels": True, "static_configs": [{"targets": [service]}]}],
    }


def alertmanager_config(webhook: str) -> dict[str, Any]:
    """Returns the configuration of Alertmanager: the routes and inhibitions of the example, with the webhook in place
    of REPLACED_RECEIVERS."""
    example: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text("utf-8"))
    receives = {"webhook_configs": [{"url": webhook, "send_resolved": True}]}
    names = [receiver["name"] for receiver in example["receivers"]]
    return example | {
        "receivers": [{"name": name} | (receives if name in REPLACED_RECEIVERS else {}) for name in names]
    }


def _find(name: str, programs: tuple[str, ...], path: str | None) -> str:
    for program in programs:
        if (found := shutil.which(program, path=path)) is not None:
            return found
    raise NotInstalled(f"{name} is not installed (no {programs[0]} on PATH): make system-packages")
