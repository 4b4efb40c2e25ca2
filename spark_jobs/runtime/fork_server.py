"""`python -m spark_jobs.runtime.fork_server SOCKET`: forks Spark's Python processes after all imports (docs/adr/0012).

Without this server, Spark starts a Python process for each kind of daemon and for each planner, one process after the
other, and each process imports the same modules for a second. With the server, Spark starts `python_process` instead.
`python_process` has the server fork a process, passes streams, arguments and environment to the forked process, and
waits until the forked process ends.

The server ends when its standard input is closed: at the latest, when the application that started the server ends.
"""

from __future__ import annotations

import array
import gc
import importlib
import marshal
import os
import random
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

from spark_jobs.runtime import python_process
from spark_jobs.runtime.python_process import STREAMS

KEEP_FREED_MEMORY: Final = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(64 << 20)}
"""Settings of glibc that make Spark's Python processes keep freed memory. Without these settings, 8 MB go back to the
kernel after each Fetch, at a cost of a third of the decoding time."""

SOURCE_MODULES: Final = tuple(f"spark_jobs.source.{name}" for name in ("transaction_log", "partitions", "ledger"))
"""The modules of the sources, which Spark runs in its Python processes. The fork server imports them in advance;
without a fork server, a daemon does."""

_SPARK_MODULES: Final = (
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.worker",
)
"""Modules that daemons and planners import. The modules of their main programs are left out, because each process runs
its main program itself."""

_BACKLOG: Final = 64
_LONGEST_PATH: Final = 107
"""Longest path of a Unix socket, in bytes (Linux)."""


def socket_in(scratch: Path) -> Path:
    """Returns the path of the socket at which Spark's Python processes reach the server."""
    return scratch / "fork"


@contextmanager
def running(scratch: Path) -> Iterator[None]:
    """Runs a server until the block ends. Starts no server if the socket's path would be too long: `python_process`
    works without one, only more slowly."""
    socket_path = socket_in(scratch)
    if len(os.fsencode(socket_path)) > _LONGEST_PATH:
        yield
        return
    command = [sys.executable, "-m", __name__, str(socket_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=os.environ | KEEP_FREED_MEMORY) as server:
        try:
            yield
        finally:
            server.kill()


def main(socket_path: str) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the application, which ends this process
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(socket_path)
    listener.listen(_BACKLOG)
    for name in (*_SPARK_MODULES, *SOURCE_MODULES):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a child would write to pages that all share
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the children: the server does not wait for them
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            return 0
        connection, _ = listener.accept()
        with connection:
            if os.fork() == 0:
                listener.close()
                _become(connection)


def _become(connection: socket.socket) -> NoReturn:
    """Becomes the process that Spark wanted to start. `connection` closes when this process ends; the process at its
    other end waits for the close."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        random.seed()
        arguments, environment = _receive_request(connection)
        os.register_at_fork(after_in_child=connection.close)  # workers that outlive their daemon are not waited for
        os.environ.clear()
        os.environ.update(environment)
        python_process.run(arguments[0], arguments[1:], python_process.connect())
        code = 0
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else 1
    except BaseException:
        python_process.report_failure(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _receive_request(connection: socket.socket) -> tuple[list[str], dict[str, str]]:
    """Returns the module with its arguments, and the environment. Replaces this process's streams with the streams of
    the process at the other end of `connection`."""
    ancillary_size = socket.CMSG_SPACE(len(STREAMS) * array.array("i").itemsize)
    request, ancillary, _, _ = connection.recvmsg(1 << 16, ancillary_size)
    descriptors = array.array("i")
    for _, _, data in ancillary:
        descriptors.frombytes(data)
    for stream, descriptor in zip(STREAMS, descriptors, strict=True):
        os.dup2(descriptor, stream)
        os.close(descriptor)
    while more := connection.recv(1 << 16):
        request += more
    arguments, environment = marshal.loads(request)  # noqa: S302 - only users with access to our folder can connect
    return arguments, environment


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
