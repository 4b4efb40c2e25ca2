"""Spark's Python processes are forked by one that has imported everything; who waits for them sees no difference."""

from __future__ import annotations

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
from tests.helpers.waiting import LIMIT_S, wait_for

RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which a server listens that finds the modules there."""
    folder = tmp_path_factory.mktemp("scratch")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
        with fork_server.running(folder):
            wait_for(fork_server.socket_in(folder).exists, "the server to listen")
            yield folder


def run(scratch: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    server = str(fork_server.socket_in(scratch))
    command = [sys.executable, "-S", python_process.__file__, server, "json", "-m", *arguments]
    environment = {"PYTHONPATH": str(scratch)} | environment
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=os.environ | environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_what_is_forked_has_streams_arguments_environment_and_all_imports(scratch: Path) -> None:
    (scratch / "tells.py").write_text(
        "import os, sys\n"
        "print(sys.argv[1:], os.environ['ASKED'], sys.stdin.read(), 'pyarrow' in sys.modules, os.getpid())\n"
        "print(open('/proc/self/comm').read(), file=sys.stderr)\n"
    )
    process = run(scratch, "tells", "one", "a worker", ASKED="yes")
    output, said = process.communicate("through the pipe", timeout=LIMIT_S)
    *shown, pid = output.split()
    assert " ".join(shown) == "['one', 'a worker'] yes through the pipe True"
    assert (int(pid) == process.pid, said.strip(), process.returncode) == (False, "a worker", 0)


def test_environments_do_not_mix(scratch: Path) -> None:
    (scratch / "shows.py").write_text("import os; print(os.environ.get('FIRST'), os.environ.get('SECOND'))")
    assert run(scratch, "shows", FIRST="1").communicate(timeout=LIMIT_S)[0] == "1 None\n"
    assert run(scratch, "shows", SECOND="2").communicate(timeout=LIMIT_S)[0] == "None 2\n"


def test_a_planner_names_itself_to_the_jvm_and_ends_with_the_connection(scratch: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(scratch / "jvm.sock"))
        listening.listen()
        listening.settimeout(LIMIT_S)
        process = run(scratch, RUNNER, PYTHON_WORKER_FACTORY_SOCK_PATH=str(scratch / "jvm.sock"))
        connection, _ = listening.accept()
    with connection:
        connection.settimeout(LIMIT_S)
        (pid,) = struct.unpack(">i", connection.recv(4))
        assert Path(f"/proc/{pid}/comm").read_text() == "python_streamin\n"
        assert process.poll() is None
    assert process.communicate(timeout=LIMIT_S) == ("", "")


def test_a_failure_is_one_line(scratch: Path) -> None:
    (scratch / "broken.py").write_text("raise ValueError('two\\nlines')")
    _, said = run(scratch, "broken").communicate(timeout=LIMIT_S)
    assert said == f"a Python process of Spark ends: ValueError: two lines ({scratch}/broken.py:1)\n"


def test_who_waits_learns_that_a_forked_process_was_killed(scratch: Path) -> None:
    (scratch / "waits.py").write_text("import os, time; print(os.getpid(), flush=True); time.sleep(1000)")
    process = run(scratch, "waits")
    assert process.stdout is not None
    os.kill(int(process.stdout.readline()), signal.SIGKILL)
    process.communicate(timeout=LIMIT_S)


def test_without_a_server_a_process_does_its_work_itself(tmp_path: Path) -> None:
    (tmp_path / "alone.py").write_text("import os; print(os.getpid())")
    process = run(tmp_path, "alone")
    assert process.communicate(timeout=LIMIT_S) == (f"{process.pid}\n", "")


def test_the_server_ends_with_the_application_also_when_that_is_killed(tmp_path: Path) -> None:
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


def test_where_a_socket_cannot_have_so_long_a_path_it_goes_without(tmp_path: Path) -> None:
    deep = tmp_path / ("deep" * 30)
    deep.mkdir()
    with fork_server.running(deep):
        assert list(deep.iterdir()) == []
    (deep / "alone.py").write_text("print('done')")
    assert run(deep, "alone").communicate(timeout=LIMIT_S) == ("done\n", "")
