"""Takes orders: each is a transaction of three records on three partitions. Now and then one is aborted."""

from __future__ import annotations

from deploy.demo.workload.app import App

ORDERS = "orders"
PARTITIONS = 3
ABORT_RATE = 0.2


class Orders(App):
    name = "orders"
    example_name = "orders-1"
    shows = "commits, and now and then an abort by the application itself"
    topics = {ORDERS: PARTITIONS}  # noqa: RUF012
    pause_s = 0.5
    _taken = 0

    def step(self) -> None:
        if self.choices.random() < ABORT_RATE:
            self._take(commit=False)
        self._take(commit=True)

    def _take(self, *, commit: bool) -> None:
        self._taken += 1
        participants = [(self.named(ORDERS), partition) for partition in range(PARTITIONS)]
        lines = [(p, b"order %d, line %d" % (self._taken, p[1])) for p in participants]
        self.begin(self.producer, self.example, lines)
        self.end(self.producer, self.example, commit=commit)
