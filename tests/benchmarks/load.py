"""Commits transactions at a steady rate, in a process of its own: `python -m tests.benchmarks.load BOOTSTRAP TOPIC RATE
IDS`. When its standard input ends, it stops, and prints the number of commits and the seconds that they took."""

from __future__ import annotations

import sys
import threading
import time

from tests.integration.producers import open_producer, transact


def main(bootstrap: str, topic: str, rate: float, ids: int) -> None:
    producers = [open_producer(bootstrap, f"load-{number}") for number in range(ids)]
    stop = threading.Event()
    done = [0] * ids
    began = time.monotonic()

    def work(number: int) -> None:
        """Commits at this worker's share of the rate. A worker that falls behind catches up, so that the total rate is
        kept."""
        every = ids / rate
        due = began + every * number / ids
        while not stop.wait(max(0.0, due - time.monotonic())):
            transact(producers[number], topic)
            done[number] += 1
            due += every

    threads = [threading.Thread(target=work, args=(number,)) for number in range(ids)]
    for thread in threads:
        thread.start()
    print("started", flush=True)
    sys.stdin.read()
    stop.set()
    for thread in threads:
        thread.join()
    print(sum(done), time.monotonic() - began, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))
