"""Which topics are watched: all that are listed, narrowed by the user's globs, without byte-copied ones."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple


class Watch(NamedTuple):
    """Globs of topic names. `topics`: none means all. `mirrored`: copied from another cluster with its producer ids,
    which say nothing here."""

    topics: tuple[str, ...] = ()
    mirrored: tuple[str, ...] = ()

    def covers(self, topic: str) -> bool:
        is_wanted = not self.topics or any(fnmatchcase(topic, glob) for glob in self.topics)
        return is_wanted and not any(fnmatchcase(topic, glob) for glob in self.mirrored)
