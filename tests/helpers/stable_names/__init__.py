"""Every name that docs/stability.md promises to keep, made from the code: `python -m tests.helpers.stable_names` writes
docs/stable-names.json.

A module for each kind of interface yields its names in sections. A name says what somebody else may rely on, such as
`findings --kind VALUE` or `Finding.kind string`: a change of the type is another name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from tests.helpers.paths import ROOT
from tests.helpers.stable_names import command_line, configuration, monitoring, rest, wire

DOCUMENT: Final = ROOT / "docs" / "stable-names.json"

NEEDS: Final = " needs "
"""The mark in a name of something that a request, a command or a table must have. Removing such a name breaks nobody;
adding one does."""

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
    """Returns what breaks a promise: names that are gone, and needs that users do not meet yet."""
    gone = [
        f"{title}: {name!r} is gone"
        for title, names in promised.items()
        for name in names
        if NEEDS not in name and name not in present.get(title, ())
    ]
    known = {name for names in promised.values() for name in names}
    new = [
        f"{title}: {name!r} is a new need"
        for title, names in present.items()
        for name in names
        if NEEDS in name and name not in known and name.partition(NEEDS)[0] in known
    ]
    return gone + new


def document(sections: Sections) -> str:
    """Returns the text of the list: a name in each line, so that a change of one name is one line of a diff."""
    return json.dumps(sections, indent=1, ensure_ascii=False) + "\n"
