"""Describes the result of an examination as lines for people: what can be seen, what is missing, and which ACL would
help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from service.domain.doctor import acls
from service.domain.doctor.acls import Acl
from service.domain.doctor.cluster_report import BrokerReport, ClusterReport
from service.domain.findings.formatting import duration, join_names, join_partitions, utc
from service.domain.reasons.hanging import SKIPPING
from service.domain.reasons.unread import NoTransactionLog, ShareLevelNotReported, TransactionsSeen
from service.domain.releases import FIRST_OF_38, may_skip_markers, release_of
from service.domain.transaction_log.states import CONFIG_DEFAULTS, TOPIC

OK: Final = "ok"
GAP: Final = "gap"
NOTE: Final = "note"

SKEW_MS: Final = 1_000
"""A clock gets a note in the report if it differs from this machine's clock by more than this time (ms) plus the error
of the measurement."""

_NEEDED_APIS: Final = {
    61: "DescribeProducers (Kafka 2.8)",
    65: "DescribeTransactions (Kafka 3.0)",
    66: "ListTransactions (Kafka 3.0)",
}


class Line(NamedTuple):
    """One line of the report. `mark`: OK; GAP if something that verdicts need cannot be seen; NOTE if the line is worth
    knowing, but is no gap."""

    mark: str
    what: str
    text: str
    missing: tuple[Acl, ...] = ()


def lines(report: ClusterReport) -> list[Line]:
    """Returns all lines; each part of the examination comes before the parts that depend on it."""
    return [
        *_brokers(report),
        *_features(report),
        *_cluster(report),
        *_log(report),
        *_topics(report),
        *_readable(report),
        *_ids(report),
        *_groups(report),
        *_clocks(report),
    ]


def to_resolve(report: ClusterReport) -> tuple[str, Acl] | None:
    """Returns the reason why the principal may be unable to write markers, and the ACL to grant; None if the principal
    certainly can write markers. Since 3.8, ALTER on the cluster is enough (KAFKA-16513); before 3.8, CLUSTER_ACTION is
    required (`KafkaApis.handleWriteTxnMarkersRequest`)."""
    levels = [broker.newest_metadata_version or 0 for broker in report.brokers if broker.why is None]
    is_enough = {"ALTER", "CLUSTER_ACTION"} if min(levels, default=0) >= FIRST_OF_38 else {"CLUSTER_ACTION"}
    if report.has_authorizer is False or (report.cluster_operations or frozenset()) & is_enough:
        return None
    known = (
        "it is not granted"
        if report.cluster_operations
        else "whether it is granted shows only when a marker is written"
    )
    return known, acls.CLUSTER_ALTER if "ALTER" in is_enough else acls.CLUSTER_ACTION


def _brokers(report: ClusterReport) -> Iterator[Line]:
    for broker in report.brokers:
        what, address = f"broker {broker.node}", f"{broker.host}:{broker.port}"
        if broker.why is not None:
            yield Line(GAP, what, f"does not answer at its advertised address {address}: {broker.why}")
            continue
        lacking = [name for key, name in _NEEDED_APIS.items() if key not in broker.apis]
        if lacking:
            yield Line(GAP, what, f"{address} answers, but does not speak {join_names(lacking)}")
        else:
            yield Line(OK, what, f"{address} answers, {_release(broker)}")


def _release(broker: BrokerReport) -> str:
    release, level = release_of(broker.newest_metadata_version), broker.newest_metadata_version
    if release is not None:
        return f"Kafka {release} (metadata.version up to {level}; it does not report its patch release)"
    return "a release of Kafka that this txnscope does not know" if level is not None else "its release is not reported"


def _features(report: ClusterReport) -> Iterator[Line]:
    if not any(broker.why is None for broker in report.brokers):
        return
    if not report.features:
        yield Line(NOTE, "features", "none are reported: neither transaction.version nor metadata.version is known")
        return
    metadata = report.features.get("metadata.version")
    version = report.features.get("transaction.version", 0)
    protocol = "the older protocol, in which a client's commits and aborts keep the epoch"
    if version >= 2:
        protocol = "each commit or abort raises the epoch (KIP-890 part 2), except for clients of the older protocol"
    yield Line(
        OK, "features", f"transaction.version {version}: {protocol}; metadata.version {metadata or 'not reported'}"
    )
    may_skip = may_skip_markers([broker.newest_metadata_version for broker in report.brokers])
    if may_skip is not False:
        which = f"coordinators of Kafka {SKIPPING}" + ("" if may_skip else ", and maybe of this cluster,")
        yield Line(
            NOTE,
            "features",
            f"{which} skip the markers of partitions without a leader (KAFKA-20734), so a committed"
            " transaction may hang. Read the decision of a finding before you abort anything",
        )


def _cluster(report: ClusterReport) -> Iterator[Line]:
    if report.has_authorizer is False:
        yield Line(OK, "ACLs", "the brokers have no authorizer: everybody may do everything")
    elif not report.reports_operations:
        text = "the brokers do not report which operations are allowed on the cluster, so groups may be hidden"
        yield Line(NOTE, "ACLs", text)
    elif report.cluster_operations is None:
        text = "DESCRIBE on the cluster is denied, so groups may be hidden, and the controller's clock cannot be read"
        yield Line(GAP, "ACLs", text, (acls.CLUSTER_DESCRIBE,))
    else:
        yield Line(OK, "ACLs", f"operations allowed on the cluster: {', '.join(sorted(report.cluster_operations))}")
    assumed = report.assumed_configs
    if assumed:
        defaults = ", ".join(f"{name}={CONFIG_DEFAULTS[name]}" for name in assumed)
        text = f"{defaults}: assumed, because the configs could not be read"
        yield Line(GAP, "configs", text, (acls.CLUSTER_CONFIGS,))
    else:
        yield Line(OK, "configs", "timeouts and expiry are read from the brokers")


def _log(report: ClusterReport) -> Iterator[Line]:
    log, read = report.log, (acls.topic(TOPIC, "Read"),)
    if log.exists is None:
        denied = Line(GAP, TOPIC, "DESCRIBE is denied, so names and causes are not known", read)
        yield denied if log.why is None else Line(GAP, TOPIC, f"not known: {log.why}")
        return
    if not log.exists and log.seen is not None:
        yield Line(GAP, TOPIC, f"{NoTransactionLog(log.seen)}; names, causes, timeouts and history are not known")
        return
    if not log.exists:
        text = "is not listed, nor is any transactional id; whether READ is allowed is not known"
        if report.ids.listed is None:
            text = "is not listed; whether transactional ids are used is not known, because no broker lists them"
        yield Line(NOTE, TOPIC, text)
        return
    if log.leaderless:
        missing = join_partitions([(TOPIC, number) for number in log.leaderless])
        yield Line(GAP, TOPIC, f"partitions without a leader: {missing}; their transactions cannot be followed")
    if log.may_read is False:
        yield Line(GAP, TOPIC, f"{log.partitions} partitions, READ is denied", read)
    elif log.may_read is None:
        yield Line(GAP, TOPIC, f"{log.partitions} partitions; the log could not be read: {log.why}")
    else:
        part = "all of the log was read" if log.is_whole else "a part of the log was read"
        yield Line(
            OK, TOPIC, f"{log.partitions} partitions, READ is allowed; {part}: {_count(log.ids, 'transactional id')}"
        )


def _topics(report: ClusterReport) -> Iterator[Line]:
    topics = report.topics
    watched = topics.watched
    count = sum(topics.partitions[topic] for topic in watched)
    yield Line(
        OK if watched or not topics.denied_globs else GAP,
        "coverage",
        f"{_count(len(watched), 'topic')} with {_count(count, 'partition')} would be watched"
        + _aside(report, topics.mirrored, "(mirrored, never judged)")
        + _aside(report, topics.left_out, "(left out by --topics)"),
    )
    if topics.absent:
        yield Line(NOTE, "coverage", f"--topics: there is no topic {join_names(topics.absent)}")
    if topics.not_describable:
        missing = acls.each_or_all("--topic", topics.not_describable, -1, "Read")
        text = f"DESCRIBE is denied (or the topic is deleted): {join_names(topics.not_describable)}"
        yield Line(GAP, "coverage", text, tuple(missing))
    hidden = tuple(acls.pattern(glob, "Read") for glob in topics.denied_globs if glob not in topics.not_describable)
    if hidden:
        which = "topics" if "*" in topics.denied_globs else f"topics like {join_names(topics.denied_globs)}"
        text = f"Kafka does not list {which} without DESCRIBE, so their number is not known"
        yield Line(GAP, "coverage", text, hidden)
    if topics.leaderless:
        text = (
            f"{_count(len(topics.leaderless), 'partition')} without a leader: {join_partitions(topics.leaderless)};"
            " their LSO and open transactions are not known"
        )
        yield Line(GAP, "coverage", text)


def _aside(report: ClusterReport, topics: Sequence[str], why: str) -> str:
    if not topics:
        return ""
    partitions = sum(report.topics.partitions[topic] for topic in topics)
    return f"; {_count(partitions, 'partition')} of {join_names(topics)} {why}"


def _readable(report: ClusterReport) -> Iterator[Line]:
    topics, what = report.topics, "DescribeProducers"
    count = len(topics.readable) + len(topics.unreadable)
    watched = count + len(topics.unanswered)
    if topics.unreadable:
        if len(topics.unreadable) == count > 1:
            missing = [acls.pattern(glob, "Read") for glob in topics.globs]
        else:
            missing = acls.each_or_all("--topic", topics.unreadable, count, "Read")
        text = (
            f"READ is denied on {len(topics.unreadable)} of {_count(watched, 'topic')}: {join_names(topics.unreadable)}"
        )
        yield Line(GAP, what, text, tuple(missing))
    elif topics.readable:
        which = "the watched topic" if count == watched == 1 else f"all {count} watched topics"
        if topics.unanswered:
            which = f"{count} of {watched} watched topics"
        yield Line(OK, what, f"READ is allowed on {which}")
    if topics.unanswered:
        yield Line(GAP, what, f"no answer about {join_names(topics.unanswered)}: {topics.unanswered_why}")


def _ids(report: ClusterReport) -> Iterator[Line]:
    ids, log, what = report.ids, report.log, "ListTransactions"
    if ids.listed is None:
        yield Line(GAP, what, f"no answer: {ids.why}")
    elif log.seen is TransactionsSeen.OPEN:
        text = (
            f"lists {_count(ids.listed, 'id')}, although transactions are open on {join_names(report.topics.with_open)}"
        )
        yield Line(GAP, what, f"{text}: it leaves out ids with open transactions, or hides them from this principal")
    elif ids.hidden:
        text = (
            f"lists {_count(ids.listed, 'id')} and silently hides {_count(len(ids.hidden), 'id')} of the log:"
            f" {join_names(ids.hidden)}. txnscope's verdicts do not depend on this list; the result of"
            " kafka-transactions.sh find-hanging does"
        )
        missing = acls.each_or_all("--transactional-id", ids.hidden, log.ids, "Describe")
        yield Line(GAP, what, text, tuple(missing))
    elif ids.any_denied is not False and not (log.may_read and log.ids):
        text = f"lists {_count(ids.listed, 'id')}; whether it hides others is not known"
        yield Line(GAP, what, text, (Acl("--transactional-id", "*", "Describe"),))
    elif log.may_read and log.ids:
        yield Line(OK, what, f"lists {_count(ids.listed, 'id')}, and is not known to hide any id of the log")
    else:
        yield Line(OK, what, f"lists {_count(ids.listed, 'id')}; DESCRIBE is allowed on ids of any name")


def _groups(report: ClusterReport) -> Iterator[Line]:
    groups, what = report.groups, "groups"
    if groups.listed is None:
        yield Line(GAP, what, f"no answer: {groups.why}")
        return
    if groups.denied:
        text = f"DESCRIBE is denied on {len(groups.denied)} of {groups.listed}: {join_names(groups.denied)}"
        missing = acls.each_or_all("--group", groups.denied, groups.listed, "Describe")
        yield Line(GAP, what, text, tuple(missing))
    elif groups.any_denied is not False and (report.cluster_operations is None or not groups.listed):
        text = f"{groups.listed} listed; Kafka does not list groups without DESCRIBE, so more may exist"
        yield Line(GAP, what, text, (Acl("--group", "*", "Describe"),))
    else:
        yield Line(OK, what, f"{groups.listed} listed, DESCRIBE is allowed on all")
    if groups.share_not_judged:
        names = groups.share_not_judged
        text = f"share groups are not judged: {join_names(names)} ({groups.share_why})"
        can_grant = isinstance(groups.share_why, ShareLevelNotReported)
        missing = acls.each_or_all("--group", names, groups.listed, "DescribeConfigs") if can_grant else []
        yield Line(GAP, what, text, tuple(missing))


def _clocks(report: ClusterReport) -> Iterator[Line]:
    for clock in report.clocks:
        about = f" (± {clock.within_ms} ms)"
        ahead = (
            f"{duration(abs(clock.ahead_ms))} {'ahead of' if clock.ahead_ms >= 0 else 'behind'} this machine's{about}"
        )
        is_far = abs(clock.ahead_ms) > SKEW_MS + clock.within_ms
        yield Line(NOTE if is_far else OK, "clock", f"{clock.owner}: {ahead}, by {clock.read_from}")
    if not report.clocks:
        newest = report.newest_record_ms
        last = "" if newest is None else f"; the newest record of {TOPIC} has the time {utc(newest)}"
        yield Line(NOTE, "clock", f"could not be measured: no transaction record was read during the examination{last}")


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
