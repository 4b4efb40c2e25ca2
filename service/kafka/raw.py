"""Requests that txnscope encodes itself, and their answers as bytes, over the connections of kafka-python ("the
library").

Used for requests that the library lacks, and for requests that it encodes too slowly, because they name thousands of
partitions and are sent many times a minute. These classes have the few methods that `kafka.net.connection` and
`kafka.protocol.parser` (3.0.12) call on a request and on its answer. The library contains Kafka's own schemas; the
files in `schemas` are the schemas of Kafka 4.3.1 that the library lacks.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from types import new_class
from typing import Any, NamedTuple, TypeVar

from kafka.protocol.api_message import ApiMessage

from service.kafka.client import KafkaClient

log = logging.getLogger(__name__)

T = TypeVar("T")

_FRAME = struct.Struct(">ihhi")  # size of what follows, api key, api version, correlation id


class RawRequest:
    """A request as bytes. `body`: everything after the header. `is_flexible`: True if this version of the API has
    tagged fields (KIP-482), also in the header.

    The same object can be sent again after the previous answer has come.
    """

    def __init__(self, api_key: int, version: int, body: bytes, *, is_flexible: bool) -> None:
        self.API_KEY, self.API_VERSION = api_key, version
        self._body, self._is_flexible = body, is_flexible
        self.header: _Header | None = None

    def expect_response(self) -> bool:
        return True

    def with_header(self, correlation_id: int, client_id: str) -> None:
        name = client_id.encode()
        tags = b"\0" if self._is_flexible else b""
        size = _FRAME.size - 4 + 2 + len(name) + len(tags) + len(self._body)
        start = _FRAME.pack(size, self.API_KEY, self.API_VERSION, correlation_id)
        self._start = start + struct.pack(">h", len(name)) + name + tags
        self.header = _Header(correlation_id, self.API_KEY, self.API_VERSION, self._is_flexible)

    def encode(self, framed: bool, header: bool) -> bytes:
        assert framed
        assert header
        return self._start + self._body


class RawAnswer:
    """An answer as bytes. `body`: everything after the header. `throttle_time_ms`: the first field of the body in every
    API that is sent raw."""

    __slots__ = ("body", "throttle_time_ms")

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.throttle_time_ms = struct.unpack_from(">i", body)[0]


class _Header(NamedTuple):
    """The part of a request that the connection keeps until the answer comes."""

    correlation_id: int
    api_key: int
    api_version: int
    is_flexible: bool

    def get_response_class(self) -> _Reading:
        return _Reading(self.is_flexible)


class _AnswerHeader(NamedTuple):
    correlation_id: int


class _Reading(NamedTuple):
    """Reads one answer from the library's buffer: first its header, then the rest."""

    is_flexible: bool

    def parse_header(self, buffer: Any) -> _AnswerHeader:
        found = _AnswerHeader(struct.unpack(">i", buffer.read(4))[0])
        if self.is_flexible:
            buffer.read(1)  # no tagged field exists in answer headers
        return found

    def decode(self, buffer: Any) -> RawAnswer:
        return RawAnswer(buffer.read())


class MissingMessages:
    """The request and the answer of an API that kafka-python lacks, made from the schemas in `schemas`."""

    def __init__(self, name: str) -> None:
        schemas = {"load_json": f"{__package__}.schemas"}
        both: list[Any] = [new_class(name + kind, (ApiMessage,), schemas) for kind in ("Request", "Response")]
        self.request, self._response = both
        self.api_key: int = self.request.API_KEY

    def ask(self, client: KafkaClient, node: int, version: int, read: Callable[[Any], T], **fields: Any) -> T | None:
        """Sends a request with `fields`, and returns the result of `read` for the answer; None if the answer does not
        match the schema. Raises KafkaUnavailable or KafkaRefused."""
        body = bytes(self.request(**fields).encode(version))
        answer = client.ask(RawRequest(self.api_key, version, body, is_flexible=True), node).body
        try:
            return read(self._response.decode(answer, version))
        except (ValueError, IndexError, TypeError, struct.error) as e:  # TypeError: null where the schema has a value
            log.debug("broker %d: its answer to API %d cannot be decoded: %s", node, self.api_key, e)
            return None
