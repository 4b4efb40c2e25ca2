"""Does it heal? What ends an open transaction, and when, in the words of the page."""

from __future__ import annotations

from typing import Final, NamedTuple

from service.domain.findings.context import Limits
from service.domain.limits import is_time, times_out_at_ms
from service.domain.open_entries import ADOPTED, COMPLETING, HANGING, OPENED, OVERDUE, UNREPLICATED, Relation

NO, WHEN, SELF, NOW, UNKNOWN = "no", "when", "self", "now", "unknown"


class Heal(NamedTuple):
    """`tone` and `icon` of the drawing; `at_ms`: counted down to. `order`: what does not heal comes first."""

    order: int
    tone: str
    icon: str
    text: str
    at_ms: int | None = None
    more: str = ""


HANGS: Final = Heal(0, NO, "critical", "will not heal by itself")
OF_UNKNOWN: Final = Heal(3, UNKNOWN, "unknown", "unknown")


def heal_of(relation: Relation, limits: Limits) -> Heal:
    """`limits`: of the brokers; transactions that time out are looked for every `scan_ms`."""
    owner = relation.owner
    if relation.word == HANGING:
        return HANGS
    if relation.word == COMPLETING:
        return Heal(1, WHEN, "completing", "heals when its markers are written", more="retried without limit")
    if relation.word == UNREPLICATED:
        return Heal(1, WHEN, "completing", "heals when the replicas catch up", more="the leader has the marker already")
    if relation.word == ADOPTED:
        return Heal(
            2, SELF, "clock", "ends with the id's present transaction", more="its marker decides about these too"
        )
    if relation.word == OVERDUE:
        return Heal(1, NOW, "warning", "overdue", more="the coordinator should have aborted it")
    if relation.word == OPENED and owner is not None:
        times_out_ms = times_out_at_ms(owner.state, owner.start_ms, owner.timeout_ms)
        if times_out_ms is None or not is_time(times_out_ms):
            return Heal(1, WHEN, "open", "no timeout: ends when its application ends it", more="two-phase commit")
        more = f"at the latest {limits.scan_ms // 1000} s after; its records are then discarded"
        return Heal(4, SELF, "clock", "aborts itself", times_out_ms, more)
    return OF_UNKNOWN._replace(more=relation.why or "")
