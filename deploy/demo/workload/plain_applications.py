"""The demo's applications that do nothing unusual, except that one of them is too slow for its timeout."""

from __future__ import annotations

from typing import Final

from deploy.demo.workload.app import App, AppContext
from deploy.demo.workload.raw_producer import Connection, wait_for_state

ORDERS, PAYMENTS, IMPORTS, REPORTS = "orders", "payments", "imports", "reports"
ORDER_PARTITIONS: Final = 3
_PAYMENT_PARTITIONS: Final = 2
_IN_A_ROW: Final = 3
_ORDERS_ABORTED: Final = 0.2
_PAYMENTS_ABORTED: Final = 0.1


class Orders(App):
    """Takes orders. Each order is a transaction of three records on three partitions. Some of the transactions are
    aborted."""

    name = "orders"
    example_name = "orders-1"
    shows = "commits, and now and then an abort by the application itself"
    topics = {ORDERS: ORDER_PARTITIONS}  # noqa: RUF012
    pause_s = 0.5
    _taken = 0

    def step(self) -> None:
        if self.choices.random() < _ORDERS_ABORTED:
            self._take(commit=False)
        self._take(commit=True)

    def _take(self, *, commit: bool) -> None:
        self._taken += 1
        participants = [(self.named(ORDERS), partition) for partition in range(ORDER_PARTITIONS)]
        lines = [(p, b"order %d, line %d" % (self._taken, p[1])) for p in participants]
        self.begin(self.producer, self.example, lines)
        self.end(self.producer, self.example, commit=commit)


class Payments(App):
    """Books many small payments: a few transactions in a row, each on one partition, nearly all committed."""

    name = "payments"
    example_name = "payments/eu 1"
    shows = "many short transactions of one partition each; the id contains a slash and a space"
    topics = {PAYMENTS: _PAYMENT_PARTITIONS}  # noqa: RUF012
    pause_s = 1.0
    _booked = 0

    def step(self) -> None:
        for _ in range(_IN_A_ROW):
            self._book_one()

    def _book_one(self) -> None:
        self._booked += 1
        participant = (self.named(PAYMENTS), self.choices.randrange(_PAYMENT_PARTITIONS))
        self.begin(self.producer, self.example, [(participant, b"payment %d" % self._booked)])
        self.end(self.producer, self.example, commit=self.choices.random() >= _PAYMENTS_ABORTED)


class Imports(App):
    """One-off imports: each has its own transactional.id, commits once and never returns, so that its id expires."""

    name = "imports"
    example_name = "import-0001"
    shows = "used once; the coordinator removes the id after transactional.id.expiration.ms"
    topics = {IMPORTS: 1}  # noqa: RUF012
    pause_s = 15.0
    _done = 0

    def step(self) -> None:
        self._done += 1
        transactional_id = self.named(f"import-{self._done:04d}")
        one_off = self.start(transactional_id)
        self.begin(one_off, transactional_id, [((self.named(IMPORTS), 0), b"row")] * self.choices.randint(1, 20))
        self.end(one_off, transactional_id, commit=True)


class Reports(App):
    """A nightly report that takes longer than its transaction timeout: the coordinator aborts it every time."""

    name = "reports"
    example_name = "nightly-report"
    shows = "open until its timeout passes, then aborted by the coordinator, and started again"
    topics = {REPORTS: 1}  # noqa: RUF012
    pause_s = 5.0

    def __init__(self, context: AppContext) -> None:
        super().__init__(context)
        self._connection = Connection(context.bootstrap, context.stop)

    def step(self) -> None:
        # the coordinator has fenced the last run's producer, so every run starts a new producer
        report = self.start(self.example, self.context.timeout_ms)
        self.begin(report, self.example, [((self.named(REPORTS), 0), b"page 1 of 1000")])
        wait_for_state(self._connection, self.example, "CompleteAbort")
        self.book.aborted(self.example, "timeout")

    def close(self) -> None:
        self._connection.close()
