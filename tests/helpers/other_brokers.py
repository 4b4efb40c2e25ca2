"""A proxy that changes the answers of a real broker, so that clients see a broker without `__transaction_state`.

Such brokers speak Kafka's protocol. These differences were observed on them (redpanda-data/redpanda #11949, #12116,
#17827, and its handlers of these requests): Metadata has no such topic; ApiVersions has lower versions and no features;
ListTransactions fails before the first use, or omits open transactions; DescribeProducers returns the time since the
broker's start in place of a timestamp, and no coordinator epoch; DescribeTransactions returns no start time, and may
return PrepareCommit forever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from kafka.protocol.admin import DescribeProducersResponse, DescribeTransactionsResponse, ListTransactionsResponse
from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse

from service.domain.transaction_log.states import TOPIC
from tests.helpers.proxies import Proxies

SINCE_START_MS: Final = 469_473_334
"""The value that a broker returned in place of a timestamp: the milliseconds since the start of that broker. As a
timestamp, the value means 1970-01-06."""
_CORRELATION_ID: Final = 4  # bytes of the correlation id in the header of a response
_UNKNOWN_TOPIC: Final = 3
_UNKNOWN_SERVER_ERROR: Final = -1
_NOT_SPOKEN: Final = frozenset({27, 55, 60, 69, 75, 76, 77, 78, 79, 90})
"""API keys that these brokers do not support: WriteTxnMarkers, DescribeQuorum, DescribeCluster, ConsumerGroupDescribe,
DescribeTopicPartitions, and those of share groups."""
_NEWEST: Final = {1: 11, 2: 4, 3: 7, 9: 4, 10: 3, 15: 4, 16: 4}
"""A mapping from API key to the newest version that these brokers support: Fetch, ListOffsets, Metadata, OffsetFetch,
FindCoordinator, DescribeGroups, ListGroups."""


@dataclass
class OtherBrokers:
    """The answers of brokers without a transaction log. Tests change the fields while the proxy runs.

    `has_log`: True if Metadata contains the topic. `list_fails`: True if ListTransactions returns an error. `unlisted`:
    ids that ListTransactions omits. `described_as`: a mapping from id to the state that DescribeTransactions returns.
    `last_timestamp_ms`: the value that DescribeProducers returns in place of a timestamp. `has_features`: True if
    ApiVersions returns feature levels.
    """

    has_log: bool = False
    list_fails: bool = False
    unlisted: set[str] = field(default_factory=set)
    described_as: dict[str, str] = field(default_factory=dict)
    last_timestamp_ms: int = SINCE_START_MS
    has_features: bool = False

    def proxies(self, brokers: Mapping[int, str]) -> Proxies:
        return Proxies(brokers, rewrite=self._rewrite)

    def _rewrite(self, api_key: int, version: int, response: bytes) -> bytes:
        if api_key not in self._changes:
            return response
        kind, change = self._changes[api_key]
        has_tags = kind.flexible_version_q(version) and kind is not ApiVersionsResponse
        header = _CORRELATION_ID + (1 if has_tags else 0)
        answer = kind.decode(response[header:], version=version)
        if kind is ApiVersionsResponse and answer.error_code:
            return response  # an answer with an error is in version 0, whatever version was requested
        change(self, answer)
        answer._header = None  # encode() expects this attribute, but decode() of a body does not set it
        return response[:header] + bytes(answer.encode(version=version))

    def _versions(self, answer: Any) -> None:
        answer.api_keys = [one for one in answer.api_keys if one.api_key not in _NOT_SPOKEN]
        for api_key in answer.api_keys:
            api_key.max_version = min(api_key.max_version, _NEWEST.get(api_key.api_key, api_key.max_version))
        if not self.has_features:
            answer.supported_features = answer.finalized_features = []

    def _metadata(self, answer: Any) -> None:
        if self.has_log:
            return
        kept = []
        for topic in answer.topics:
            if topic.name == TOPIC and topic.error_code != _UNKNOWN_TOPIC:
                if not self.is_asked_by_name(answer):
                    continue
                topic.error_code, topic.partitions = _UNKNOWN_TOPIC, []
            kept.append(topic)
        answer.topics = kept

    @staticmethod
    def is_asked_by_name(answer: Any) -> bool:
        """Returns whether the request probably named the topic of the transaction log: the answer has no other topic.
        An answer to a request for all topics would have other topics, too."""
        return len(answer.topics) == 1

    def _list(self, answer: Any) -> None:
        if self.list_fails:
            answer.error_code, answer.transaction_states = _UNKNOWN_SERVER_ERROR, []
        answer.transaction_states = [
            state for state in answer.transaction_states if state.transactional_id not in self.unlisted
        ]

    def _describe(self, answer: Any) -> None:
        for state in answer.transaction_states:
            state.transaction_start_time_ms = -1
            state.transaction_state = self.described_as.get(state.transactional_id, state.transaction_state)

    def _producers(self, answer: Any) -> None:
        for topic in answer.topics:
            for partition in topic.partitions:
                for active_producer in partition.active_producers:
                    active_producer.last_timestamp, active_producer.coordinator_epoch = self.last_timestamp_ms, -1

    _changes: ClassVar[dict[int, tuple[Any, Callable[[OtherBrokers, Any], None]]]] = {
        ApiVersionsResponse.API_KEY: (ApiVersionsResponse, _versions),
        MetadataResponse.API_KEY: (MetadataResponse, _metadata),
        ListTransactionsResponse.API_KEY: (ListTransactionsResponse, _list),
        DescribeTransactionsResponse.API_KEY: (DescribeTransactionsResponse, _describe),
        DescribeProducersResponse.API_KEY: (DescribeProducersResponse, _producers),
    }
