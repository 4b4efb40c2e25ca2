"""What a plan is made of: steps, a permission to give, what it costs, and what does not help."""

from __future__ import annotations

from typing import NamedTuple


class Step(NamedTuple):
    """`head`: what to do; `command`: to be pasted as it is; `href`, `link`: a page to look at."""

    head: str
    text: str
    command: str | None = None
    href: str | None = None
    link: str = ""


class Grant(NamedTuple):
    """A permission that is missing, and the lines for kafka-acls.sh that give it."""

    what: str
    lines: tuple[str, ...]


class Plan(NamedTuple):
    """`needs`: which permission. `warning`: said before all else."""

    steps: tuple[Step, ...]
    needs: str = ""
    cost: str = ""
    no_help: tuple[str, ...] = ()
    warning: str = ""
