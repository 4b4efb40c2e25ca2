"""The program that Spark starts for its Python processes: connected at once, quiet at its end."""

from __future__ import annotations

import importlib.util
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.runtime import python_process
from tests.helpers.waiting import LIMIT_S

RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"


def run(*arguments: str, names: str = "json", **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-S", python_process.__file__, "", names, *arguments]
    return subprocess.Popen(
        command, env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_it_answers_spark_s_question_for_the_version() -> None:
    output, _ = run("-c", "import sys; print('%d.%d' % sys.version_info[:2])").communicate(timeout=LIMIT_S)
    assert output == f"{sys.version_info[0]}.{sys.version_info[1]}\n"


def test_it_is_connected_before_it_has_imported_anything(tmp_path: Path) -> None:
    """Stopped at its first import, it has connected: so fast that ten seconds are never reached."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "jvm.sock"))
    listening.listen()
    listening.settimeout(LIMIT_S)
    where = {"PYTHON_WORKER_FACTORY_SOCK_PATH": str(tmp_path / "jvm.sock"), "PYTHONPATH": str(tmp_path)}
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("import time; time.sleep(1000)")
    process = run("-m", RUNNER, **where)
    try:
        listening.accept()
    finally:
        process.kill()
        process.communicate()


def test_a_planner_uses_the_connection_that_was_made_and_ends_quietly(tmp_path: Path) -> None:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "jvm.sock"))
    listening.listen()
    listening.settimeout(LIMIT_S)
    process = run("-m", RUNNER, PYTHON_WORKER_FACTORY_SOCK_PATH=str(tmp_path / "jvm.sock"))
    connection, _ = listening.accept()
    with connection:
        connection.settimeout(LIMIT_S)
        assert struct.unpack(">i", connection.recv(4)) == (process.pid,)
    _, said = process.communicate(timeout=LIMIT_S)
    assert said == ""


def test_packages_are_not_read_from_archives(tmp_path: Path) -> None:
    """They hold no bytecode."""
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
def test_a_failure_is_one_line_and_a_lost_connection_none(tmp_path: Path, code: str, expected: str) -> None:
    (tmp_path / "broken.py").write_text(code)
    process = run("-m", "broken", PYTHONPATH=str(tmp_path))
    _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode != 0
    assert said.replace(f"{tmp_path}/", "") == expected


def test_who_comes_after_the_jvm_has_stopped_ends_quietly(tmp_path: Path) -> None:
    process = run("-m", RUNNER, PYTHON_WORKER_FACTORY_SOCK_PATH=str(tmp_path / "gone.sock"))
    _, said = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, said) == (1, "")


@pytest.mark.parametrize(
    ("worker", "expected"), [("pyspark.worker", "True True"), ("pyspark.sql.worker.lookup_data_sources", "False False")]
)
def test_a_daemon_has_imported_what_its_workers_need_before_it_forks_them(
    tmp_path: Path, worker: str, expected: str
) -> None:
    """Its workers share the memory, and begin without a second of imports each."""
    for name in ("pyspark/__init__.py", f"{worker.replace('.', '/')}.py", "needed.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "pyspark" / "daemon.py").write_text(
        f"import sys; print('needed' in sys.modules, {worker!r} in sys.modules)"
    )
    process = run("-m", "pyspark.daemon", worker, names="needed", PYTHONPATH=str(tmp_path))
    output, said = process.communicate(timeout=LIMIT_S)
    assert (output.strip(), said) == (expected, "")
