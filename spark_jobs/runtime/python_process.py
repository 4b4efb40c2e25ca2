"""How a Python process of Spark's begins: planners, the daemons that fork workers, and thereby every worker.

Run as a program in place of the interpreter (`PYSPARK_PYTHON`), as `… SERVER NAMES -m MODULE ARGUMENT…`. It has the
process forked by the server at the socket SERVER (`fork_server`), and waits for its end. Where none answers it is that
process itself, which differs from `python -m` in four ways:

- It connects to the JVM before it imports anything. The JVM waits ten seconds for that, a figure that cannot be set,
  and ends the query after them; on a starved machine imports take longer (Spark 4.3, PythonWorkerFactory).
- pyspark is imported from site-packages, not from `pyspark.zip`, which holds no bytecode: 0.2 s of a processor instead
  of 1.4 s.
- A daemon imports what its workers will need, the modules NAMES (separated by commas) among it, before it forks them:
  they share that memory, and begin without a second of imports each.
- Who loses the JVM ends without a traceback. The JVM's end is said by who watches over it.

It knows nothing of the project, and imports next to nothing before it is connected.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Any

STREAMS = (0, 1, 2)
_LOOKUP = "pyspark.sql.worker.lookup_data_sources"
"""Its only worker looks for packages named `pyspark_…`, and needs nothing of ours."""


def main() -> None:
    server, names, *rest = sys.argv[1:]
    if rest[:1] != ["-m"]:  # Spark asks for the version with `-c`
        os.execv(sys.executable, [sys.executable, *rest])  # noqa: S606 - no shell wanted
    module, *arguments = rest[1:]
    if _was_forked(server, [module, *arguments]):
        return
    connected = connect()
    _find_packages()
    if module == "pyspark.daemon":
        _import_for_workers([*arguments, *names.split(",")])
    run(module, arguments, connected)


def run(module: str, arguments: "Sequence[str]", connected: "int | None") -> None:
    """Does what `python -m` does. `connected`: what `connect` returned."""
    import runpy
    import traceback

    sys.excepthook = say
    traceback.print_exc = _say_current
    if connected is not None:
        _hand_over(connected)
    sys.argv = [module, *arguments]
    _show_as([module, *arguments][-1].rpartition(".")[2])
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def connect() -> "int | None":
    """The descriptor of a connection to the JVM that waits for this process; None: it is a daemon, or a TCP port."""
    path = os.environ.get("PYTHON_WORKER_FACTORY_SOCK_PATH")
    if path is None:
        return None
    import _socket  # `socket` itself takes longer to import than to connect

    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.connect(path)
    except OSError:  # the JVM stopped meanwhile: nobody waits any more
        sys.exit(1)
    return connection.detach()


def _was_forked(server: str, arguments: "list[str]") -> bool:
    """Whether the server has forked it. Returns at its end."""
    import _socket
    import array
    import marshal

    asked = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        asked.connect(server)
        told = marshal.dumps((arguments, dict(os.environ)))
        sent = asked.sendmsg([told], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", STREAMS))])
        asked.sendall(told[sent:])
        asked.shutdown(_socket.SHUT_WR)
    except OSError:
        return False
    for stream in STREAMS:
        os.close(stream)  # they are the other's now: who reads them is to see the end when that one ends
    try:
        asked.recv(1)
    except OSError:  # the server has ended with the question unread
        sys.exit(1)
    return True


def _find_packages() -> None:
    """The environment's packages, and what Spark adds to the path except its own copies of what is installed."""
    import site

    site.main()
    del sys.path[0]  # this file's folder
    sys.path[:] = [
        entry
        for entry in sys.path
        if not (os.path.basename(entry).startswith(("pyspark", "py4j")) and entry.endswith(".zip"))  # noqa: PTH119
    ]


def _hand_over(descriptor: int) -> None:
    """The connection is there already when pyspark wants to make one."""
    import socket

    from pyspark import worker_util

    def made(_where: "Any", _secret: "Any") -> "tuple[Any, socket.socket]":
        connection = socket.socket(fileno=descriptor)
        return connection.makefile("rwb", int(os.environ.get("SPARK_BUFFER_SIZE", "65536"))), connection

    worker_util.local_connect_and_auth = made  # type: ignore[attr-defined,assignment]


def _import_for_workers(names: "list[str]") -> None:
    import importlib

    if _LOOKUP in names:
        return
    for name in names:
        importlib.import_module(name)


def _show_as(name: str) -> None:
    """For `top` and `ps -o comm`: forked processes all have the server's command line."""
    try:
        with open("/proc/self/comm", "w") as shown:  # noqa: PTH123
            shown.write(name)  # Linux cuts it at 15 bytes
    except OSError:  # another system: it goes without
        pass


def _say_current(*_: "Any", **__: "Any") -> None:
    say(*sys.exc_info())


def say(kind: "type[BaseException] | None", failure: "BaseException | None", trace: "TracebackType | None") -> None:
    """One line, with the place it was raised at; none where the JVM is gone, or ends this process."""
    if failure is None or kind is None or issubclass(kind, (ConnectionError, EOFError, SystemExit, KeyboardInterrupt)):
        return
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
    text = " ".join(str(failure).split())
    sys.stderr.write(f"a Python process of Spark ends: {kind.__name__}: {text[:300]}{where}\n")


if __name__ == "__main__":
    main()
