"""Prints the part of requirements.lock that an image or the demo needs, with hashes.

`python role_requirements.py EXTRA…`, in the folder of the lock, prints what the project needs with these extras;
`--group build` prints the packages that build the project. The lock lists, for each package, the packages that require
it (`# via`), so no dependency has to be resolved again.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

LOCK: Final = "requirements.lock"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Locked(NamedTuple):
    """A package of the lock. `text`: the lines of all its versions in the lock; different Pythons may need different
    versions. `via`: the packages that require it."""

    text: str
    via: frozenset[str]


def role(root: Path, extras: Iterable[str]) -> str:
    """Returns the lock's lines for the dependencies in pyproject.toml, for those of `extras`, and for all packages that
    these require. Raises SystemExit if the lock lacks one of the dependencies."""
    project = _read(root)["project"]
    lines = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    return _locked(root, lines)


def group(root: Path, name: str) -> str:
    """Returns the lock's lines for a dependency group in pyproject.toml, and for all packages that the group
    requires. Raises SystemExit if the lock lacks a package of the group."""
    return _locked(root, _read(root)["dependency-groups"][name])


def _read(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "pyproject.toml").read_text("utf-8"))


def _locked(root: Path, requirements: Iterable[str]) -> str:
    wanted = {_name(line) for line in requirements}
    locked = parse((root / LOCK).read_text("utf-8"))
    if missing := wanted - locked.keys():
        raise SystemExit(f"{LOCK} lacks {', '.join(sorted(missing))}: run `make lock`")
    while more := {name for name, package in locked.items() if package.via & wanted} - wanted:
        wanted |= more
    return "".join(package.text for name, package in locked.items() if name in wanted)


def parse(lock: str) -> dict[str, Locked]:
    """Returns the packages of the lock, keyed by name. A package begins at the margin; its hashes and comments are
    indented."""
    found: dict[str, Locked] = {}
    for text in re.findall(r"^\S.*\n(?:[ \t].*\n)*", lock, re.MULTILINE):
        comment = " ".join(re.findall(r"^\s+#(.*)$", text, re.MULTILINE)).replace("via", " ", 1)
        before = found.get(_name(text), Locked("", frozenset()))
        via = {_name(word) for word in comment.split() if _NAME.match(word)}
        found[_name(text)] = Locked(before.text + text, before.via | via)
    return found


def _name(requirement: str) -> str:
    """Returns the normalised name of the package, without version, extras and markers."""
    matched = _NAME.match(requirement)
    if matched is None:
        raise SystemExit(f"not a requirement: {requirement!r}")
    return re.sub(r"[-_.]+", "-", matched.group()).lower()


if __name__ == "__main__":
    here, words = Path(), sys.argv[1:]
    sys.stdout.write(group(here, words[1]) if words[:1] == ["--group"] else role(here, words))
