"""Starts the Python processes of Spark: the planners and, without a cluster, the daemons that fork the workers.

Spark runs this program in place of the interpreter (`PYSPARK_PYTHON`), as `… SERVER NAMES -m MODULE ARGUMENT…`. With a
cluster, Spark starts the interpreter; for a planner, the interpreter becomes this program (`session.planners_path`).
The program has the server at the socket SERVER (`fork_server`) fork a process, and waits until that process ends. If no
server answers, the program becomes the process itself. The process differs from `python -m` in four ways:

- It connects to the JVM before it imports anything. The JVM waits ten seconds for the connection, then ends the query.
  No setting changes this limit, and on a starved machine imports take longer (Spark 4.3, PythonWorkerFactory).
- It imports pyspark from site-packages, not from `pyspark.zip`, which holds no bytecode. The import takes 0.2 s of a
  processor instead of 1.4 s.
- A daemon imports the modules that its workers will need, and the modules NAMES (separated by commas), before it forks
  the workers. So the workers share the memory of these modules, and each worker saves a second of imports.
- A process that loses the JVM ends without a traceback. The watchdog reports the end of the JVM.

This module imports no other module of the project, and next to nothing before the connection.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Any

STREAMS = (0, 1, 2)
_LOOKUP_MODULE = "pyspark.sql.worker.lookup_data_sources"
"""Module of a daemon with only one worker. The worker searches for packages named `pyspark_…` and needs none of our
modules."""


def main() -> None:
    server, names, *rest = sys.argv[1:]
    if rest[:1] != ["-m"]:  # Spark asks for the version with `-c`
        os.execv(sys.executable, [sys.executable, *rest])  # noqa: S606 - no shell wanted
    module, *arguments = rest[1:]
    if _fork_by_server(server, [module, *arguments]):
        return
    connected = connect()
    _find_packages()
    if module == "pyspark.daemon" and _LOOKUP_MODULE not in arguments:
        import importlib

        for name in (*arguments, *names.split(",")):
            importlib.import_module(name)
    run(module, arguments, connected)


def run(module: str, arguments: "Sequence[str]", connected: "int | None") -> None:
    """Runs `module` as `python -m` does. `connected`: the result of `connect`."""
    import runpy
    import traceback

    sys.excepthook = report_failure
    traceback.print_exc = lambda *_, **__: report_failure(*sys.exc_info())
    if connected is not None:
        _hand_over(connected)
    sys.argv = [module, *arguments]
    _set_process_name([module, *arguments][-1].rpartition(".")[2])
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def connect() -> "int | None":
    """Connects to the JVM, which waits for this process, and returns the descriptor of the connection. Returns None if
    this process is a daemon.

    The JVM listens on a Unix socket or on loopback. On loopback, it expects a secret within ten seconds (Spark 4.3,
    SocketAuthHelper).
    """
    path = os.environ.get("PYTHON_WORKER_FACTORY_SOCK_PATH")
    port = os.environ.get("PYTHON_WORKER_FACTORY_PORT")
    if path is None and port is None:
        return None
    import _socket  # `socket` itself takes longer to import than to connect

    address: Any
    if path is not None:
        family, address = _socket.AF_UNIX, path
    elif os.environ.get("SPARK_PREFER_IPV6", "").lower() == "true":
        family, address = _socket.AF_INET6, ("::1", int(port or 0))
    else:
        family, address = _socket.AF_INET, ("127.0.0.1", int(port or 0))
    connection = _socket.socket(family, _socket.SOCK_STREAM)
    try:
        connection.connect(address)
        if path is None:
            _authenticate(connection, os.environ.get("PYTHON_WORKER_FACTORY_SECRET", "").encode())
    except OSError:  # the JVM has stopped meanwhile
        sys.exit(1)
    return connection.detach()


def _authenticate(connection: "Any", secret: bytes) -> None:
    """Sends the secret, and waits for the JVM's "ok". Raises OSError if the JVM answers anything else."""
    expected = b"\0\0\0\2ok"
    connection.sendall(len(secret).to_bytes(4, "big") + secret)
    answer = b""
    while len(answer) < len(expected):
        received = connection.recv(len(expected) - len(answer))
        if not received:
            break
        answer += received
    if answer != expected:
        raise OSError("the JVM refused the secret")


def _fork_by_server(server: str, arguments: "list[str]") -> bool:
    """Has the server fork the process, and waits until the process ends. Returns False if no server answers."""
    import _socket
    import array
    import marshal

    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.connect(server)
        request = marshal.dumps((arguments, dict(os.environ)))
        sent = connection.sendmsg([request], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", STREAMS))])
        connection.sendall(request[sent:])
        connection.shutdown(_socket.SHUT_WR)
    except OSError:
        return False
    for stream in STREAMS:
        os.close(stream)  # the forked process has them now: readers see their end when it ends
    try:
        connection.recv(1)
    except OSError:  # the server has ended without reading the request
        sys.exit(1)
    return True


def _find_packages() -> None:
    """Adds the environment's packages to `sys.path`, and removes Spark's own copies of pyspark and py4j from it."""
    import site

    site.main()
    del sys.path[0]  # this file's folder
    sys.path[:] = [
        entry
        for entry in sys.path
        if not (os.path.basename(entry).startswith(("pyspark", "py4j")) and entry.endswith(".zip"))  # noqa: PTH119
    ]


def _hand_over(descriptor: int) -> None:
    """Makes pyspark use the open, authenticated connection instead of opening another."""
    import socket

    from pyspark import worker_util

    def made(_where: "Any", _secret: "Any") -> "tuple[Any, socket.socket]":
        connection = socket.socket(fileno=descriptor)
        return connection.makefile("rwb", int(os.environ.get("SPARK_BUFFER_SIZE", "65536"))), connection

    worker_util.local_connect_and_auth = made  # type: ignore[attr-defined,assignment]


def _set_process_name(name: str) -> None:
    """Sets the name that `top` and `ps -o comm` show, because all forked processes have the server's command line."""
    try:
        with open("/proc/self/comm", "w") as shown:  # noqa: PTH123
            shown.write(name)  # Linux cuts it at 15 bytes
    except OSError:  # not Linux: the name stays
        pass


def report_failure(
    kind: "type[BaseException] | None", failure: "BaseException | None", trace: "TracebackType | None"
) -> None:
    """Writes one line about a failure, with the place where it was raised. Writes nothing if the JVM is gone or ends
    this process."""
    if failure is None or kind is None or issubclass(kind, (ConnectionError, EOFError, SystemExit, KeyboardInterrupt)):
        return
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
    text = " ".join(str(failure).split())
    sys.stderr.write(f"a Python process of Spark ends: {kind.__name__}: {text[:300]}{where}\n")


if __name__ == "__main__":
    main()
