"""Runs a real API server of Kubernetes on loopback, with etcd. The server validates and stores objects. Without
controllers and nodes, no pod runs."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import yaml

from tests.helpers.brokers import free_port
from tests.helpers.go_tools import API_SERVER, built
from tests.helpers.waiting import ANSWER_S, LIMIT_S, wait_for

_TOKEN: Final = "of-the-tests"
_PATCH: Final = "application/merge-patch+json"


class ApiServer:
    """An API server with its etcd. Both processes write only into `folder`. `kubeconfig` is a file with the server's
    address and an administrator's login."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._running = folder, ExitStack()
        self._url = f"https://127.0.0.1:{free_port()}"
        self.kubeconfig = folder / "kubeconfig"

    def __enter__(self) -> ApiServer:
        with ExitStack() as starting:
            etcd = free_port()
            here, peers = f"http://127.0.0.1:{etcd}", f"http://127.0.0.1:{etcd + 1}"
            data = ("--data-dir", self._folder / "etcd", "--listen-peer-urls", peers, "--unsafe-no-fsync")
            self._start(
                starting, shutil.which("etcd"), *data, "--listen-client-urls", here, "--advertise-client-urls", here
            )
            key, tokens = self._folder / "accounts.key", self._folder / "tokens.csv"
            subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
            tokens.write_text(f'{_TOKEN},admin,admin,"system:masters"\n')
            self._start(
                starting,
                built(API_SERVER),
                *("--etcd-servers", here, "--secure-port", self._url.rpartition(":")[2], "--bind-address", "127.0.0.1"),
                *("--cert-dir", self._folder / "certificates", "--token-auth-file", tokens),
                *("--service-account-issuer", "https://tests", "--service-account-key-file", key),
                *("--service-account-signing-key-file", key, "--service-cluster-ip-range", "10.0.0.0/24"),
                # without ServiceAccount: it needs the default account of each namespace, which a controller would make
                *("--authorization-mode", "RBAC", "--disable-admission-plugins", "ServiceAccount"),
            )
            self._running = starting.pop_all()
        wait_for(lambda: self.get("/readyz?verbose=false"), "the API server to be ready", retry_on=(OSError,))
        self._write_kubeconfig()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def get(self, path: str) -> Any:
        return self._ask("GET", path)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return self._ask("POST", path, body)

    def patch(self, path: str, body: dict[str, Any]) -> Any:
        return self._ask("PATCH", path, body, _PATCH)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None, kind: str = "application/json") -> Any:
        """Sends a request. Returns the answer, decoded if the answer is a JSON object. If the server refuses the
        request, raises AssertionError with the server's message, or HTTPError for /readyz."""
        request = urllib.request.Request(
            self._url + path,
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {_TOKEN}", "Content-Type": kind},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_S, context=ssl._create_unverified_context()) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                if path.startswith("/readyz"):
                    raise
                raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from error
        return json.loads(text) if text.startswith("{") else text

    def _start(self, starting: ExitStack, program: object, *flags: object) -> None:
        name = Path(str(program)).name
        log = starting.enter_context((self._folder / f"{name}.log").open("wb"))
        process = subprocess.Popen([str(program), *map(str, flags)], stdout=log, stderr=log, cwd=self._folder)
        starting.callback(process.wait, LIMIT_S)
        starting.callback(process.kill)

    def _write_kubeconfig(self) -> None:
        named: dict[str, Any] = {
            "clusters": [{"name": "t", "cluster": {"server": self._url, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "t", "user": {"token": _TOKEN}}],
            "contexts": [{"name": "t", "context": {"cluster": "t", "user": "t"}}],
        }
        self.kubeconfig.write_text(
            yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "current-context": "t", **named})
        )
