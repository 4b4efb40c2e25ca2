"""`python -m spark_jobs`: the streaming application. Ends with one of the exit codes of the command line (0, 2, 3), or
with 1 if it has to be started again.

Most of a start is spent waiting for Spark's JVM. Heavy modules are imported during that time (docs/adr/0012).
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from service.kafka.errors import KafkaFailure, KafkaRefused, KafkaUnavailable
from service.processes import lifeline
from service.processes.identity import descendants
from service.settings import SettingsError
from service.store.errors import StoreDamaged, StoreError, StoreReplaced, StoreUnavailable
from spark_jobs.runtime import fork_server
from spark_jobs.runtime.direct_batches import scratch_folder
from spark_jobs.runtime.java import JavaNotFound
from spark_jobs.runtime.liveness import Liveness
from spark_jobs.runtime.watchdog import STUCK, BadLiveness, Watchdog, liveness_reporter
from spark_jobs.settings import IngestSettings, parse

CONFIGURATION, CANNOT_REACH = 2, 3

log = logging.getLogger("txnscope.ingest")


def main(argv: list[str]) -> int:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    for handler in logging.getLogger().handlers:
        handler.addFilter(_is_ours)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        # in a thread: the code that the signal interrupted may hold the event's lock
        signal.signal(number, lambda *_: threading.Thread(target=stopping.set).start())
    beat = lifeline.hold()
    try:
        settings = parse(argv)
        report_liveness = None if settings.liveness is None else liveness_reporter(settings.liveness)
        # on a cluster, Spark itself starts its Python processes
        with scratch_folder() as scratch, fork_server.running(scratch) if settings.master.is_local else nullcontext():
            liveness = Liveness(partial(descendants, os.getpid()), scratch)
            watchdog = Watchdog(liveness, beat, report_liveness)
            watchdog.begin()
            try:
                return _run(settings, stopping, liveness, watchdog, scratch)
            finally:
                watchdog.end()
    except (KafkaUnavailable, KafkaRefused, StoreUnavailable, StoreDamaged) as e:
        log.error("%s", e)
        return CANNOT_REACH
    except (SettingsError, KafkaFailure, StoreError, JavaNotFound, BadLiveness) as e:
        log.error("%s", e)
        return CONFIGURATION


def _run(
    settings: IngestSettings, stopping: threading.Event, liveness: Liveness, watchdog: Watchdog, scratch: Path
) -> int:
    from spark_jobs.runtime.session import SparkFailed, SparkStart

    starting = SparkStart(scratch, watchdog.guard, settings.master)
    from spark_jobs.application import Application
    from spark_jobs.runtime.job_runner import TooManyFailures

    try:
        Application(settings, stopping, liveness, watchdog, scratch, starting).run()
    except (SparkFailed, TooManyFailures, StoreReplaced) as e:
        log.error("%s", e)
        return STUCK
    return 0


def _is_ours(record: logging.LogRecord) -> bool:
    """Returns whether a line is logged. Lines of py4j and of the root logger are not logged: py4j reports every lost
    connection with a traceback, sometimes through the root logger, and our own loggers report the consequence in one
    line."""
    return record.name.startswith("txnscope") or (record.name != "root" and not record.name.startswith("py4j"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
