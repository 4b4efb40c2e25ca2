"""Parses deploy/compose/Containerfile into stages and instructions."""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple

from tests.deploy.compose_files import COMPOSE

_ESCAPED: Final = re.compile(r"\\\n\s*")


class Stage(NamedTuple):
    """A stage of the Containerfile. `base`: an image or another stage; `lines`: (instruction, its arguments) in
    order."""

    name: str
    base: str
    lines: tuple[tuple[str, str], ...]

    def all(self, instruction: str) -> list[str]:
        return [rest for name, rest in self.lines if name == instruction]

    def words(self, instruction: str) -> list[str]:
        """Returns the arguments of the stage's last `instruction` (CMD or ENTRYPOINT), which are a JSON list."""
        words: list[str] = json.loads(self.all(instruction)[-1])
        return words


def stages() -> dict[str, Stage]:
    text = _ESCAPED.sub(" ", (COMPOSE / "Containerfile").read_text("utf-8"))
    found: dict[str, Stage] = {}
    lines: list[tuple[str, str]] = []
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        instruction, _, rest = line.partition(" ")
        if instruction == "FROM":
            base, _, name = rest.partition(" AS ")
            lines = []
            found[name] = Stage(name, base, ())
        elif found:
            lines.append((instruction, rest))
            found[name] = found[name]._replace(lines=tuple(lines))
    return found


def lineage(name: str) -> list[Stage]:
    """Returns the chain of stages on which the stage is built: the lowest stage first, the stage itself last."""
    known = stages()
    stage = known[name]
    return [*(lineage(stage.base) if stage.base in known else []), stage]
