"""Tests that a release gets the unreleased section of the changelog, and that a version that does not fit the changelog
is refused."""

from __future__ import annotations

import pytest

from deploy.release.changelog import cut
from deploy.release.commands import ReleaseError

HEAD = "# Changelog\n\nWhat changed.\n\n"
DATE = "2026-12-01"


@pytest.mark.parametrize("heading", ["Unreleased", "1.0.0 (unreleased)"])
def test_what_is_unreleased_becomes_the_section_of_the_version(heading: str) -> None:
    made = cut(f"{HEAD}## {heading}\n\n- A thing.\n- More.\n", "1.0.0", DATE)
    assert made.text == f"{HEAD}## Unreleased\n\n## 1.0.0 ({DATE})\n\n- A thing.\n- More.\n"
    assert made.notes == "- A thing.\n- More.\n"


def test_older_sections_stay_as_they_are() -> None:
    older = "## 1.0.0 (2026-11-01)\n\n- First.\n"
    made = cut(f"{HEAD}## Unreleased\n\n- A thing.\n\n{older}", "1.1.0", DATE)
    assert made.text == f"{HEAD}## Unreleased\n\n## 1.1.0 ({DATE})\n\n- A thing.\n\n{older}"


def test_the_version_itself_follows_its_release_candidate() -> None:
    candidate = cut(f"{HEAD}## 1.0.0 (unreleased)\n\n- A thing.\n", "1.0.0rc1", DATE)
    assert candidate.text == f"{HEAD}## 1.0.0 (unreleased)\n\n## 1.0.0rc1 ({DATE})\n\n- A thing.\n"
    final = cut(candidate.text, "1.0.0", DATE)
    assert final.notes == "No change since the last release candidate.\n"
    assert f"## 1.0.0 ({DATE})\n\n{final.notes}\n## 1.0.0rc1" in final.text


@pytest.mark.parametrize(
    ("sections", "version", "complaint"),
    [
        ("## 1.0.0 (unreleased)\n\n- A thing.\n", "1.1.0", r"the first section is 1.0.0 \(unreleased\), not 1.1.0"),
        ("## Unreleased\n\n## 1.0.0 (2026-11-01)\n\n- First.\n", "1.1.0", "has no text for 1.1.0"),
        ("## Unreleased\n\n- More.\n\n## 1.0.0 (2026-11-01)\n\n- First.\n", "1.0.0", "already has a section for 1.0.0"),
        ("## 1.0.0 (2026-11-01)\n\n- First.\n", "1.1.0", "the first section is not `Unreleased`"),
        ("", "1.0.0", "the first section is not `Unreleased`"),
        ("## Unreleased\n\n- A thing.\n", "1.0", "'1.0' is not a version"),
        ("## Unreleased\n\n- A thing.\n", "v1.0.0", "'v1.0.0' is not a version"),
        ("## Unreleased\n\n- A thing.\n", "1.0.0-rc1", "'1.0.0-rc1' is not a version"),
    ],
)
def test_a_version_that_does_not_fit_is_refused(sections: str, version: str, complaint: str) -> None:
    with pytest.raises(ReleaseError, match=complaint):
        cut(HEAD + sections, version, DATE)
