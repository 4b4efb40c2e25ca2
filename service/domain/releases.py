"""Derives the Kafka release of a broker from its feature levels, if the levels allow only one answer."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

_FIRST_LEVELS: Final = (
    (1, "3.0"),
    (2, "3.1"),
    (3, "3.2"),
    (4, "3.3"),
    (8, "3.4"),
    (9, "3.5"),
    (12, "3.6"),
    (15, "3.7"),
    (20, "3.8"),
    (21, "3.9"),
    (22, "4.0"),
    (26, "4.1"),
    (28, "4.2"),
    (30, "4.3"),
    (31, "4.4"),
)
"""The first level of `metadata.version` that each release brought (MetadataVersion.java of 4.4.0)."""
_LAST_KNOWN: Final = 33

FIRST_OF_38: Final = 20
"""The level of `metadata.version` that Kafka 3.8 brought."""
_SKIPPING: Final = frozenset({"4.3", "4.4"})
"""Releases with a version that was seen to skip markers (`service.domain.reasons.hanging.SKIPPING`)."""


def release_of(newest_metadata_version: int | None) -> str | None:
    """Returns the release, like "4.3"; None if the level is None, below 1, or above `_LAST_KNOWN`."""
    if newest_metadata_version is None or not 1 <= newest_metadata_version <= _LAST_KNOWN:
        return None
    return [release for level, release in _FIRST_LEVELS if level <= newest_metadata_version][-1]


def may_skip_markers(newest_metadata_versions: Collection[int | None]) -> bool | None:
    """Returns whether a broker may skip markers (KAFKA-20734). True if the release of some broker is in `_SKIPPING`;
    False if all brokers have other known releases; None if a release is unknown and none is in `_SKIPPING`, or if there
    is no broker. `newest_metadata_versions`: the highest supported level of `metadata.version` of each broker."""
    releases = [release_of(level) for level in newest_metadata_versions]
    if any(release in _SKIPPING for release in releases):
        return True
    return None if not releases or None in releases else False
