"""Examines a cluster: reads everything that the verdicts rest on, and writes nothing. Also reads the results of test
runs on versions of Kafka, which `make matrix` writes.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import TypeAdapter

from service.cli.doctor.transaction_log import LogRead, read_log
from service.clock import wall_clock_ms
from service.domain.doctor.canary import CanaryReport
from service.domain.doctor.cluster_report import (
    BrokerReport,
    ClockReport,
    ClusterReport,
    GroupsReport,
    IdsReport,
    LogReport,
    TopicsReport,
)
from service.domain.doctor.tried_versions import TriedVersion, newest_first
from service.domain.error_codes import error_text
from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import ShareLevelNotReported, ShareOffsetsNotReported, TransactionsSeen
from service.domain.transaction_log.states import CONFIG_DEFAULTS, TOPIC
from service.kafka import errors, permissions
from service.kafka.canary_permissions import read_permissions
from service.kafka.client import KafkaClient
from service.kafka.cluster import Topics, all_topics
from service.kafka.errors import KafkaFailure
from service.kafka.groups import list_groups
from service.kafka.producers import describe_producers
from service.kafka.settings import ClientSettings
from service.kafka.share_groups import PROTOCOL_TYPE, isolation_levels, reports_offsets
from service.kafka.transactions import list_transactions, lists_ids_without_log

FOLDER: Final = Path(__file__).parent / "tried_versions"
"""The directory with one JSON file for each version of Kafka that was tried."""


def read_records() -> list[TriedVersion]:
    """Returns the results of the test runs, newest version first."""
    stored = TypeAdapter(TriedVersion)
    return [*newest_first(stored.validate_json(path.read_bytes()) for path in FOLDER.glob("*.json"))]


_INVENTED: Final = "txnscope-doctor-asks"
"""A name that no topic, group or id has. If Kafka denies a request for this name, the principal may lack permissions
for other names, too."""
_GLOB_PART: Final = re.compile(r"[*?]|\[!?\]?[^\]]*\]")
_OF_TOPICS: Final = f"x{string.ascii_letters}{string.digits}._-"
"""The characters that the name of a topic may have; the first one, `x`, is tried first."""
_TOPICS_AT_ONCE: Final = 100
_SHARE_GROUPS_AT_ONCE: Final = 200
_IDS_ASKED: Final = 2_000
"""Maximum number of ids for which DescribeTransactions is sent. Only ids of the log that ListTransactions leaves out
are described. If ListTransactions leaves out more ids than this maximum, most of them have expired."""


class Wish(NamedTuple):
    """The topics that the application would watch. `topics`: globs of `--topics`; empty: all topics. `mirrored`: globs
    of `--mirrored`, whose topics are left out."""

    topics: tuple[str, ...]
    mirrored: tuple[str, ...]

    def wants(self, topic: str) -> bool:
        return not self.topics or any(fnmatchcase(topic, glob) for glob in self.topics)

    def is_mirrored(self, topic: str) -> bool:
        return any(fnmatchcase(topic, glob) for glob in self.mirrored)


def examine(client: KafkaClient, settings: ClientSettings, wish: Wish) -> ClusterReport:
    """Examines the cluster, bounded in time and bytes. Raises KafkaUnavailable or KafkaRefused when Kafka fails."""
    brokers, features = _brokers(client)
    nodes = [broker.node for broker in brokers if broker.why is None]
    bootstrap = ",".join(settings.bootstrap_servers)
    if not nodes:
        return _nobody(bootstrap, principal_of(settings), brokers, wish)
    node = nodes[0]
    cluster = permissions.cluster(client, node)
    told = permissions.readable_configs(client, node, list(CONFIG_DEFAULTS))
    everything = all_topics(client, node)
    layout = everything.layouts.get(TOPIC)
    log = LogRead() if layout is None else read_log(client, layout, wall_clock_ms)
    topics = _topics(client, nodes, everything, log, wish)
    clock = permissions.controller_clock(client, node)
    return ClusterReport(
        bootstrap=bootstrap,
        principal=principal_of(settings),
        cluster_id=cluster.cluster_id,
        brokers=brokers,
        features=features,
        assumed_configs=tuple(name for name in CONFIG_DEFAULTS if name not in told),
        cluster_operations=cluster.operations,
        log=_log(client, node, everything, log, topics),
        ids=_ids(client, nodes, log),
        topics=topics,
        groups=_groups(client, nodes),
        clocks=log.clocks + (() if clock is None else (_controller(clock),)),
        newest_record_ms=log.newest_record_ms,
        has_authorizer=permissions.has_authorizer(client, node),
        reports_operations=cluster.reports_operations,
    )


def examine_canary(settings: ClientSettings, topic: str) -> CanaryReport:
    """Returns what the canary's principal may do. If Kafka fails or refuses, the report has only the reason."""
    try:
        with KafkaClient(settings, client_id="txnscope-doctor") as client:
            brokers = permissions.advertised(client)
            if not brokers:
                return CanaryReport(topic, why="no broker is listed")
            found = read_permissions(client, brokers[0].node, topic, TOPIC)
    except KafkaFailure as e:
        return CanaryReport(topic, why=str(e))
    return CanaryReport(topic, **found._asdict())


def principal_of(settings: ClientSettings) -> str | None:
    """Returns the principal as `kafka-acls.sh` names it; None if client.properties does not contain it, as with
    certificates or Kerberos, whose names the brokers may rewrite.
    """
    config = settings.kafka_python()
    protocol = config.get("security_protocol", "PLAINTEXT")
    if protocol == "PLAINTEXT":
        return "User:ANONYMOUS"
    name = config.get("sasl_plain_username") if protocol.startswith("SASL") else None
    return f"User:{name}" if name else None


def _brokers(client: KafkaClient) -> tuple[tuple[BrokerReport, ...], dict[str, int]]:
    """Asks each broker at the address that it advertises. Returns the brokers, and the finalized features."""
    seen = []
    features: dict[str, int] = {}
    for broker in permissions.advertised(client):
        try:
            found = permissions.versions(client, broker.node)
        except KafkaFailure as e:
            seen.append(BrokerReport(broker.node, broker.host, broker.port, str(e), {}, None))
            continue
        features = features or found.finalized
        newest = found.supported.get("metadata.version")
        seen.append(BrokerReport(broker.node, broker.host, broker.port, None, found.apis, newest))
    return tuple(seen), features


def _log(client: KafkaClient, node: int, everything: Topics, read: LogRead, topics: TopicsReport) -> LogReport:
    layout = everything.layouts.get(TOPIC)
    if layout is None:
        denied = permissions.topic_errors(client, node, [TOPIC])[TOPIC] == errors.TOPIC_AUTHORIZATION_FAILED
        seen = None if denied else _seen_without_log(client, topics)
        return LogReport(None if denied else False, 0, (), False if denied else None, None, 0, False, seen)
    leaderless = tuple(p for p, leader in layout.leaders.items() if leader.node < 0)
    return LogReport(True, len(layout.leaders), leaderless, read.may_read, read.why, len(read.ids), read.is_whole)


def _seen_without_log(client: KafkaClient, topics: TopicsReport) -> TransactionsSeen | None:
    if lists_ids_without_log(client):
        return TransactionsSeen.LISTED
    return TransactionsSeen.OPEN if topics.with_open else None


def _ids(client: KafkaClient, nodes: Sequence[int], log: LogRead) -> IdsReport:
    """Counts the ids of ListTransactions, and sends DescribeTransactions for ids of the log that ListTransactions
    leaves out.

    An id may be left out because this principal may not describe the id, or because the id has expired. Only in the
    first case does DescribeTransactions answer that access is denied.
    """
    try:
        listed = {listed.transactional_id for node in nodes for listed in list_transactions(client, node)}
        missing = sorted(
            name
            for name in (_text(transactional_id) for transactional_id in log.ids)
            if name is not None and name not in listed
        )
        hidden = permissions.denied_ids(client, nodes[0], missing[:_IDS_ASKED])
        return IdsReport(len(listed), tuple(hidden), bool(permissions.denied_ids(client, nodes[0], [_INVENTED])), None)
    except KafkaFailure as e:
        return IdsReport(None, (), None, str(e))


def _topics(client: KafkaClient, nodes: Sequence[int], everything: Topics, log: LogRead, wish: Wish) -> TopicsReport:
    known = sorted(everything.layouts)
    watched = [topic for topic in known if wish.wants(topic) and not wish.is_mirrored(topic)]
    globs = wish.topics or ("*",)
    invented = {name_like(glob): glob for glob in globs}
    mentioned = [
        t for t in sorted(log.topics) if t not in everything.layouts and wish.wants(t) and not wish.is_mirrored(t)
    ]
    codes = permissions.topic_errors(client, nodes[0], [*invented, *(t for t in mentioned if t not in invented)])
    denied = {name for name, code in codes.items() if code == errors.TOPIC_AUTHORIZATION_FAILED}
    readable, unreadable, silent, why, with_open = _readable(client, nodes, everything, watched)
    return TopicsReport(
        globs=globs,
        partitions={topic: len(everything.layouts[topic].leaders) for topic in known},
        mirrored=tuple(topic for topic in known if wish.is_mirrored(topic)),
        left_out=tuple(topic for topic in known if not wish.wants(topic) and not wish.is_mirrored(topic)),
        absent=tuple(
            g for name, g in invented.items() if name == g and name not in denied and g not in everything.layouts
        ),
        not_describable=tuple(sorted(name for name in denied if name in mentioned or name in globs)),
        denied_globs=tuple(glob for name, glob in invented.items() if name in denied and name != glob),
        readable=readable,
        unreadable=unreadable,
        unanswered=silent,
        leaderless=tuple(
            (t, p) for t in watched for p, leader in everything.layouts[t].leaders.items() if leader.node < 0
        ),
        unanswered_why=why,
        with_open=with_open,
    )


def _readable(
    client: KafkaClient, nodes: Sequence[int], everything: Topics, watched: Iterable[str]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], str | None, tuple[str, ...]]:
    """Sends DescribeProducers for one partition of each topic. Returns the topics for which the request is allowed, the
    topics for which it is denied, the topics without an answer, the reason why answers are missing, and the topics with
    an open transaction.
    """
    by_node: dict[int, dict[str, list[int]]] = {}
    found: dict[str, int] = {}
    with_open: set[str] = set()
    why = None
    for topic in watched:
        led = next(((n.node, p) for p, n in everything.layouts[topic].leaders.items() if n.node in nodes), None)
        if led is None:
            why = why or "no partition has a leader that answers"
        else:
            by_node.setdefault(led[0], {})[topic] = [led[1]]
    for node, places in by_node.items():
        names = list(places)
        for first in range(0, len(names), _TOPICS_AT_ONCE):
            some = {topic: places[topic] for topic in names[first : first + _TOPICS_AT_ONCE]}
            try:
                answered = describe_producers(client, node, some, permissions.TIMEOUT_MS)
            except KafkaFailure as e:
                why = str(e)
                continue
            found |= {topic: producers.error for (topic, _), producers in answered.items()}
            with_open |= {
                topic
                for (topic, _), producers in answered.items()
                if any(each.transaction_start_offset >= 0 for each in producers.producers)
            }
    allowed = tuple(sorted(topic for topic, error in found.items() if error == errors.NONE))
    denied = tuple(sorted(topic for topic, error in found.items() if error == errors.TOPIC_AUTHORIZATION_FAILED))
    silent = tuple(topic for topic in watched if topic not in allowed and topic not in denied)
    why = why or next((error_text(found[t]) for t in silent if t in found), None)
    return allowed, denied, silent, why, tuple(sorted(with_open))


def _groups(client: KafkaClient, nodes: Sequence[int]) -> GroupsReport:
    try:
        groups = {listed.group: listed.protocol_type for node in nodes for listed in list_groups(client, node)}
        listed = sorted(groups)
        denied = tuple(permissions.denied_groups(client, nodes[0], listed))
        any_denied = bool(permissions.denied_groups(client, nodes[0], [_INVENTED]))
        share = [group for group in listed if groups[group] == PROTOCOL_TYPE and group not in denied]
        not_judged, why = _share_groups(client, nodes[0], share)
    except KafkaFailure as e:
        return GroupsReport(None, (), None, str(e))
    return GroupsReport(len(listed), denied, any_denied, None, not_judged, why)


def _share_groups(client: KafkaClient, node: int, groups: Sequence[str]) -> tuple[tuple[str, ...], Reason | None]:
    """Returns the share groups that cannot be judged, and the reason."""
    if not reports_offsets(client):
        return tuple(groups), ShareOffsetsNotReported() if groups else None
    without = tuple(
        group
        for first in range(0, len(groups), _SHARE_GROUPS_AT_ONCE)
        for group, level in isolation_levels(client, node, groups[first : first + _SHARE_GROUPS_AT_ONCE]).items()
        if level is None
    )
    return without, ShareLevelNotReported() if without else None


def _controller(clock: permissions.ControllerClock) -> ClockReport:
    middle_ms = (clock.asked_at_ms + clock.answered_at_ms) // 2
    within_ms = (clock.answered_at_ms - clock.asked_at_ms) // 2 + 1
    return ClockReport(f"controller {clock.node}", clock.time_ms - middle_ms, within_ms, "its answer to DescribeQuorum")


def _nobody(bootstrap: str, principal: str | None, brokers: tuple[BrokerReport, ...], wish: Wish) -> ClusterReport:
    """Returns the report on a cluster whose bootstrap address answers, although no broker answers at the address that
    it advertises."""
    why = "no broker answers"
    return ClusterReport(
        bootstrap=bootstrap,
        principal=principal,
        cluster_id=None,
        brokers=brokers,
        features={},
        assumed_configs=(),
        cluster_operations=None,
        log=LogReport(None, 0, (), None, why, 0, False),
        ids=IdsReport(None, (), None, why),
        topics=TopicsReport(wish.topics or ("*",), {}, (), (), (), (), (), (), (), (), (), why),
        groups=GroupsReport(None, (), None, why),
        clocks=(),
        newest_record_ms=None,
        has_authorizer=None,
    )


def name_like(glob: str) -> str:
    """Returns an invented name that matches the glob; the glob itself if it is a plain name, or if no name of a topic
    matches it."""

    def invented(found: re.Match[str]) -> str:
        part = found[0]
        return _INVENTED if part == "*" else next((c for c in _OF_TOPICS if fnmatchcase(c, part)), part)

    return _GLOB_PART.sub(invented, glob)


def _text(transactional_id: bytes) -> str | None:
    """Returns the id as text; None if it is not UTF-8, because no request to Kafka can contain such an id."""
    try:
        return transactional_id.decode()
    except UnicodeDecodeError:
        return None
