"""Tests of access to a running `txnscope serve`: keys, reloaded TLS certificates, refusals."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from service.cli import main
from service.domain.findings.kinds import Kind
from tests.helpers.access import HASHED, PASSWORD, basic, bearer
from tests.helpers.brokers import free_port
from tests.helpers.certificates import Authority
from tests.helpers.partitions import PID, WithPartitions, entry, hanging_finding, read, stalled_partition
from tests.helpers.paths import ROOT
from tests.helpers.processes import all_processes, command_of
from tests.helpers.stores import Id
from tests.helpers.waiting import ANSWER_S, LIMIT_S, wait_until, wait_until_equal
from tests.service.cli.test_running import INGEST, Command
from tests.service.web.every_kind import EVERY

pytestmark = pytest.mark.in_turns

C = "/api/v1/clusters/orders"
CONFIG = f"""
[auth]
keys = true

[auth.basic.ann]
password = "{HASHED.text}"
roles = ["operator@orders"]
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[WithPartitions]:
    """Yields the cluster in the store of the directory where commands run."""
    cluster = WithPartitions(f"sqlite:///{tmp_path / 'txnscope.db'}")
    cluster.read([Id(b"pay", producer_id=PID)])
    cluster.look(stalled_partition(), read(entry()))
    cluster.see(hanging_finding())
    (tmp_path / "txnscope.toml").write_text(CONFIG)
    yield cluster
    cluster.close()


class Service:
    """Runs `txnscope serve`, or the given `command`, with the arguments `more`. Sends requests to it."""

    def __init__(self, directory: Path, *more: str, trusted: Path | None = None, command: str = "serve") -> None:
        self._directory, self.port = directory, free_port()
        self._trusted = trusted
        self.command = Command(directory, command, "--port", str(self.port), "--config", "txnscope.toml", *more)
        self.command.wait_for_text("serving http")

    def context(self, certificate: Path | None = None) -> ssl.SSLContext | None:
        if self._trusted is None:
            return None
        context = ssl.create_default_context(cafile=self._trusted)
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context

    def ask(self, path: str, headers: dict[str, str] | None = None, certificate: Path | None = None) -> int:
        connection = self.connect(certificate)
        try:
            connection.request("GET", path, headers=headers or {})
            return connection.getresponse().status
        finally:
            connection.close()

    def connect(self, certificate: Path | None = None) -> http.client.HTTPConnection:
        context = self.context(certificate)
        if context is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=ANSWER_S, context=context)

    def serial(self) -> int:
        """Returns the serial number of the certificate that a new connection gets."""
        context = self.context()
        assert context is not None
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=ANSWER_S)
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as secured:
            found = secured.getpeercert()
        assert found is not None
        return int(str(found["serialNumber"]), 16)

    def run(self, *arguments: str, more: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Runs a command with `--url` of this service."""
        scheme = "http" if self._trusted is None else "https"
        return cli(self._directory, *arguments, "--url", f"{scheme}://127.0.0.1:{self.port}", more=more)

    def end(self) -> None:
        if self.command.process.poll() is None:
            self.command.process.terminate()
            assert self.command.process.wait(LIMIT_S) == 0


def cli(
    directory: Path, *arguments: str, more: dict[str, str] | None = None, text: str = ""
) -> subprocess.CompletedProcess[str]:
    ours = {k: v for k, v in os.environ.items() if not k.startswith("TXNSCOPE_")}
    return subprocess.run(
        [sys.executable, "-m", "service.cli", *arguments],
        cwd=directory,
        env=ours | {"PYTHONPATH": str(ROOT)} | (more or {}),
        input=text,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


Here = Callable[..., tuple[int, str]]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Here]:
    """Yields a function that runs a short command in this process and returns its exit code and stderr."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("TXNSCOPE_")]:
        monkeypatch.delenv(name)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def run(*arguments: str) -> tuple[int, str]:
        try:
            code = main(list(arguments))
        except SystemExit as ending:
            code = int(ending.code or 0)
        return code, capsys.readouterr().err

    yield run
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Any]:
    running: list[Service] = []

    def start(*more: str, trusted: Path | None = None) -> Service:
        running.append(Service(tmp_path, *more, trusted=trusted))
        return running[-1]

    yield start
    for service in running:
        service.end()


def test_a_key_works_from_its_creation_until_it_is_revoked(
    cluster: WithPartitions, services: Any, tmp_path: Path
) -> None:
    served = services()
    assert served.run("hanging").returncode == 2
    assert "needs credentials" in served.run("hanging").stderr
    made = cli(tmp_path, "keys", "create", "ops", "--role", "operator@orders", "viewer")
    key = made.stdout.strip()
    assert (made.returncode, key.startswith("txnscope_"), key in made.stderr) == (0, True, False)
    (tmp_path / "ops.key").write_text(made.stdout)
    with (tmp_path / "txnscope.db").open("rb") as store:
        assert key.encode() not in store.read()
    shown = served.run("hanging", "--key-file", "ops.key")
    assert (shown.returncode, "orders-0" in shown.stdout) == (1, True)
    with_variable = {"TXNSCOPE_KEY_FILE": str(tmp_path / "ops.key")}
    finding = json.loads(served.run("hanging", "--json", more=with_variable).stdout)["items"][0]["id"]

    muted = served.run("mute", finding, "--for", "4h", "--reason", "known", "--key-file", "ops.key")
    assert (muted.returncode, muted.stdout.startswith(f"muted finding {finding} until ")) == (0, True), muted.stderr
    assert "muted until" in served.run("findings", "--key-file", "ops.key").stdout
    assert finding in served.run("mute", "--list", "--key-file", "ops.key").stdout
    assert served.run("mute", "--end", "1", "--key-file", "ops.key").returncode == 0
    assert served.run("mute", "--end", "1", "--key-file", "ops.key").returncode == 2

    refused = served.run("acknowledge", finding, "--reason", "seen", "--key-file", "ops.key")
    assert (refused.returncode, "needs no acknowledgement" in refused.stderr) == (2, True), refused.stderr
    cluster.see(hanging_finding(), EVERY[Kind.LOST_RECORDS])
    lost = json.loads(served.run("findings", "--kind", "lost_records", "--json", more=with_variable).stdout)
    done = served.run("acknowledge", lost["items"][0]["id"], "--reason", "sent again", "--key-file", "ops.key")
    assert (done.returncode, done.stdout.startswith("ops acknowledged ")) == (0, True), done.stderr

    (tmp_path / "wrong.key").write_text("not-a-key-of-anybody")
    assert served.run("findings", "--key-file", "wrong.key").returncode == 2
    assert served.ask(C, basic("ann", PASSWORD)) == 200
    served.command.wait_for_text("WARNING refused GET /api/v1/clusters")
    output = served.run("audit", "--key-file", "ops.key")
    assert [word in output.stdout for word in ("set", "ended", "known", "127.0.0.1", "ops")] == [True] * 5, (
        output.stdout
    )
    assert "not-a-key" not in served.command.text + output.stdout

    stream = served.connect()
    stream.request("GET", "/events", headers=bearer(key))
    answer = stream.getresponse()
    assert answer.status == 200
    assert answer.readline().startswith(b"retry")
    cluster.see()
    wait_until(answer.readline, lambda line: line.startswith(b"event: resolved"), "the finding's end in the stream")
    assert cli(tmp_path, "keys", "revoke", "ops").returncode == 0
    wait_until_equal(lambda: served.ask(C, bearer(key)), 401, "the status of a request with the revoked key")
    cluster.see(hanging_finding(1))
    rest = answer.read()  # revoking the key ends the stream
    assert b"event: " not in rest.partition(b"\n\n")[2]
    stream.close()
    listed = cli(tmp_path, "keys", "list")
    assert (listed.returncode, "operator@orders, viewer" in listed.stdout, key in listed.stdout) == (0, True, False)
    assert cli(tmp_path, "keys", "revoke", "ops").returncode == 2


def test_a_new_certificate_is_loaded_without_a_restart(
    cluster: WithPartitions, services: Any, tmp_path: Path, authority: Authority
) -> None:
    """The file is replaced while connections are open. While the file is broken, the server uses the last valid
    certificate."""
    pem = tmp_path / "server.pem"
    shutil.copyfile(authority.issue("server"), pem)
    served = services("--tls-cert", "server.pem", "--tls-key", "server.pem", trusted=authority.certificate)
    served.command.wait_for_text(f"serving https://127.0.0.1:{served.port}")
    first = served.serial()
    assert served.ask(C, basic("ann", PASSWORD)) == 200
    open_one = served.connect()
    open_one.request("GET", "/-/healthy")
    assert open_one.getresponse().read() == b"OK\n"

    pem.write_text("half a certificate")
    assert served.serial() == first
    served.command.wait_for_text(
        "the TLS files have changed, but cannot be used; the previous settings stay in use: server.pem, server.pem"
    )
    pem.unlink()
    assert served.serial() == first
    shutil.copyfile(authority.issue("server"), tmp_path / "new.pem")
    (tmp_path / "new.pem").replace(pem)
    second = served.serial()
    assert second != first
    served.command.wait_for_text("the new files are in use")

    open_one.request("GET", "/-/healthy")
    assert open_one.getresponse().status == 200
    open_one.close()
    plain = http.client.HTTPConnection("127.0.0.1", served.port, timeout=ANSWER_S)
    plain.request("GET", "/-/healthy")
    with pytest.raises((http.client.HTTPException, OSError)):  # the server speaks TLS
        plain.getresponse()
    plain.close()
    (tmp_path / "ops.key").write_text(cli(tmp_path, "keys", "create", "ops", "--role", "viewer").stdout)
    asked = ("hanging", "--key-file", "ops.key")
    assert served.run(*asked, "--ca", str(authority.certificate)).returncode == 1
    refused = served.run(*asked)
    assert (refused.returncode, refused.stderr.count("\n"), "certificate" in refused.stderr) == (3, 1, True)
    assert "Traceback" not in served.command.text


def test_only_clients_with_a_valid_certificate_are_served(
    cluster: WithPartitions,
    services: Any,
    tmp_path: Path,
    authority: Authority,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The certificates of the clients' authority can be replaced while the server runs."""
    shutil.copyfile(authority.issue("server"), tmp_path / "server.pem")
    shutil.copyfile(authority.certificate, tmp_path / "clients.pem")
    other = Authority(tmp_path_factory.mktemp("other"), "other")
    ours, theirs = authority.issue("client"), other.issue("stranger")
    late = authority.issue("late", life=-timedelta(hours=1))
    (tmp_path / "txnscope.toml").write_text("")
    tls = ("--tls-cert", "server.pem", "--tls-key", "server.pem", "--tls-client-ca", "clients.pem")
    served = services(*tls, "--host", "127.0.0.1", trusted=authority.certificate)
    assert served.ask(C, certificate=ours) == 200
    for certificate in (None, theirs, late):
        with pytest.raises(OSError):  # noqa: PT011 - ssl.SSLError, or the connection is closed
            served.ask("/-/healthy", certificate=certificate)
    shown = ("hanging", "--ca", str(authority.certificate))
    assert served.run(*shown, "--client-cert", str(ours)).returncode == 1
    assert served.run(*shown).returncode == 3
    shutil.copyfile(other.certificate, tmp_path / "new.pem")
    (tmp_path / "new.pem").replace(tmp_path / "clients.pem")
    assert served.ask(C, certificate=theirs) == 200
    with pytest.raises(OSError):  # noqa: PT011
        served.ask(C, certificate=ours)
    assert "Traceback" not in served.command.text


def test_a_public_address_needs_authentication_and_tls(tmp_path: Path, authority: Authority, here: Here) -> None:
    shutil.copyfile(authority.issue("server"), tmp_path / "server.pem")
    (tmp_path / "on.toml").write_text(CONFIG)
    tls = ("--tls-cert", "server.pem", "--tls-key", "server.pem")
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        for more, says in (
            ((), "configure [auth]"),
            (tls, "configure [auth]"),
            (("--config", "on.toml"), "give --tls-cert and --tls-key"),
        ):
            for command in (("serve",), ("watch", "--bootstrap-servers", "127.0.0.1:1")):
                code, output = here(*command, "--host", host, "--port", str(free_port()), *more)
                assert (code, output.count("\n")) == (2, 1), output
                assert f"--host {host}: " in output
                assert (says in output, "--insecure" in output) == (True, True)
    assert not (tmp_path / "txnscope.db").exists()


def test_a_public_address_is_served_with_insecure_or_with_auth_and_tls(
    cluster: WithPartitions, services: Any, tmp_path: Path, authority: Authority
) -> None:
    """`serve` checks the Host header with `--insecure`, and also with authentication and TLS."""
    shutil.copyfile(authority.issue("server"), tmp_path / "server.pem")
    tls = ("--tls-cert", "server.pem", "--tls-key", "server.pem")
    secured = services("--host", "0.0.0.0", *tls, "--allowed-hosts", "txnscope.example", trusted=authority.certificate)
    assert secured.ask(C, basic("ann", PASSWORD)) == 200
    assert secured.ask(C, basic("ann", PASSWORD) | {"Host": "txnscope.example:1"}) == 200
    assert secured.ask(C, basic("ann", PASSWORD) | {"Host": "evil.example"}) == 421
    (tmp_path / "txnscope.toml").write_text("")
    open_ = services("--host", "0.0.0.0", "--insecure")
    assert (open_.ask(C), open_.ask(C, {"Host": "evil.example"}), open_.ask("/-/ready")) == (200, 421, 200)


def test_watch_serves_with_the_same_tls_and_authentication(
    cluster: WithPartitions, tmp_path: Path, authority: Authority
) -> None:
    """`watch` passes the settings to the service in its environment, so no command line contains a password hash."""
    application = tmp_path / "spark_jobs"
    application.mkdir()
    (application / "__init__.py").touch()
    (application / "__main__.py").write_text(INGEST)
    shutil.copyfile(authority.issue("server"), tmp_path / "server.pem")
    tls = ("--tls-cert", "server.pem", "--tls-key", "server.pem", "--allowed-hosts", "txnscope.example")
    watched = Service(tmp_path, "--bootstrap-servers", "a:1", *tls, trusted=authority.certificate, command="watch")
    try:
        wait_until_equal(lambda: watched.ask("/-/ready"), 200, "the status of /-/ready", retry_on=(OSError,))
        assert (watched.ask(C), watched.ask(C, basic("ann", PASSWORD))) == (401, 200)
        assert watched.ask(C, basic("ann", PASSWORD) | {"Host": "txnscope.example"}) == 200
        lines = [command_of(process) for process in all_processes()]
        assert not [line for line in lines if HASHED.text in line]
        watched.command.wait_for_text("ingest | ingest ")
        pid = int(watched.command.text.split("ingest | ingest ")[1].split()[0])
        assert HASHED.text not in str(psutil.Process(pid).environ()), (
            "the application got a password hash, which only the service needs"
        )
    finally:
        watched.end()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--tls-cert", "missing.pem", "--tls-key", "missing.pem"), "--tls-cert: missing.pem: No such file"),
        (("--tls-cert", "key.pem", "--tls-key", "key.pem"), "these files are not a PEM certificate and its key"),
        (("--tls-cert", "server.pem", "--tls-key", "locked.pem"), "the key is encrypted"),
        (("--tls-cert", "server.pem", "--tls-key", "other.pem"), "these files are not a PEM certificate and its key"),
        (("--tls-cert", "server.pem"), "--tls-cert needs --tls-key"),
        (("--tls-key", "server.pem"), "needs --tls-cert"),
        (("--tls-client-ca", "server.pem"), "needs --tls-cert"),
        (
            ("--tls-cert", "server.pem", "--tls-key", "server.pem", "--tls-client-ca", "key.pem"),
            "no certificates in PEM",
        ),
        (("--allowed-hosts", "http://x"), "is no host"),
    ],
)
def test_files_that_cannot_be_used_are_named(
    tmp_path: Path, authority: Authority, here: Here, arguments: tuple[str, ...], says: str
) -> None:
    shutil.copyfile(authority.issue("server"), tmp_path / "server.pem")
    shutil.copyfile(authority.issue("other"), tmp_path / "other.pem")
    shutil.copyfile(authority.issue("locked", key_password="secret"), tmp_path / "locked.pem")
    (tmp_path / "key.pem").write_text("no PEM")
    code, output = here("serve", *arguments)
    assert (code, output.count("\n"), says in output) == (2, 1, True), output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("create",), "NAME is missing"),
        (("create", "a\nb", "--role", "viewer"), "NAME is missing"),
        (("create", "ann"), "--role: not a list like"),
        (("create", "ann", "--role", "root"), "--role: 'root' is no role"),
        (("revoke", "nobody"), "no valid key 'nobody'"),
        (("create", "ann", "--role", "viewer", "--store", "sqlite:///none.db"), "there is no such file"),
        (("lst",), "'lst'"),
    ],
)
def test_an_impossible_keys_command_is_refused_in_one_line(
    cluster: WithPartitions, tmp_path: Path, here: Here, arguments: tuple[str, ...], says: str
) -> None:
    code, output = here("keys", *arguments)
    assert (code in (2, 3), output.count("\n"), says in output) == (True, 1, True), output
    assert not (tmp_path / "none.db").exists()


def test_keys_hash_prints_a_hash_for_the_settings_file(tmp_path: Path) -> None:
    output = cli(tmp_path, "keys", "hash", text=f"{PASSWORD}\n")
    assert (output.returncode, output.stdout.startswith("scrypt:15:"), PASSWORD in output.stdout) == (0, True, False)
    weak = cli(tmp_path, "keys", "hash", text="password1234\n")
    assert (weak.returncode, "password1234" in weak.stderr) == (2, False)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "give one of FINDING_ID"),
        (("f", "--topic", "x"), "give one of FINDING_ID"),
        (("f", "--reason", "x"), "--for is missing"),
        (("f", "--for", "soon", "--reason", "x"), "--for: "),
        (("f", "--for", "4h"), "--reason is missing"),
        (("--end", "x"), "'x'"),
    ],
)
def test_an_impossible_mute_is_refused_in_one_line(here: Here, arguments: tuple[str, ...], says: str) -> None:
    code, output = here("mute", *arguments, "--cluster", "orders")
    assert (code, output.count("\n"), says in output) == (2, 1, True), output
