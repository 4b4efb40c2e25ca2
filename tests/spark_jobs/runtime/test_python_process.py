"""Tests of Spark's Python processes: they connect to the JVM at once, and end quietly. A fork server imports everything
in advance. If there is a fork server, it forks the processes, and the parent of the processes sees no difference."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_jobs.runtime import fork_server, python_process
from spark_jobs.runtime.session import planners_path
from tests.helpers.waiting import LIMIT_S, wait_for

RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"


def run(*arguments: str, server: str = "", names: str = "json", **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-S", python_process.__file__, server, names, *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=os.environ | environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def forked(folder: Path, module: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Runs a module of the folder, through the fork server of the folder if there is one."""
    found = {"PYTHONPATH": str(folder)} | environment
    return run("-m", module, *arguments, server=str(fork_server.socket_in(folder)), **found)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yields a folder with a fork server, which can run the modules in the folder."""
    folder = tmp_path_factory.mktemp("scratch")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
        with fork_server.running(folder):
            wait_for(fork_server.socket_in(folder).exists, "the server to listen")
            yield folder


class Jvm:
    """Stands in for the JVM. Listens on loopback for the connection of a planner, which has to send a secret. `at` has
    the port and the secret as environment variables."""

    secret: str | None = "of this planner"

    def __init__(self, listening: socket.socket) -> None:
        self.listening = listening
        self.at = {"PYTHON_WORKER_FACTORY_PORT": str(listening.getsockname()[1])}
        self.at["PYTHON_WORKER_FACTORY_SECRET"] = str(self.secret)

    def connection(self) -> socket.socket:
        """Returns the connection of a planner. If there is a secret, waits until the planner has sent it."""
        connection, _ = self.listening.accept()
        connection.settimeout(LIMIT_S)
        if self.secret is not None:
            secret = self.secret.encode()
            received = connection.recv(4 + len(secret), socket.MSG_WAITALL)
            assert received == struct.pack(">i", len(secret)) + secret
            connection.sendall(struct.pack(">i", 2) + b"ok")
        return connection

    def accept(self) -> tuple[socket.socket, int]:
        """Returns the connection of a planner, and the process id that the planner sends first."""
        connection = self.connection()
        (pid,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
        return connection, pid


class LocalJvm(Jvm):
    """Stands in for the JVM of a session on this machine. Listens on a socket of the file system, without a secret."""

    secret = None

    def __init__(self, listening: socket.socket) -> None:
        self.listening = listening
        self.at = {"PYTHON_WORKER_FACTORY_SOCK_PATH": str(listening.getsockname())}


@pytest.fixture(params=["local", "cluster"])
def jvm(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Jvm]:
    is_local = request.param == "local"
    with socket.socket(socket.AF_UNIX if is_local else socket.AF_INET) as listening:
        listening.bind(str(tmp_path / "jvm.sock") if is_local else ("127.0.0.1", 0))
        listening.listen()
        listening.settimeout(LIMIT_S)
        yield LocalJvm(listening) if is_local else Jvm(listening)


def test_the_process_answers_sparks_question_for_the_version() -> None:
    output, _ = run("-c", "import sys; print('%d.%d' % sys.version_info[:2])").communicate(timeout=LIMIT_S)
    assert output == f"{sys.version_info[0]}.{sys.version_info[1]}\n"


def test_the_process_connects_before_its_first_import(jvm: Jvm, tmp_path: Path) -> None:
    """Spark waits at most ten seconds for the connection. Even if the imports take longer, the process connects in
    time."""
    process = run("-m", RUNNER, PYTHONPATH=str(imports_for_ever(tmp_path)), **jvm.at)
    try:
        jvm.connection().close()
    finally:
        process.kill()
        process.communicate()


def imports_for_ever(folder: Path) -> Path:
    """Returns a folder with a package `pyspark` whose import takes longer than any test."""
    (folder / "pyspark").mkdir()
    (folder / "pyspark" / "__init__.py").write_text("import time; time.sleep(1000)")
    return folder


def test_a_planner_of_a_cluster_connects_before_its_first_import(jvm: Jvm, tmp_path: Path) -> None:
    """In a cluster, Spark starts the Python interpreter itself, because the path of the interpreter has to be valid on
    other machines, too."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    found = os.pathsep.join([str(planners_path(scratch, sys.executable)), str(imports_for_ever(tmp_path))])
    process = subprocess.Popen([sys.executable, "-m", RUNNER], env=os.environ | {"PYTHONPATH": found} | jvm.at)
    try:
        jvm.connection().close()
    finally:
        process.kill()
        process.communicate()


def test_a_planner_uses_the_connection_that_was_made_and_ends_quietly(jvm: Jvm) -> None:
    process = run("-m", RUNNER, **jvm.at)
    connection, pid = jvm.accept()
    connection.close()
    assert pid == process.pid
    _, said = process.communicate(timeout=LIMIT_S)
    assert said == ""


def test_packages_are_not_read_from_archives(tmp_path: Path) -> None:
    """Archives contain no bytecode."""
    (tmp_path / "where.py").write_text("import pyspark, sys; print(pyspark.__file__); print(sys.path)")
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    home = Path(spec.origin or "").parent
    archives = f"{home}/python/lib/pyspark.zip:{home}/python/lib/py4j-0.10.9.9-src.zip:{tmp_path}"
    output, said = run("-m", "where", PYTHONPATH=archives).communicate(timeout=LIMIT_S)
    assert said == ""
    assert "site-packages/pyspark/__init__.py" in output
    assert ".zip/" not in output
    assert "pyspark.zip" not in output


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("raise BrokenPipeError('gone')", ""),
        ("raise EOFError", ""),
        ("raise ValueError('two\\nlines')", "a Python process of Spark ends: ValueError: two lines (broken.py:1)\n"),
    ],
)
def test_a_failure_prints_one_line_and_a_lost_connection_none(tmp_path: Path, code: str, expected: str) -> None:
    (tmp_path / "broken.py").write_text(code)
    process = run("-m", "broken", PYTHONPATH=str(tmp_path))
    _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode != 0
    assert said.replace(f"{tmp_path}/", "") == expected


def test_a_process_that_starts_after_the_jvm_stopped_ends_quietly(tmp_path: Path) -> None:
    process = run("-m", RUNNER, PYTHON_WORKER_FACTORY_SOCK_PATH=str(tmp_path / "gone.sock"))
    _, said = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, said) == (1, "")


@pytest.mark.parametrize(
    ("worker", "expected"), [("pyspark.worker", "True True"), ("pyspark.sql.worker.lookup_data_sources", "False False")]
)
def test_a_daemon_has_imported_what_its_workers_need_before_it_forks_them(
    tmp_path: Path, worker: str, expected: str
) -> None:
    """The workers share the daemon's memory, so no worker spends a second on imports."""
    for name in ("pyspark/__init__.py", f"{worker.replace('.', '/')}.py", "needed.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "pyspark" / "daemon.py").write_text(
        f"import sys; print('needed' in sys.modules, {worker!r} in sys.modules)"
    )
    process = run("-m", "pyspark.daemon", worker, names="needed", PYTHONPATH=str(tmp_path))
    output, said = process.communicate(timeout=LIMIT_S)
    assert (output.strip(), said) == (expected, "")


def test_a_forked_process_has_streams_arguments_environment_and_imports(scratch: Path) -> None:
    (scratch / "tells.py").write_text(
        "import os, sys\n"
        "print(sys.argv[1:], os.environ['ASKED'], sys.stdin.read(), 'pyarrow' in sys.modules, os.getpid())\n"
        "print(open('/proc/self/comm').read(), file=sys.stderr)\n"
    )
    process = forked(scratch, "tells", "one", "a worker", ASKED="yes")
    output, said = process.communicate("through the pipe", timeout=LIMIT_S)
    *shown, pid = output.split()
    assert " ".join(shown) == "['one', 'a worker'] yes through the pipe True"
    assert (int(pid) == process.pid, said.strip(), process.returncode) == (False, "a worker", 0)


def test_environments_of_forked_processes_do_not_mix(scratch: Path) -> None:
    (scratch / "shows.py").write_text("import os; print(os.environ.get('FIRST'), os.environ.get('SECOND'))")
    assert forked(scratch, "shows", FIRST="1").communicate(timeout=LIMIT_S)[0] == "1 None\n"
    assert forked(scratch, "shows", SECOND="2").communicate(timeout=LIMIT_S)[0] == "None 2\n"


def test_a_forked_planner_names_itself_and_ends_with_the_connection(scratch: Path, jvm: Jvm) -> None:
    process = forked(scratch, RUNNER, **jvm.at)
    connection, pid = jvm.accept()
    with connection:
        assert Path(f"/proc/{pid}/comm").read_text() == "python_streamin\n"
        assert process.poll() is None
    assert process.communicate(timeout=LIMIT_S) == ("", "")


def test_a_failure_of_a_forked_process_is_one_line(scratch: Path) -> None:
    (scratch / "broken.py").write_text("raise ValueError('two\\nlines')")
    _, said = forked(scratch, "broken").communicate(timeout=LIMIT_S)
    assert said == f"a Python process of Spark ends: ValueError: two lines ({scratch}/broken.py:1)\n"


def test_the_parent_sees_the_end_of_a_killed_forked_process(scratch: Path) -> None:
    (scratch / "waits.py").write_text("import os, time; print(os.getpid(), flush=True); time.sleep(1000)")
    process = forked(scratch, "waits")
    assert process.stdout is not None
    os.kill(int(process.stdout.readline()), signal.SIGKILL)
    process.communicate(timeout=LIMIT_S)


def test_without_a_server_a_process_does_its_work_itself(tmp_path: Path) -> None:
    (tmp_path / "alone.py").write_text("import os; print(os.getpid())")
    process = forked(tmp_path, "alone")
    assert process.communicate(timeout=LIMIT_S) == (f"{process.pid}\n", "")


def test_the_fork_server_ends_with_a_killed_application(tmp_path: Path) -> None:
    keeps = "import sys; from pathlib import Path; from spark_jobs.runtime import fork_server\n" + (
        "with fork_server.running(Path(sys.argv[1])): sys.stdin.read()"
    )
    application = subprocess.Popen([sys.executable, "-c", keeps, str(tmp_path)], stdin=subprocess.PIPE)
    where = fork_server.socket_in(tmp_path)
    wait_for(where.exists, "the server to listen")
    application.kill()
    application.communicate()

    def is_gone() -> bool:
        with socket.socket(socket.AF_UNIX) as asking:
            return asking.connect_ex(str(where)) != 0

    wait_for(is_gone, "the server to end")


def test_a_path_too_long_for_a_socket_means_no_fork_server(tmp_path: Path) -> None:
    deep = tmp_path / ("deep" * 30)
    deep.mkdir()
    with fork_server.running(deep):
        assert list(deep.iterdir()) == []
    (deep / "alone.py").write_text("print('done')")
    assert forked(deep, "alone").communicate(timeout=LIMIT_S) == ("done\n", "")
