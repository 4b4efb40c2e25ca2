"""Lists every name that docs/stability.md promises to keep. `python -m tests.helpers.stable_names` writes the list to
docs/stable-names.json.

Each kind of interface has a module that takes its names from the code. Examples of names are `findings --kind VALUE`
and `Finding.kind string`. If a name contains a type, a change of the type makes a new name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from tests.helpers.paths import ROOT
from tests.helpers.stable_names import command_line, configuration, monitoring, rest, wire

DOCUMENT: Final = ROOT / "docs" / "stable-names.json"

NEEDS: Final = " needs "
"""Marks a part that a request, a command or a table requires. A newly required part breaks programs of users. A part
that is no longer required breaks none."""

Sections = Mapping[str, Sequence[str]]


def made() -> dict[str, list[str]]:
    """Returns the sections with the names that the code has now, sorted."""
    parts = (command_line, configuration, rest, monitoring, wire)
    return {title: sorted(set(names)) for part in parts for title, names in part.sections().items()}


def listed() -> dict[str, list[str]]:
    """Returns the sections of the committed list."""
    sections: dict[str, list[str]] = json.loads(DOCUMENT.read_text("utf-8"))
    return sections


def broken(promised: Sections, present: Sections) -> list[str]:
    """Returns a line for each broken promise: a name that is gone, or a newly required part of something that was
    promised."""
    gone = [
        f"{title}: {name!r} is gone"
        for title, names in promised.items()
        for name in names
        if NEEDS not in name and name not in present.get(title, ())
    ]
    known = {name for names in promised.values() for name in names}
    new = [
        f"{title}: {name!r} is a new requirement"
        for title, names in present.items()
        for name in names
        if NEEDS in name and name not in known and name.partition(NEEDS)[0] in known
    ]
    return gone + new


def document(sections: Sections) -> str:
    """Returns the text of the list: a name in each line, so that a change of one name is one line of a diff."""
    return json.dumps(sections, indent=1, ensure_ascii=False) + "\n"
