"""Two instances with the same transactional.id: the start of each fences the other instance and aborts its
transaction."""

from __future__ import annotations

from confluent_kafka import KafkaException, Producer

from deploy.demo.workload.app import App
from deploy.demo.workload.clients import retry

INVENTORY = "inventory"


class NotFenced(Exception):
    """An instance could commit, although another instance with its transactional.id had started later."""


class Inventory(App):
    name = "inventory"
    example_name = "inventory"
    shows = "two instances with one id fence each other: the id's epoch grows, half of its transactions are aborted"
    topics = {INVENTORY: 1}  # noqa: RUF012
    pause_s = 4.0
    _running: Producer | None = None

    def step(self) -> None:
        """Starts the second instance while the first is in a transaction. The second instance then commits a
        transaction of its own."""
        fenced = self._running or self.start(self.example)
        self._begin(fenced)
        self._running = self.start(self.example)
        self.book.aborted(self.example, "fenced")
        self._expect_fenced(fenced)
        self._begin(self._running)
        self.end(self._running, self.example, commit=True)

    def _begin(self, instance: Producer) -> None:
        self.begin(instance, self.example, [((self.named(INVENTORY), 0), b"stock: 7")])

    def _expect_fenced(self, instance: Producer) -> None:
        try:
            retry(self.context.stop, instance.commit_transaction)
        except KafkaException as e:
            if e.args[0].fatal():
                return
            raise
        raise NotFenced(self.example)
