"""`python -m spark_jobs`: the streaming application. Ends with the exit codes of the command line (0, 2, 3)."""

from __future__ import annotations

import logging
import signal
import sys
import threading

from service import lifeline
from service.kafka.errors import KafkaFailure, KafkaUnavailable
from service.store.errors import StoreError, StoreUnavailable
from spark_jobs.application import Application
from spark_jobs.java import JavaNotFound
from spark_jobs.settings import parse

CONFIGURATION, CANNOT_REACH = 2, 3

log = logging.getLogger("txnscope.ingest")


def main(argv: list[str]) -> int:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # what ends a query is told once, in one line
    logging.getLogger("alembic").setLevel(logging.WARNING)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        # by a thread: the event's lock may be held by the very code that the signal interrupted
        signal.signal(number, lambda *_: threading.Thread(target=stopping.set).start())
    lifeline.end_with_parent()
    try:
        Application(parse(argv), stopping).run()
    except (KafkaUnavailable, StoreUnavailable) as e:
        log.error("%s", e)
        return CANNOT_REACH
    except (KafkaFailure, StoreError, JavaNotFound) as e:
        log.error("%s", e)
        return CONFIGURATION
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
