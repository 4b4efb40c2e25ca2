"""An audit trail with the newest protocol (TV2): every end of a transaction raises the epoch; some aborts are empty."""

from __future__ import annotations

from deploy.demo.workload.app import App, AppContext
from deploy.demo.workload.raw_producer import Connection, RawProducer

AUDIT = "audit"
PARTITIONS = 2
ABORT_RATE = 0.25
EMPTY_ABORT_RATE = 0.2


class Audit(App):
    name = "audit"
    example_name = "audit-tv2"
    shows = "transaction version 2: the epoch grows with every transaction"
    topics = {AUDIT: PARTITIONS}  # noqa: RUF012
    pause_s = 1.0

    def __init__(self, context: AppContext) -> None:
        super().__init__(context)
        self._connection = Connection(context.bootstrap, context.stop)
        self._producer = RawProducer(self._connection, self.example)

    def step(self) -> None:
        if self._producer.producer_id < 0:
            self._producer.init()
            self.book.initialised(self.example)
        if self.choices.random() < EMPTY_ABORT_RATE:
            self._producer.end(commit=False)
            self.book.aborted_nothing(self.example)
        used = self.choices.sample(range(PARTITIONS), self.choices.randint(1, PARTITIONS))
        self.book.began(self.example, [(self.named(AUDIT), partition) for partition in used])
        for partition in used:
            self._producer.produce(self.named(AUDIT), partition, [b"who", b"what"])
        if self.choices.random() < ABORT_RATE:
            self._producer.end(commit=False)
            self.book.aborted(self.example, "client")
        else:
            self._producer.end(commit=True)
            self.book.committed(self.example)

    def close(self) -> None:
        self._connection.close()
