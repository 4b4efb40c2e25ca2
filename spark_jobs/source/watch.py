"""Which topics are watched: all that are listed, narrowed by the user's globs, without byte-copied ones."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final, NamedTuple

_INTERNAL: Final = "__"


class Watch(NamedTuple):
    """Globs of topic names. `topics`: none means all. `mirrored`: copied from another cluster with its producer ids,
    which say nothing here."""

    topics: tuple[str, ...] = ()
    mirrored: tuple[str, ...] = ()

    def covers(self, topic: str) -> bool:
        is_wanted = not self.topics or any(fnmatchcase(topic, glob) for glob in self.topics)
        return is_wanted and not any(fnmatchcase(topic, glob) for glob in self.mirrored)

    def tails(self, topic: str) -> bool:
        """Where every batch is wanted: never of Kafka's own topics, of which the coordinators' log has its own
        source."""
        return self.covers(topic) and not topic.startswith(_INTERNAL)
