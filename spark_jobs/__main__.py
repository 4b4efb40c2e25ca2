"""`python -m spark_jobs`: the streaming application. Ends with the exit codes of the command line (0, 2, 3)."""

from __future__ import annotations

import logging
import signal
import sys
import threading

from service import lifeline
from service.kafka.errors import BadClientConfig, KafkaFailure
from service.store.errors import StoreError
from spark_jobs.application import Application
from spark_jobs.java import JavaNotFound
from spark_jobs.settings import parse

log = logging.getLogger("txnscope.ingest")


def main(argv: list[str]) -> int:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    lifeline.end_with_parent()
    try:
        Application(parse(argv), stopping).run()
    except BadClientConfig as e:
        log.error("%s", e)
        return 2
    except JavaNotFound as e:
        log.error("%s", e)
        return 2
    except (KafkaFailure, StoreError) as e:
        log.error("%s", e)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
