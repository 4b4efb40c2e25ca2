"""Where Spark runs, and with which settings of the user's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Master:
    """`url`: as for spark-submit; None: this machine, with two cores. `conf`: settings of Spark's, which win over
    ours."""

    url: str | None = None
    conf: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def is_local(self) -> bool:
        return self.url is None or self.url.startswith("local")


HERE: Final = Master()
