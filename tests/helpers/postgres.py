"""A PostgreSQL server for tests, from Debian's package. Its socket is in its own directory, which is removed with the
server."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final
from urllib.parse import quote

import psycopg

from deploy.demo.child_process import ChildProcess
from service.store import migrate
from service.store.engine import open_engine
from tests.helpers.waiting import LIMIT_S

PACKAGED: Final = Path("/usr/lib/postgresql")

_SUPERUSER: Final = "txnscope"
_TEMPLATE: Final = "at_head"
_PREFIX: Final = "txnscope-postgres-"
_SHARED: Final = Path("/dev/shm")
_ROOM: Final = 2**30
_THROWAWAY: Final = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "shared_buffers": "32MB",
    "autovacuum": "off",  # a worker that is connected to the template would keep it from being copied
}
# the collation of a language, as on most servers: a query that relies on the order of bytes without COLLATE fails
_INITDB: Final = ("--encoding=UTF8", "--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US")


class PostgresError(Exception):
    """Raised if the server is not installed or does not start. The message names a remedy if there is one."""


class Postgres:
    """A server, and new databases in it: `with Postgres() as server, server.database() as url`.

    By default the server is fast: it never syncs, and its files are in memory if there is space. With `is_durable`, the
    server syncs as PostgreSQL does by default, and its files are on disk.
    """

    def __init__(self, *, is_durable: bool = False) -> None:
        self._settings = {} if is_durable else _THROWAWAY
        self._is_durable = is_durable
        self._programs = find_programs()
        self._numbers = itertools.count()
        self._process: ChildProcess | None = None
        self._has_template = False

    def __enter__(self) -> Postgres:
        self._home = _new_home(in_memory=not self._is_durable)
        self.directory = Path(self._home.name)
        try:
            if os.geteuid() == 0:
                shutil.chown(self.directory, "postgres")
            self._initialise()
            self.start()
        except BaseException:
            self._home.cleanup()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
        self._home.cleanup()

    def start(self) -> None:
        """Starts the server, and waits until it answers. Raises PostgresError if the server ends, or does not answer in
        time."""
        settings = self._settings | {
            "listen_addresses": "",
            "unix_socket_directories": str(self.directory),
            "dynamic_shared_memory_type": "mmap",  # files in the server's own directory
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        with self._log.open("ab") as out:
            self._process = ChildProcess(self._command("postgres", "-D", str(self._data), *options), out)
        give_up = time.monotonic() + LIMIT_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > give_up:
                self.stop()
                raise PostgresError(f"PostgreSQL does not start; its log ends:\n{self._log.read_text()[-2000:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Stops the server by a fast shutdown, which disconnects all clients."""
        if self._process is not None:
            self._process.signal(signal.SIGINT)
            self._process.stop()
            self._process = None

    @contextmanager
    def database(self, *, is_empty: bool = False) -> Iterator[str]:
        """Yields the URL of a new database, at the newest revision unless `is_empty` is set. Drops the database
        afterwards, even if it is in use."""
        if not is_empty and not self._has_template:
            self._create_template()
        name = f"test_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {'template0' if is_empty else _TEMPLATE} STRATEGY file_copy")
        try:
            yield self.url(name)
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def url(self, database: str, **parameters: str) -> str:
        query = "&".join(f"{k}={quote(v, safe='')}" for k, v in {"host": str(self.directory), **parameters}.items())
        return f"postgresql://{_SUPERUSER}@/{database}?{query}"

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        """Runs `sql` as the superuser, in the database `postgres` and outside of a transaction. Returns the rows."""
        with self._connect() as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    @property
    def _log(self) -> Path:
        return self.directory / "server.log"

    def _initialise(self) -> None:
        made = subprocess.run(
            self._command("initdb", "--no-sync", "--auth=trust", f"--username={_SUPERUSER}", *_INITDB, str(self._data)),
            capture_output=True,
            text=True,
        )
        if made.returncode:
            raise PostgresError(f"initdb of {self._programs}: {made.stderr.strip()}")

    def _command(self, program: str, *arguments: str) -> list[str]:
        """Returns the command line for `program`, which runs in the server's directory. PostgreSQL refuses to run as
        root. So root runs `program` as the package's user, to whom this directory belongs."""
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"] if os.geteuid() == 0 else []
        return [*as_user, "env", f"--chdir={self.directory}", str(self._programs / program), *arguments]

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(host=str(self.directory), user=_SUPERUSER, dbname="postgres", autocommit=True)

    def _answers(self) -> bool:
        try:
            self._connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def _create_template(self) -> None:
        self.execute(f"CREATE DATABASE {_TEMPLATE}")
        engine = open_engine(self.url(_TEMPLATE))
        migrate.upgrade(engine)
        engine.dispose()
        self._has_template = True


def _new_home(*, in_memory: bool) -> tempfile.TemporaryDirectory[str]:
    """Returns a new directory. With `in_memory`, the directory is in memory if there is enough space, because a
    database has 300 files. Also removes directories that processes did not remove before they ended."""
    has_room = in_memory and _SHARED.is_dir() and shutil.disk_usage(_SHARED).free >= _ROOM
    place = _SHARED if has_room else Path(tempfile.gettempdir())
    for home in place.glob(f"{_PREFIX}*"):
        if not _is_alive(int(home.name.removeprefix(_PREFIX).partition("-")[0])):
            shutil.rmtree(home, ignore_errors=True)
    return tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-", dir=place)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


def find_programs(packaged: Path = PACKAGED) -> Path:
    """Returns the directory with the programs of Debian's newest server. If Debian's server is not installed,
    returns the directory of the server on PATH. Raises PostgresError if PATH has no server, either."""
    versions = {int(d.parent.name): d for d in packaged.glob("*/bin") if re.fullmatch(r"\d+", d.parent.name)}
    servers = [directory for _, directory in sorted(versions.items()) if (directory / "postgres").exists()]
    if servers:
        return servers[-1]
    on_path = shutil.which("postgres")
    if on_path is None:
        raise PostgresError("no PostgreSQL server is installed; `make system-packages` installs Debian's")
    return Path(on_path).resolve().parent
