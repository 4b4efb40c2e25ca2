"""Recognises the framework that made up a transactional.id, and the application, task and naming strategy in it.

A name alone proves little: "pay-0-3" may be a subtask of Apache Flink or the third thread of any other application. If
other applications may have ids of the same form, the behaviour of the id or of its siblings has to fit the framework,
too. Otherwise the maker is not known (`NOTHING`).

Sources: `StreamsProducer` and `TaskId` (Kafka Streams); `TransactionalIdFactory`, `TransactionNamingStrategyImpl` and
`KafkaSinkBuilder` (flink-connector-kafka 5.0.0); `Worker.taskTransactionalId` and `DistributedConfig` (Kafka Connect);
`DefaultKafkaProducerFactory` with `producerPerConsumerPartition` (Spring Kafka before 3.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from service.domain.id_behaviour import Behaviour, flink_strategy
from service.domain.transaction_log.states import TWO_PHASE_TIMEOUT_MS


class Framework(StrEnum):
    """The framework that made up an id, recognised by the id's form and behaviour."""

    KAFKA_STREAMS = "kafka_streams"
    FLINK = "flink"
    KAFKA_CONNECT = "kafka_connect"
    SPRING = "spring"
    UNKNOWN = "unknown"


PER_TASK: Final = "per task"
PER_THREAD: Final = "per thread"
PER_PARTITION: Final = "per partition"
LEADER: Final = "leader"

STREAMS_TIMEOUT_MS: Final = 10_000
"""Default transaction.timeout.ms of Kafka Streams; the default of a Java producer is 60 s."""

FLINK_TIMEOUT_MS: Final = 3_600_000
"""Default transaction.timeout.ms of a KafkaSink."""

_UUID = r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"  # as java.util.UUID writes it
_STREAMS = re.compile(rf"(?P<name>.+)-(?P<process>{_UUID})-(?P<thread>[1-9][0-9]{{0,3}})", re.DOTALL)
_STREAMS_TASK = re.compile(r"(?P<name>.+)-(?P<topology>[0-9]{1,4})_(?P<partition>[0-9]{1,5})", re.DOTALL)
_FLINK = re.compile(r"(?P<prefix>.+)-(?P<subtask>0|[1-9][0-9]{0,4})-(?P<number>0|[1-9][0-9]{0,17})", re.DOTALL)
_FLINK_PRODUCER = re.compile(r".+-[0-9a-f]{32}-(?:0|[1-9][0-9]{0,17})", re.DOTALL)  # task, operator, number
_CONNECT: Final = "connect-cluster-"
_CONNECT_TASK = re.compile(r"(?P<connector>.+)-(?P<task>0|[1-9][0-9]{0,4})", re.DOTALL)
_SPRING = re.compile(r"(?P<base>.+)\.(?P<partition>0|[1-9][0-9]{0,4})", re.DOTALL)

_NEAR: Final = 4  # numbers before and after that of an id, among its siblings
_POOL: Final = 4  # the ids that a pool uses most
_NAMES: Final = 12  # possible ids of the leader, among the siblings of an id


class Application(NamedTuple):
    """The maker of a transactional.id. `kind`: the framework; `name`: the application, as far as the id shows it;
    `task`: the application's task, subtask, thread or partition; `strategy`: the way in which the framework names its
    ids. Each field except `kind` is None if its value is not known, or if there is none."""

    kind: Framework = Framework.UNKNOWN
    name: str | None = None
    task: str | None = None
    strategy: str | None = None


NOTHING: Final = Application()


class FlinkName(NamedTuple):
    """An id that has the form of Flink's KafkaSink. `prefix`: the prefix of all ids of the job; `number`: the number of
    a checkpoint (INCREMENTING), or of a place in the pool (POOLING)."""

    prefix: str
    subtask: int
    number: int

    @property
    def text(self) -> str:
        return f"{self.prefix}-{self.subtask}-{self.number}"


@lru_cache(maxsize=1024)  # the same ids are parsed in every round of the judge
def flink_name(name: str) -> FlinkName | None:
    """Returns the parts of an id that has the form of Flink's KafkaSink, even if another application made it; None if
    the id has another form."""
    found = _FLINK.fullmatch(name)
    return None if found is None else FlinkName(found["prefix"], int(found["subtask"]), int(found["number"]))


def has_form_of_streams(name: str) -> bool:
    """Returns whether the id has the form of the ids of Kafka Streams' threads, even if another application made it."""
    return _STREAMS.fullmatch(name) is not None


def may_be_two_phase(name: str, timeout_ms: int) -> bool:
    """Returns whether a two-phase sink may have made the id, because the id's form or timeout fits. A two-phase sink
    commits a transaction only after a checkpoint that already counts the transaction's records as delivered. Flink's
    older FlinkKafkaProducer (before connector 4.0) is also a two-phase sink."""
    has_form = flink_name(name) is not None or _FLINK_PRODUCER.fullmatch(name) is not None
    return timeout_ms == TWO_PHASE_TIMEOUT_MS or has_form


def is_two_phase(application: Application, timeout_ms: int) -> bool:
    """Returns whether a two-phase sink is known to have made the id. A producer with two-phase commit (KIP-939) is
    known by its timeout, TWO_PHASE_TIMEOUT_MS."""
    return application.kind == Framework.FLINK or timeout_ms == TWO_PHASE_TIMEOUT_MS


def of_same_job(application: Application, name: str) -> Application:
    """Returns the maker of the id `name`, derived from `application`, the maker of another id. Returns NOTHING unless
    `name` has Flink's form and the prefix of `application`, which belongs to one sink of one job
    (`KafkaSinkBuilder.setTransactionalIdPrefix`)."""
    parts = flink_name(name)
    return (
        NOTHING if parts is None or parts.prefix != application.name else application._replace(task=str(parts.subtask))
    )


def sibling_names(name: str) -> tuple[str, ...]:
    """Returns the names of other ids, at most 24, whose existence would best show which framework made this id."""
    found = _leaders(name)
    if streams := _STREAMS.fullmatch(name):
        found.append(f"{streams['name']}-{streams['process']}-0")
    elif flink := flink_name(name):
        near = range(max(flink.number - _NEAR, 0), flink.number + _NEAR + 1)
        found += (flink._replace(number=n).text for n in sorted({*near, *range(_POOL)}))
    elif spring := _SPRING.fullmatch(name):
        found += _numbered(spring["base"] + ".", int(spring["partition"]))
    return tuple(one for one in dict.fromkeys(found) if one != name)


def connect_task_prefix(name: str) -> str | None:
    """Returns the prefix of the ids of the leader's source tasks, if `name` has the form both of a leader's id and of a
    source task's id (Kafka Connect); else None. Only the id of such a task shows that `name` is a leader's id."""
    is_either = name.startswith(_CONNECT) and _CONNECT_TASK.fullmatch(name) is not None
    return f"{name[len(_CONNECT) :]}-" if is_either else None


def may_be_recognised(name: str) -> bool:
    """Returns whether the id has a form that some framework gives. If False, `application_of` returns NOTHING."""
    return name.startswith(_CONNECT) or _STREAMS_TASK.fullmatch(name) is not None or bool(sibling_names(name))


def application_of(
    behaviour: Behaviour, siblings: Iterable[Behaviour] = (), topics: Mapping[str, int] | None = None
) -> Application:
    """Returns the maker of the id. `siblings`: the ids of `sibling_names` that exist; further ids do no harm. `topics`:
    a mapping from each topic of the cluster to its number of partitions."""
    others = {other.name: other for other in siblings if other.name != behaviour.name}
    if streams := _STREAMS.fullmatch(behaviour.name):
        return _streams(behaviour, streams, others)
    flink = flink_name(behaviour.name)
    if (connect := _connect(behaviour.name, others)) != NOTHING and flink is None:
        return connect
    if flink is not None:
        sink = _flink(behaviour, flink, others)
        # the name fits Kafka Connect, too: only the strategy shows that the id is Flink's
        return sink if connect == NOTHING or sink.strategy is not None else NOTHING
    if streams := _STREAMS_TASK.fullmatch(behaviour.name):
        return _streams_task(behaviour, streams)
    if spring := _SPRING.fullmatch(behaviour.name):
        return _spring(spring, others, topics or {})
    return NOTHING


def _streams(behaviour: Behaviour, parts: re.Match[str], others: Mapping[str, Behaviour]) -> Application:
    """Recognises Kafka Streams with `exactly_once_v2`, by its timeout and by threads that are numbered from 1. If an id
    with the number 0 also exists, another framework made the ids, with a random prefix. An application that numbers its
    producers from 1 hardly ever has the timeout of Kafka Streams."""
    is_numbered_from_0 = f"{parts['name']}-{parts['process']}-0" in others
    if is_numbered_from_0 or behaviour.timeout_ms != STREAMS_TIMEOUT_MS:
        return NOTHING
    return Application(Framework.KAFKA_STREAMS, parts["name"], parts["thread"], PER_THREAD)


def _streams_task(behaviour: Behaviour, parts: re.Match[str]) -> Application:
    """Recognises Kafka Streams with the older `exactly_once`: one producer for each task. Siblings prove nothing: other
    applications number their producers in this form, too."""
    if behaviour.timeout_ms != STREAMS_TIMEOUT_MS:
        return NOTHING
    return Application(Framework.KAFKA_STREAMS, parts["name"], f"{parts['topology']}_{parts['partition']}", PER_TASK)


def _connect(name: str, others: Mapping[str, Behaviour]) -> Application:
    """Recognises Kafka Connect. The id of the leader of a group of workers begins with `connect-cluster-`. The id of a
    source task consists of group, connector and number. The names of group and connector may contain dashes, so only
    the leader's id shows that the task is Kafka Connect's, and where the group's name ends."""
    task = _CONNECT_TASK.fullmatch(name)
    leaders = [leader for leader in _leaders(name) if leader in others]
    if task is not None and leaders:
        # two group names may fit one id: "east" and "east-1"
        begin = len(leaders[0]) - len(_CONNECT) + 1 if len(leaders) == 1 else 0
        return Application(Framework.KAFKA_CONNECT, task["connector"][begin:], task["task"], PER_TASK)
    if not name.startswith(_CONNECT) or name == _CONNECT:
        return NOTHING
    # a group may be called "connect-cluster": then its tasks begin as leaders do
    group = name[len(_CONNECT) :]
    is_leader = task is None or any(_is_task_of(other, group) for other in others)
    return (
        Application(Framework.KAFKA_CONNECT, group, None, LEADER) if is_leader else Application(Framework.KAFKA_CONNECT)
    )


def _is_task_of(name: str, group: str) -> bool:
    return name.startswith(f"{group}-") and _CONNECT_TASK.fullmatch(name, len(group) + 1) is not None


def _leaders(name: str) -> list[str]:
    """Returns the ids that the leader of the group may have, if `name` has the form of a source task's id: one for each
    dash that may separate the names of group and connector, at most `_NAMES`. Otherwise returns an empty list."""
    task = _CONNECT_TASK.fullmatch(name)
    connector = "" if task is None else task["connector"]
    dashes = [at for at, c in enumerate(connector) if c == "-" and 0 < at < len(connector) - 1]
    return [_CONNECT + name[:at] for at in dashes[:_NAMES]]


def _spring(parts: re.Match[str], others: Mapping[str, Behaviour], topics: Mapping[str, int]) -> Application:
    """Recognises Spring Kafka's `producerPerConsumerPartition`: prefix + group, topic and partition, with dots between
    them. The maker is known only if exactly one topic with that partition fits, and an id for another partition
    exists."""
    base, partition = parts["base"], int(parts["partition"])
    fitting = [topic for topic, count in topics.items() if partition < count and base.endswith("." + topic)]
    siblings = (_SPRING.fullmatch(name) for name in others)
    if len(fitting) != 1 or not any(sibling is not None and sibling["base"] == base for sibling in siblings):
        return NOTHING
    return Application(Framework.SPRING, base[: -len(fitting[0]) - 1], f"{fitting[0]}-{partition}", PER_PARTITION)


def _flink(behaviour: Behaviour, parts: FlinkName, others: Mapping[str, Behaviour]) -> Application:
    of_subtask = {parts.number: behaviour}
    for name, other in others.items():
        sibling = flink_name(name)
        if sibling is not None and sibling[:2] == parts[:2]:
            of_subtask[sibling.number] = other
    strategy = flink_strategy(of_subtask)
    if strategy is None and behaviour.timeout_ms != FLINK_TIMEOUT_MS:
        return NOTHING
    return Application(Framework.FLINK, parts.prefix, str(parts.subtask), strategy)


def _numbered(base: str, number: int) -> list[str]:
    near = {0, 1, *range(max(number - 2, 0), number + 3)}
    return [f"{base}{n}" for n in sorted(near)]
