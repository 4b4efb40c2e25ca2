"""Cuts the changelog: turns the section of unreleased changes into the section of a version."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from deploy.release.commands import ReleaseError

_HEADING: Final = re.compile(r"^## (.+)$", re.MULTILINE)
_UNRELEASED: Final = re.compile(r"Unreleased|(?P<version>\d+\.\d+\.\d+) \(unreleased\)")
_VERSION: Final = re.compile(r"(?P<final>\d+\.\d+\.\d+)(rc[1-9]\d*)?")


class Cut(NamedTuple):
    """The changelog after a cut, and the notes of the release."""

    text: str
    notes: str


def cut(text: str, version: str, date: str) -> Cut:
    """Returns the changelog with a section for `version`, dated `date`, and a new empty section for the next changes.
    Also returns the notes of the new version. After a release candidate, the empty section is for the final version.

    Raises ReleaseError if the first section is not unreleased, or announces a version other than `final_of(version)`;
    if `version` is not valid, or has a section already; or if the first section is empty and there was no release
    candidate.
    """
    final = final_of(version)
    headings = list(_HEADING.finditer(text))
    first = _UNRELEASED.fullmatch(headings[0][1]) if headings else None
    if first is None:
        raise ReleaseError("CHANGELOG.md: the first section is not `Unreleased` or `X.Y.Z (unreleased)`")
    if (announced := first["version"]) not in (None, final):
        raise ReleaseError(f"CHANGELOG.md: the first section is {announced} (unreleased), not {final}")
    if any(heading[1].split()[0] == version for heading in headings[1:]):
        raise ReleaseError(f"CHANGELOG.md already has a section for {version}")
    begin, end = headings[0].end(), headings[1].start() if len(headings) > 1 else len(text)
    notes = text[begin:end].strip()
    if not notes and not _had_candidate(headings, final):
        raise ReleaseError(f"CHANGELOG.md has no text for {version}")
    notes = notes or "No change since the last release candidate."
    coming = "Unreleased" if version == final else f"{final} (unreleased)"
    section = f"## {coming}\n\n## {version} ({date})\n\n{notes}\n"
    rest = text[end:]
    return Cut(text[: headings[0].start()] + section + (f"\n{rest}" if rest else ""), f"{notes}\n")


def final_of(version: str) -> str:
    """Returns the version without the suffix of a release candidate. Raises ReleaseError if `version` does not have the
    form 1.2.0 or 1.2.0rc1."""
    matched = _VERSION.fullmatch(version)
    if matched is None:
        raise ReleaseError(f"{version!r} is not a version: give one like 1.2.0 or 1.2.0rc1")
    return matched["final"]


def _had_candidate(headings: list[re.Match[str]], final: str) -> bool:
    return any(heading[1].startswith(f"{final}rc") for heading in headings)
