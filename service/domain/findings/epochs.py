"""Ids of the old protocol whose producer epoch runs out. Under TV2 (KIP-890) the producer id rotates as a routine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from service.domain.findings import kinds
from service.domain.findings.conditions import IdNow, about, bounded, judged
from service.domain.findings.context import Context
from service.domain.findings.finding import Observation, Subject
from service.domain.transaction_log.transitions import LAST_EPOCH

WORN_FROM: Final = 30_000
"""Of the epochs that clients may have, 0 to 32,766."""


def epoch_exhaustion(ids: Iterable[IdNow], context: Context) -> list[Observation]:
    """`ids`: of the old protocol with an epoch from WORN_FROM on, the highest first."""
    return bounded(
        judged(ids, context),
        lambda one: _observe(one, context),
        lambda rest: f"{len(rest):,} more ids have used up most of their epochs",
    )


def _observe(one: IdNow, context: Context) -> Observation:
    return about(
        one,
        context,
        Observation(
            kind=kinds.EPOCH_EXHAUSTION,
            severity=kinds.WARNING,
            subject=Subject(transactional_id=one.transactional_id),
            summary=f"{one.name} has used {one.producer_epoch:,} of the {LAST_EPOCH:,} epochs of its producer id",
            advice="Under the old protocol each start, fence and timeout takes an epoch: find out what makes this id"
            " start so often. A start while it is idle rotates the producer id; a fence or timeout in the last epochs"
            " can fail on brokers before 4.3. Clients of the new protocol (KIP-890) rotate by themselves.",
            evidence=(one.newest_record(),),
            log_partition=one.partition,
        ),
    )
