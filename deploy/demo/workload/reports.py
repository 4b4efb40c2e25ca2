"""A nightly report that takes longer than its transaction timeout: the coordinator aborts it every time."""

from __future__ import annotations

from deploy.demo.workload.app import App, AppContext
from deploy.demo.workload.raw_producer import Connection, wait_for_state

REPORTS = "reports"


class Reports(App):
    name = "reports"
    example_name = "nightly-report"
    shows = "open until its timeout passes, then aborted by the coordinator, and started again"
    topics = {REPORTS: 1}  # noqa: RUF012
    pause_s = 5.0

    def __init__(self, context: AppContext) -> None:
        super().__init__(context)
        self._connection = Connection(context.bootstrap, context.stop)

    def step(self) -> None:
        # the coordinator has fenced the last run's producer: every run is a new one
        report = self.start(self.example, self.context.timeout_ms)
        self.begin(report, self.example, [((self.named(REPORTS), 0), b"page 1 of 1000")])
        wait_for_state(self._connection, self.example, "CompleteAbort")
        self.book.aborted(self.example, "timeout")

    def close(self) -> None:
        self._connection.close()
