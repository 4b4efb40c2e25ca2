"""Reads the transaction log in a Spark session, and throws the data away. Command: `python -m
tests.benchmarks.spark_source BOOTSTRAP TASKS`. Prints one line of JSON.

The benchmark starts a new process for each run, as it does for Kafka's console consumer, so that no run profits from an
earlier one.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from typing import Any

from pyspark.sql import DataFrame

from service.domain.transaction_log.states import TOPIC
from service.kafka.client import KafkaClient
from service.kafka.cluster import topic_layout
from service.kafka.settings import ClientSettings
from spark_jobs.fold.rows import facts_from_rows
from spark_jobs.runtime.direct_batches import scratch_folder
from spark_jobs.runtime.session import TASK_TRIES, Master, start_spark
from spark_jobs.source.log_identity import LogPosition
from spark_jobs.source.reader_settings import ReaderSettings
from spark_jobs.source.transaction_log import TransactionLogSource, source_options
from tests.benchmarks.process_tree import MARK, ProcessTree
from tests.integration.application import log_ends

TIMEOUT_S = 300


def main(bootstrap: str, tasks: int) -> None:
    """Reads with `tasks` parallel tasks. Prints a JSON list with one item for each batch that has data: [seconds since
    this process began, records, runs, CPU seconds of all processes so far]. If the log is not read within TIMEOUT_S,
    exits with an error after printing the list."""
    began = time.monotonic()
    client = ClientSettings.load(bootstrap, None)
    ends = log_ends(bootstrap)
    with KafkaClient(client) as kafka:
        layout = topic_layout(kafka, TOPIC)
    assert layout is not None
    # as at the first start: the whole log is history, and partitions are read whole
    positions = {p: LogPosition(layout.topic_id, 0, 0, -1, end) for p, end in ends.items()}
    batches: list[tuple[float, int, int, dict[str, float]]] = []
    tree = ProcessTree(os.environ[MARK])
    done = threading.Event()

    def count(frame: DataFrame, _batch_id: int) -> None:
        facts = list(facts_from_rows(frame.toArrow()))
        runs = sum(len(some) for kind, some in facts if kind == "run")
        if records := sum(read["records"] for kind, reads in facts if kind == "read" for read in reads.to_pylist()):
            batches.append((time.monotonic() - began, records, runs, tree.cpu_s()))
        if sum(records for _, records, _, _ in batches) >= sum(ends.values()):
            done.set()

    with scratch_folder() as scratch, tempfile.TemporaryDirectory(prefix="txnscope-bench-") as checkpoint:
        spark = start_spark(scratch, lambda _jvm: None, Master(f"local[{tasks},{TASK_TRIES}]"))
        spark.dataSource.register(TransactionLogSource)
        options: dict[str, Any] = dict(source_options(ReaderSettings(client=client), positions, ""))
        options |= {"direct": str(scratch), "cores": str(tasks)}
        query = (
            spark.readStream.format(TransactionLogSource.name())
            .options(**options)
            .load()
            .writeStream.foreachBatch(count)
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime="0 seconds")
            .start()
        )
        complete = done.wait(TIMEOUT_S)
        time.sleep(0.5)  # Spark logs no error if it is stopped between two batches
        query.stop()
        spark.stop()
    print(json.dumps(batches))
    if not complete:
        sys.exit(f"the log was not read within {TIMEOUT_S} s")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
