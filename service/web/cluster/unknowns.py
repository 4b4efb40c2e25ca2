"""What is unknown and why, as the pipeline page tells of it: which verdicts it takes away, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from service.domain.findings.finding import Finding
from service.domain.findings.words import listed
from service.domain.partitions.facts import SOURCE as PARTITIONS
from service.domain.transaction_log.states import SOURCE as LOG
from service.web.shared.grants import bootstrap_of, lines_of, lines_of_groups

GROUPS_NAMED: Final = 5
PARTITIONS_SHOWN: Final = 40

_LOG_VERDICTS: Final = "state, cause, timeouts, expiry; who holds what"
_PARTITION_VERDICTS: Final = "hanging, blocked, groups behind it"


class UnknownRow(NamedTuple):
    """`takes`: the verdicts that are missing. `commands`: to be pasted; `advice`: where there are none."""

    what: str
    takes: str
    why: str
    commands: tuple[str, ...]
    advice: str
    address: str | None = None

    @property
    def is_one_of_many(self) -> bool:
        """Partitions that nothing can be granted for: each of thousands may have a reason of its own."""
        return self.takes == _PARTITION_VERDICTS and not self.commands


def unknown_rows(
    entries: Iterable[Mapping[str, Any]], denied: Sequence[Finding], brokers: Sequence[Mapping[str, Any]]
) -> list[UnknownRow]:
    """`entries`: `unknown` of REST's Cluster, in its order. `denied`: findings of groups that may not be asked."""
    bootstrap = bootstrap_of(brokers)
    found = [_row(one["what"], one["why"] or "", one["grant"], bootstrap) for one in entries]
    if denied:
        names = sorted(one.subject.group or "" for one in denied)
        found.append(
            UnknownRow(
                f"consumer groups {listed(names, GROUPS_NAMED)}" if len(names) > 1 else f"consumer group {names[0]}",
                "whether they wait" if len(names) > 1 else "whether it waits",
                "no permission to read their offsets" if len(names) > 1 else "no permission to read its offsets",
                tuple(lines_of_groups(denied, bootstrap)),
                "Grant DESCRIBE on them to txnscope's principal.",
            )
        )
    return found


def bounded(rows: Iterable[UnknownRow]) -> tuple[list[UnknownRow], int]:
    """Without partitions beyond PARTITIONS_SHOWN reasons; and how many reasons that leaves out."""
    rows = list(rows)
    many = [row for row in rows if row.is_one_of_many]
    left_out = {id(row) for row in many[PARTITIONS_SHOWN:]}
    return [row for row in rows if id(row) not in left_out], len(left_out)


def _row(what: str, why: str, grant: str | None, bootstrap: str | None) -> UnknownRow:
    commands = tuple(lines_of(grant, bootstrap))
    advice = f"Grant {grant} to txnscope's principal." if grant else "See to the brokers; it is asked again by itself."
    if what == "broker configs":
        return UnknownRow(what, "nothing; limits are assumed", why, commands, advice, "#configs")
    if what.startswith("state of "):
        advice = "Wait for their next records, or update txnscope."
        return UnknownRow(what, "their state; they are not called hanging", why, (), advice, "#rejects")
    if what.startswith("source "):
        source = what.removeprefix("source ")
        takes = _LOG_VERDICTS if source == LOG else _PARTITION_VERDICTS if source == PARTITIONS else "what it tells"
        return UnknownRow(what, takes, why, commands, advice)
    if why.startswith("not watched"):
        return UnknownRow(what, "all of them", why, (), "Nothing, if that is meant.")
    if why.startswith("offsets "):
        takes = "what happened in them"
        return UnknownRow(what, takes, why, (), "Nothing: it cannot be read any more.", "#rejects")
    if "being looked at" in why:
        advice = "Nothing yet: three looks decide it, within seconds."
    elif why.startswith("more than "):
        advice = "Those that stand longest come first; the others are judged when there are fewer."
    return UnknownRow(what, _PARTITION_VERDICTS, why, commands, advice)
