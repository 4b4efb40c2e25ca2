"""Says which verdicts can be trusted with the permissions at hand: a table, row by row."""

from __future__ import annotations

from typing import Final, NamedTuple

from service.domain.doctor.seen import Seen
from service.domain.findings.formatting import join_names
from service.domain.transaction_log.states import TOPIC

CERTAIN: Final = "certain"
LIKELY: Final = "likely"
NONE: Final = "not at all"


class Verdict(NamedTuple):
    """A row. `trust`: CERTAIN, LIKELY or NONE; `why`: the exceptions, or the reason for less trust."""

    what: str
    trust: str
    why: str


def verdicts(seen: Seen) -> list[Verdict]:
    """Returns all rows. The transaction log is the only source of names and owners; DescribeProducers and batch headers
    need READ on a topic."""
    return [
        _partitions(seen),
        _hanging(seen),
        _names(seen),
        _from_log(seen, "causes and history"),
        _times(seen),
        _coordinators(seen),
        _groups(seen),
        _explain(seen),
    ]


def _partitions(seen: Seen) -> Verdict:
    what = "blocked partitions"
    if not seen.topics.watched:
        return Verdict(what, NONE, "no topic may be described")
    return Verdict(what, CERTAIN, _except(_not_looked_at(seen)))


def _hanging(seen: Seen) -> Verdict:
    """Returns the row for hanging transactions. Without the log only coordinators report the owner of an entry, or hide
    it. Without READ on a topic the open entries there are not known."""
    what, topics = "hanging transactions", seen.topics
    if not (seen.log.may_read or _tell_coordinators(seen)):
        return Verdict(what, NONE, _why_no_log(seen))
    if not topics.readable and not topics.silent:
        return Verdict(
            what, NONE, "READ is denied on every topic" if topics.unreadable else "no topic may be described"
        )
    but = _not_looked_at(seen)
    if topics.unreadable:
        but.append(f"not at all on {join_names(topics.unreadable)} (READ is denied)")
    but += _not_coordinated(seen)
    if not seen.log.may_read:
        if seen.ids.any_denied is not False:
            but.append("not of ids that may not be described")
        but.append("without what was decided")
        return Verdict(what, LIKELY, _except([f"{_why_no_log(seen)}: by the word of coordinators alone", *but]))
    if not topics.readable:
        return Verdict(what, LIKELY, _except(["DescribeProducers could not be asked", *but]))
    if topics.silent:
        but.append(f"likely at most on {join_names(topics.silent)} (DescribeProducers could not be asked)")
    return Verdict(what, CERTAIN, _except(but))


def _tell_coordinators(seen: Seen) -> bool:
    """Returns whether there is a log, and coordinators describe at least some ids to this principal."""
    is_there = seen.log.is_there is not False
    return is_there and seen.ids.listed is not None and (seen.ids.listed > 0 or seen.ids.any_denied is False)


def _names(seen: Seen) -> Verdict:
    what = "names of those who block"
    if not seen.log.may_read:
        return Verdict(what, NONE, _why_no_log(seen))
    if not seen.topics.readable and not seen.topics.silent:
        return Verdict(what, NONE, "READ is denied on every topic" if seen.topics.unreadable else "no topic is seen")
    denied = seen.topics.unreadable
    but = [f"not at all on {join_names(denied)} (READ is denied)"] if denied else []
    return Verdict(what, CERTAIN, _except([*_not_looked_at(seen), *but]))


def _from_log(seen: Seen, what: str) -> Verdict:
    if not seen.log.may_read:
        return Verdict(what, NONE, _why_no_log(seen))
    return Verdict(what, CERTAIN, _except(_not_coordinated(seen)))


def _times(seen: Seen) -> Verdict:
    what = "timeouts and expiry"
    if not seen.log.may_read:
        return Verdict(what, NONE, _why_no_log(seen))
    if seen.assumed_configs:
        return Verdict(what, LIKELY, "with Kafka's defaults: the brokers' configs could not be read")
    return Verdict(what, CERTAIN, _except(_not_coordinated(seen)))


def _coordinators(seen: Seen) -> Verdict:
    what, ids = "coordinators' answers", seen.ids
    if ids.listed is None:
        return Verdict(what, NONE, f"they could not be asked: {ids.why}")
    if ids.hidden:
        return Verdict(what, CERTAIN, f"not at all about {join_names(ids.hidden)} (DESCRIBE is denied)")
    if ids.any_denied and not (seen.log.may_read and seen.log.ids):
        return Verdict(what, NONE, "DESCRIBE on transactional ids is denied")
    return Verdict(what, CERTAIN, "")


def _groups(seen: Seen) -> Verdict:
    what, groups = "groups that wait", seen.groups
    if groups.listed is None:
        return Verdict(what, NONE, f"they could not be asked: {groups.why}")
    if (not groups.listed and groups.any_denied) or len(groups.denied) == groups.listed > 0:
        return Verdict(what, NONE, "DESCRIBE on groups is denied")
    but = [f"not at all {join_names(groups.denied)} (DESCRIBE is denied)"] if groups.denied else []
    if seen.cluster_operations is None:
        but.append("groups that Kafka does not show are missed")
    return Verdict(what, CERTAIN, _except(but))


def _explain(seen: Seen) -> Verdict:
    what, topics = "explain: whose a record is", seen.topics
    if not topics.readable:
        return Verdict(what, NONE, "READ is denied on every topic" if topics.unreadable else "no topic could be read")
    but = _not_looked_at(seen)
    if topics.unreadable:
        but.append(f"not at all on {join_names(topics.unreadable)} (READ is denied)")
    if not seen.log.may_read:
        return Verdict(what, CERTAIN, _except([*but, "without names and causes"]))
    return Verdict(what, CERTAIN, _except(but))


def _not_looked_at(seen: Seen) -> list[str]:
    but = []
    away = [str(broker.node) for broker in seen.brokers if broker.why is not None]
    if away:
        but.append(f"not what broker {join_names(away)} leads (it does not answer)")
    if seen.topics.leaderless:
        but.append(f"not {len(seen.topics.leaderless)} without a leader")
    if seen.topics.unseen or seen.topics.beyond:
        but.append("not on topics that may not be described")
    return but


def _not_coordinated(seen: Seen) -> list[str]:
    away = [str(broker.node) for broker in seen.brokers if broker.why is not None]
    but = [f"not ids that broker {join_names(away)} coordinates"] if away else []
    if seen.log.leaderless:
        but.append(f"not ids of partitions {join_names([str(n) for n in seen.log.leaderless])} of {TOPIC}")
    return but


def _except(but: list[str]) -> str:
    return "; ".join(but)


def _why_no_log(seen: Seen) -> str:
    if seen.log.is_there is False:
        return f"there is no {TOPIC} yet"
    if seen.log.may_read is None and seen.log.is_there:
        return f"{TOPIC} could not be read: {seen.log.why}"
    return f"READ on {TOPIC} is denied"
