"""How a Python process of Spark's begins: planners, the daemons that fork workers, and thereby every worker.

Run as a program in place of the interpreter (`PYSPARK_PYTHON`), as `… NAMES -m MODULE ARGUMENT…`. It differs from
`python -m` in four ways:

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
    from types import TracebackType
    from typing import Any

_LOOKUP = "pyspark.sql.worker.lookup_data_sources"
"""Its only worker looks for packages named `pyspark_…`, and needs nothing of ours."""


def main() -> None:
    names, *rest = sys.argv[1:]
    if rest[:1] != ["-m"]:  # Spark asks for the version with `-c`
        os.execv(sys.executable, [sys.executable, *rest])  # noqa: S606 - no shell wanted
    connected = _connect()
    module, arguments = rest[1], rest[2:]
    _find_packages()

    import runpy
    import traceback

    sys.excepthook = _say
    traceback.print_exc = _say_current
    if connected is not None:
        _hand_over(connected)
    if module == "pyspark.daemon":
        _import_for_workers([*arguments, *names.split(",")])
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _connect() -> "int | None":
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


def _say_current(*_: "Any", **__: "Any") -> None:
    _say(*sys.exc_info())


def _say(kind: "type[BaseException] | None", failure: "BaseException | None", trace: "TracebackType | None") -> None:
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
