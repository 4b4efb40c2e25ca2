"""One-off imports: each has its own transactional.id, commits once and never returns, so that its id expires."""

from __future__ import annotations

from deploy.demo.workload.app import App, AppContext

IMPORTS = "imports"


class Imports(App):
    name = "imports"
    shows = "used once; its coordinator removes it after transactional.id.expiration.ms"
    topics = {IMPORTS: 1}  # noqa: RUF012
    pause_s = 15.0

    def __init__(self, context: AppContext) -> None:
        super().__init__(context)
        self._done = 0

    @property
    def example(self) -> str:
        return self._id(1)

    def step(self) -> None:
        self._done += 1
        transactional_id = self._id(self._done)
        one_off = self.start(transactional_id)
        self.begin(one_off, transactional_id, [((self.named(IMPORTS), 0), b"row")] * self.choices.randint(1, 20))
        self.end(one_off, transactional_id, commit=True)

    def _id(self, number: int) -> str:
        return self.named(f"import-{number:04d}")
