"""Which topics are watched, and one watched partition: its newest sample, and since when its LSO is stalled."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from service.domain.partitions.facts import PartitionLook
from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import DESCRIBE, ErrorAnswer, NewLeader, NoLeader, NoPermission, SilentBroker
from service.domain.worlds.order import encode
from service.kafka import errors
from service.kafka.ends import Ends
from service.kafka.metadata import Leader
from spark_jobs.source.requests import StalledAsk
from spark_jobs.source.samples import Rounds, Samples

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


STALL_MS: Final = 500
"""For so long the LSO stands below the high watermark before a partition is called stalled."""
MOVING_EVERY_MS: Final = 5_000
"""How often a partition is told of whose transactions come and go."""
_MISSES: Final = 2
"""Looks without answer before it is told: a leader that moves answers the second one."""


def is_over(since_ms: int, period_ms: int, now_ms: int) -> bool:
    """Also where the machine's clock was set back meanwhile: nothing waits for it to come there again."""
    return not 0 <= now_ms - since_ms < period_ms


class Clock(NamedTuple):
    """Since when the LSO of a partition stands where it stands; as stored, for the next start."""

    topic: str
    partition: int
    topic_id: str
    last_stable_offset: int
    stalled_since_ms: int
    samples: str | None = None


class News(IntEnum):
    """What is to be told of a partition, and when."""

    NONE = 0
    LATER = 1
    NEXT = 2  # with the next micro-batch, which comes within a second
    NOW = 3  # worth a micro-batch of its own


@dataclass(slots=True)
class Watched:
    """Numbers are -1 until it answers. `since_ms`: the LSO stands there below the high watermark since then; kept over
    errors, and over restarts by `Clock`. `why`: it could not be looked at.

    `told`: the newest look that was handed over. `read_at_ms`, `read_lso`: when, and at which LSO, it was last read.
    """

    topic: str
    partition: int
    topic_id: str
    leader: Leader
    log_start: int = -1
    last_stable_offset: int = -1
    high_watermark: int = -1
    seen_at_ms: int = 0
    since_ms: int | None = None
    samples: Samples = field(default_factory=Samples)
    stored_samples: str | None = None
    misses: int = 0
    why: Reason | None = None
    told: PartitionLook | None = None
    read_at_ms: int = 0
    read_lso: int = -1

    def begin_at(self, clock: Clock, now_ms: int) -> None:
        """Its stall began before this process did, if the LSO still stands there."""
        if clock.topic_id == self.topic_id:
            self.last_stable_offset = clock.last_stable_offset
            self.since_ms = min(clock.stalled_since_ms, now_ms)
            self.stored_samples = clock.samples

    def answered(self, ends: Ends, asked_at_ms: int, rounds: Rounds) -> None:
        """Took part in a look. `ends.log_start` may be -1: not asked for."""
        self.samples.see(rounds, ends.high_watermark, self.leader.epoch, ends.last_stable_offset)
        if ends.last_stable_offset >= ends.high_watermark:
            self.since_ms = self.stored_samples = None
        elif self.since_ms is None or ends.last_stable_offset != self.last_stable_offset or self.since_ms > asked_at_ms:
            self.since_ms, self.stored_samples = asked_at_ms, None
        self.last_stable_offset, self.high_watermark = ends.last_stable_offset, ends.high_watermark
        if ends.log_start >= 0:
            self.log_start = ends.log_start
        self.seen_at_ms, self.misses, self.why = asked_at_ms, 0, None

    def why_silent(self, error: int) -> Reason:
        """What its leader's error means."""
        broker = self.leader.node
        if error == errors.TOPIC_AUTHORIZATION_FAILED:
            return NoPermission(self.topic, (DESCRIBE,))
        if self.leader.node < 0:
            return NoLeader()
        if error == errors.LEADER_NOT_AVAILABLE:
            return SilentBroker(broker)
        if error == errors.OFFSET_NOT_AVAILABLE:
            return NewLeader(broker)
        return ErrorAnswer(broker, "", error)

    def missed(self, why: Reason) -> None:
        """Did not answer. One look without answer is passed over."""
        self.misses += 1
        if self.misses >= _MISSES or not self.seen_at_ms:
            self.why = why

    @property
    def stalled_since_ms(self) -> int | None:
        """None until it was seen to stand there for STALL_MS."""
        return self.since_ms if self.since_ms is not None and self.seen_at_ms - self.since_ms >= STALL_MS else None

    def news(self, now_ms: int) -> News:
        told = self.told
        if told is None:
            return News.NEXT
        if self.why != told.why:
            return News.NOW
        if self.why is not None:
            return News.NONE
        since = self.stalled_since_ms
        if since != told.stalled_since_ms:
            return News.NOW
        if (self.last_stable_offset, self.high_watermark, self.log_start, self.leader.epoch, self.leader.node) == (
            told.last_stable_offset,
            told.high_watermark,
            told.log_start,
            told.leader_epoch,
            told.leader,
        ):
            return News.NONE
        return News.NEXT if since is not None or is_over(told.looked_at_ms, MOVING_EVERY_MS, now_ms) else News.LATER

    def look(self, now_ms: int, rounds: Rounds, *, is_gone: bool = False) -> PartitionLook:
        """What there is to tell; without an answer the numbers are -1, and the clock goes on."""
        is_known = self.why is None and not is_gone
        return PartitionLook(
            topic=self.topic,
            partition=self.partition,
            topic_id=self.topic_id,
            leader=self.leader.node,
            leader_epoch=self.leader.epoch,
            log_start=self.log_start if is_known else -1,
            last_stable_offset=self.last_stable_offset if is_known else -1,
            high_watermark=self.high_watermark if is_known else -1,
            looked_at_ms=self.seen_at_ms if is_known else now_ms,
            stalled_since_ms=None if is_gone else self.stalled_since_ms,
            why=None if is_gone else self.why,
            is_gone=is_gone,
            samples=self._told_samples(rounds) if is_known and self.stalled_since_ms is not None else None,
        )

    def ask(self) -> StalledAsk:
        """To read it as it was seen last."""
        return StalledAsk(
            self.topic,
            self.partition,
            self.topic_id,
            self.leader.node,
            self.leader.epoch,
            self.log_start,
            self.last_stable_offset,
            self.high_watermark,
        )

    def _told_samples(self, rounds: Rounds) -> str:
        """Those of the process that saw the stall begin, as long as it goes on."""
        return self.stored_samples or encode(self.samples.told(rounds, self.last_stable_offset))
