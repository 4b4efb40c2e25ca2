"""Takes orders: three records over three partitions in a transaction; now and then one is aborted and taken again."""

from __future__ import annotations

from deploy.demo.workload.app import App, World
from deploy.demo.workload.clients import insist, producer, send

ORDERS = "orders"
PARTITIONS = 3
ABORT_RATE = 0.2


class Orders(App):
    name = "orders"
    shows = "commits, and now and then an abort by the application itself"
    topics = {ORDERS: PARTITIONS}  # noqa: RUF012
    pause_s = 0.5

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._producer = producer(world.bootstrap, self.example)
        self._taken = 0

    @property
    def example(self) -> str:
        return self.named("orders-1")

    def step(self) -> None:
        if not self._taken:
            insist(self.world.stop, self._producer.init_transactions)
            self.book.initialised(self.example)
        if self.choices.random() < ABORT_RATE:
            self._take(commit=False)
        self._take(commit=True)

    def _take(self, *, commit: bool) -> None:
        self._taken += 1
        participants = [(self.named(ORDERS), partition) for partition in range(PARTITIONS)]
        self._producer.begin_transaction()
        self.book.began(self.example, participants)
        send(self._producer, [(p, b"order %d, line %d" % (self._taken, p[1])) for p in participants], self.world.stop)
        if commit:
            insist(self.world.stop, self._producer.commit_transaction)
            self.book.committed(self.example)
        else:
            insist(self.world.stop, self._producer.abort_transaction)
            self.book.aborted(self.example, "client")
