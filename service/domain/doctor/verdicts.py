"""Derives the table of verdicts: how far each kind of verdict can be trusted with the principal's permissions."""

from __future__ import annotations

from typing import Final, NamedTuple

from service.domain.doctor.cluster_report import ClusterReport
from service.domain.findings.formatting import join_names
from service.domain.reasons.unread import TransactionsSeen
from service.domain.transaction_log.states import TOPIC

CERTAIN: Final = "certain"
LIKELY: Final = "likely"
NONE: Final = "not at all"


class Verdict(NamedTuple):
    """A row of the table: a verdict and how far it can be trusted. `trust`: CERTAIN, LIKELY or NONE; `why`: the
    exceptions, or the reason for less trust."""

    what: str
    trust: str
    why: str


def verdicts(report: ClusterReport) -> list[Verdict]:
    """Returns all rows of the table of verdicts. The transaction log is the only source of names and owners;
    DescribeProducers and batch headers need READ on a topic."""
    return [
        _partitions(report),
        _hanging(report),
        _names(report),
        _causes(report),
        _times(report),
        _coordinators(report),
        _groups(report),
        _explain(report),
    ]


def _partitions(report: ClusterReport) -> Verdict:
    what = "blocked partitions"
    if not report.topics.watched:
        return Verdict(what, NONE, "no topic is visible")
    return Verdict(what, CERTAIN, "; ".join(_not_sampled(report)))


def _hanging(report: ClusterReport) -> Verdict:
    """Returns the row for hanging transactions. Without the transaction log, only coordinators report the owner of an
    entry, and only to a principal that may describe the id. Without READ on a topic, the open entries there are not
    known."""
    what, topics = "hanging transactions", report.topics
    if not (report.log.may_read or _coordinators_describe(report)):
        return Verdict(what, NONE, why_no_log(report))
    if not topics.readable and not topics.unanswered:
        return Verdict(what, NONE, "READ is denied on every topic" if topics.unreadable else "no topic is visible")
    exceptions = [*_not_read(report), *_not_coordinated(report)]
    if not report.log.may_read:
        if report.ids.any_denied is not False:
            exceptions.append("not for ids without DESCRIBE")
        exceptions.append("without the decision (commit or abort)")
        return Verdict(
            what,
            LIKELY,
            "; ".join([f"{why_no_log(report)}, so only from answers to DescribeTransactions", *exceptions]),
        )
    if not topics.readable:
        return Verdict(what, LIKELY, "; ".join(["DescribeProducers got no answer", *exceptions]))
    return Verdict(what, CERTAIN, "; ".join([*exceptions, *_unanswered(report)]))


def _coordinators_describe(report: ClusterReport) -> bool:
    """Returns whether coordinators report ids to this principal: an id is listed or, unless the transaction log is
    missing, DESCRIBE is allowed on ids of any name."""
    is_there = report.log.exists is not False or report.log.seen is TransactionsSeen.LISTED
    return is_there and report.ids.listed is not None and (report.ids.listed > 0 or report.ids.any_denied is False)


def _names(report: ClusterReport) -> Verdict:
    what, topics = "names of blocking producers", report.topics
    if not report.log.may_read:
        return Verdict(what, NONE, why_no_log(report))
    if not topics.readable and not topics.unanswered:
        return Verdict(what, NONE, "READ is denied on every topic" if topics.unreadable else "no topic is visible")
    trust = CERTAIN if topics.readable else LIKELY
    return Verdict(what, trust, "; ".join([*_not_read(report), *_unanswered(report), *_not_coordinated(report)]))


def _causes(report: ClusterReport) -> Verdict:
    what = "causes and history"
    if not report.log.may_read:
        return Verdict(what, NONE, why_no_log(report))
    why = "the transaction log does not show who aborted a transaction"
    return Verdict(what, LIKELY, "; ".join([why, *_not_coordinated(report)]))


def _times(report: ClusterReport) -> Verdict:
    what = "timeouts and expiry"
    if not report.log.may_read:
        return Verdict(what, NONE, why_no_log(report))
    if report.assumed_configs:
        return Verdict(what, LIKELY, "from Kafka's defaults, because the brokers' configs could not be read")
    return Verdict(what, CERTAIN, "; ".join(_not_coordinated(report)))


def _coordinators(report: ClusterReport) -> Verdict:
    what, ids = "coordinators' answers", report.ids
    if ids.listed is None:
        return Verdict(what, NONE, f"no answer: {ids.why}")
    if report.log.seen is TransactionsSeen.OPEN:
        return Verdict(what, NONE, "ListTransactions lists no id, although transactions are open")
    if ids.hidden:
        return Verdict(what, CERTAIN, f"not at all about {join_names(ids.hidden)} (DESCRIBE is denied)")
    if ids.any_denied and not (report.log.may_read and report.log.ids):
        return Verdict(what, NONE, "DESCRIBE on transactional ids is denied")
    return Verdict(what, CERTAIN, "")


def _groups(report: ClusterReport) -> Verdict:
    what, groups = "blocked groups", report.groups
    if groups.listed is None:
        return Verdict(what, NONE, f"no answer: {groups.why}")
    if (not groups.listed and groups.any_denied) or len(groups.denied) == groups.listed > 0:
        return Verdict(what, NONE, "DESCRIBE on groups is denied")
    exceptions = ["Kafka reports no isolation level of consumer groups"]
    if groups.denied:
        exceptions.append(f"not at all on {join_names(groups.denied)} (DESCRIBE is denied)")
    if report.cluster_operations is None and report.has_authorizer is not False:
        exceptions.append("groups that Kafka does not list are missed")
    unreadable = [topic for topic in report.topics.unreadable if topic != TOPIC]
    if unreadable:
        exceptions.append(f"only groups at the LSO on {join_names(unreadable)} (READ is denied)")
    if groups.share_not_judged:
        exceptions.append(f"share groups are not judged: {join_names(groups.share_not_judged)}")
    return Verdict(what, LIKELY, "; ".join(exceptions))


def _explain(report: ClusterReport) -> Verdict:
    what, topics = "explain: owner of a record", report.topics
    if not topics.readable:
        return Verdict(what, NONE, "READ is denied on every topic" if topics.unreadable else "no topic could be read")
    nameless = _not_coordinated(report) if report.log.may_read else ["without names and causes"]
    return Verdict(what, CERTAIN, "; ".join([*_not_read(report), *_unanswered(report), *nameless]))


def _not_sampled(report: ClusterReport) -> list[str]:
    exceptions = []
    away = [str(broker.node) for broker in report.brokers if broker.why is not None]
    if away:
        exceptions.append(f"not on partitions led by broker {join_names(away)} (no answer)")
    if report.topics.leaderless:
        exceptions.append(f"not on partitions without a leader ({len(report.topics.leaderless)})")
    if report.topics.not_describable or report.topics.denied_globs:
        exceptions.append("not on topics without DESCRIBE")
    return exceptions


def _not_read(report: ClusterReport) -> list[str]:
    denied = report.topics.unreadable
    exceptions = [f"not at all on {join_names(denied)} (READ is denied)"] if denied else []
    return [*_not_sampled(report), *exceptions]


def _unanswered(report: ClusterReport) -> list[str]:
    names = report.topics.unanswered
    return [f"no better than likely on {join_names(names)} (DescribeProducers got no answer)"] if names else []


def _not_coordinated(report: ClusterReport) -> list[str]:
    away = [str(broker.node) for broker in report.brokers if broker.why is not None]
    exceptions = [f"not for ids that broker {join_names(away)} coordinates"] if away else []
    if report.log.leaderless:
        exceptions.append(f"not for ids of partitions {join_names([str(n) for n in report.log.leaderless])} of {TOPIC}")
    return exceptions


def why_no_log(report: ClusterReport) -> str:
    """Returns the reason why the transaction log cannot be read. Call this function only if the log cannot be read."""
    if report.log.exists is False:
        return f"there is no {TOPIC}" if report.log.seen is None else f"no {TOPIC} is listed"
    if report.log.may_read is None and report.log.why is not None:
        return f"{TOPIC} could not be read: {report.log.why}"
    return f"READ on {TOPIC} is denied"
