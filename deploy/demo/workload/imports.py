"""One-off imports: each has its own transactional.id, commits once and never returns, so that its id expires."""

from __future__ import annotations

from deploy.demo.workload.app import App

IMPORTS = "imports"


class Imports(App):
    name = "imports"
    example_name = "import-0001"
    shows = "used once; its coordinator removes it after transactional.id.expiration.ms"
    topics = {IMPORTS: 1}  # noqa: RUF012
    pause_s = 15.0
    _done = 0

    def step(self) -> None:
        self._done += 1
        transactional_id = self.named(f"import-{self._done:04d}")
        one_off = self.start(transactional_id)
        self.begin(one_off, transactional_id, [((self.named(IMPORTS), 0), b"row")] * self.choices.randint(1, 20))
        self.end(one_off, transactional_id, commit=True)
