"""Books payments, many small ones: a few transactions in a row, each on one partition, nearly all committed."""

from __future__ import annotations

from deploy.demo.workload.app import App

PAYMENTS = "payments"
PARTITIONS = 2
IN_A_ROW = 3
ABORT_RATE = 0.1


class Payments(App):
    name = "payments"
    example_name = "payments/eu 1"
    shows = "many short transactions of one partition each; its id contains a slash and a space"
    topics = {PAYMENTS: PARTITIONS}  # noqa: RUF012
    pause_s = 1.0
    _booked = 0

    def step(self) -> None:
        for _ in range(IN_A_ROW):
            self._book_one()

    def _book_one(self) -> None:
        self._booked += 1
        participant = (self.named(PAYMENTS), self.choices.randrange(PARTITIONS))
        self.begin(self.producer, self.example, [(participant, b"payment %d" % self._booked)])
        self.end(self.producer, self.example, commit=self.choices.random() >= ABORT_RATE)
