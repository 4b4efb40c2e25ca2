"""Names of the canary's transactional.ids and of its topic.

An id or a topic of the canary is known by its name alone, so the judge needs no settings to leave it out of findings.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import count
from typing import Final

from service.domain.transaction_log.coordinator_partition import partition_of

ID_PREFIX: Final = "txnscope-canary-"
TOPIC_WORD: Final = "txnscope-canary"
"""The word that the name of the canary's topic contains. No other topic can be chosen, so that no application's topic
is: findings about such topics are not reported, and the canary deletes records there."""

_ID_PREFIX_BYTES: Final = ID_PREFIX.encode()


def is_canary_id(transactional_id: bytes | None) -> bool:
    return transactional_id is not None and transactional_id.startswith(_ID_PREFIX_BYTES)


def is_canary_topic(topic: str | None) -> bool:
    return topic is not None and TOPIC_WORD in topic


@lru_cache(maxsize=256)
def canary_id(token: str, log_partition: int, partition_count: int) -> str:
    """Returns the canary's id of one partition of the transaction log: the first numbered id whose coordinator uses
    that partition. There is one id for each partition, so the number of ids is bounded, and each id is used again.

    `token`: distinguishes the canaries of different stores, which would fence each other under the same id."""
    ids = (f"{ID_PREFIX}{token}-{log_partition}-{number}" for number in count())
    return next(one for one in ids if partition_of(one, partition_count) == log_partition)
