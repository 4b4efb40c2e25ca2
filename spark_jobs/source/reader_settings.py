"""The settings of Spark's readers. Planners and executors get them as one option of the source, a JSON document."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict

from service.kafka.settings import ClientSettings

OPTION: Final = "settings"
"""Name of the source's option that holds the settings."""

_INTERNAL: Final = "__"


class WatchedTopics(NamedTuple):
    """Globs of topic names. `topics`: topics to watch; empty means all. `mirrored`: topics not to watch, because they
    are copied from another cluster. Their records have producer ids of that cluster, which mean nothing in this one."""

    topics: tuple[str, ...] = ()
    mirrored: tuple[str, ...] = ()

    def covers(self, topic: str) -> bool:
        is_wanted = not self.topics or any(fnmatchcase(topic, glob) for glob in self.topics)
        return is_wanted and not self.mirrors(topic)

    def mirrors(self, topic: str) -> bool:
        """Returns True if the topic is declared as copied from another cluster."""
        return any(fnmatchcase(topic, glob) for glob in self.mirrored)

    def tails(self, topic: str) -> bool:
        """Returns True if every batch of `topic` is to be read. This is never so for Kafka's own topics: a separate
        source reads the transaction log."""
        return self.covers(topic) and not topic.startswith(_INTERNAL)


EVERYTHING: Final = WatchedTopics()


class ReaderSettings(BaseModel):
    """The settings of a reader. `full_history_prefixes`: prefixes of the transactional ids for which every transition
    is reported. `tails`: True if every batch of the watched topics is read; then the decisions of coordinators are
    reported, too."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    client: ClientSettings
    watch: WatchedTopics = EVERYTHING
    full_history_prefixes: tuple[str, ...] = ()
    tails: bool = False

    @property
    def option(self) -> dict[str, str]:
        """Returns the source's option that holds these settings, as Spark passes it on (strings)."""
        return {OPTION: self.model_dump_json()}
