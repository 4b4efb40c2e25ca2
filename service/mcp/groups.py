"""Answers why a consumer group is blocked: the partitions where the group waits, the open transactions that hold the
group up, and the findings about these partitions and transactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from service.domain.partitions.blocked_groups import BLOCKED, GroupRelation
from service.domain.partitions.group_offsets import OFFSETS_TOPIC
from service.mcp.asking import Ask, Refused
from service.mcp.data import Fields, known, more, name, quoted
from service.mcp.findings import Finding, open_findings, shown

PLACES: Final = 3
"""Maximum number of partitions that an answer describes."""
FINDINGS: Final = 3
"""Maximum number of findings about each partition."""
_READ: Final = 200
_BLOCKED: Final = frozenset(map(str, BLOCKED))
_OF_GROUP: Final = ("partition", "relation", "confidence", "isolation_level", "observed_at")
_OFFSETS: Final = ("committed_offset", "last_stable_offset", "high_watermark", "lag_to_lso", "lag_to_hw", "members")
_OF_ENTRY: Final = ("producer_id", "producer_epoch", "start_offset", "relation", "started_at", "last_write_at")

Row = Mapping[str, Any]


async def why_is_group_blocked(ask: Ask, cluster: str, group: str) -> Fields:
    page = await ask("clusters", cluster, "groups", group=group, limit=str(_READ))
    rows: Sequence[Row] = page["items"]
    worst = sorted(rows, key=lambda one: one["relation"] not in _BLOCKED)[:PLACES]
    answer = name("group", group) | {
        "is_blocked": _is_blocked(rows, is_whole=page["next_cursor"] is None),
        "as_of": page["as_of"],
        "partitions": [await _place(ask, cluster, one) for one in worst],
    }
    if not rows:
        answer["note"] = await _nothing_seen(ask, cluster)
    return answer | more("partitions", len(rows) - len(worst) + (page["next_cursor"] is not None))


def _is_blocked(rows: Sequence[Row], *, is_whole: bool) -> bool | None:
    """Returns True if some row says that the group is blocked. Otherwise, returns False if `is_whole` is True and no
    row is unknown, else None."""
    if any(row["relation"] in _BLOCKED for row in rows):
        return True
    return False if is_whole and all(row["relation"] != GroupRelation.UNKNOWN for row in rows) else None


async def _nothing_seen(ask: Ask, cluster: str) -> str:
    counts = (await ask("clusters", cluster))["partitions"]
    seen = (
        "No group of this name is known at a partition that an open transaction holds up. Groups whose offsets"
        " cannot be read are not known: see findings of kind coverage_gap."
    )
    if counts["unknown"] or counts["not_covered"]:
        seen += (
            f" This is not certain: {counts['unknown']:,} of {counts['watched']:,} watched partitions cannot be judged,"
            f" and {counts['not_covered']:,} are not watched."
        )
    return seen


async def _place(ask: Ask, cluster: str, row: Row) -> Fields:
    """Returns a partition of the group, the open transaction that holds the group up there, and the findings about the
    partition and about the transaction's id."""
    place = name("topic", row["topic"]) | known(row, _OF_GROUP)
    place |= {key: row[key] for key in _OFFSETS if row[key] is not None}
    topic, partition = row["topic"], row["partition"]
    if row["offsets_partition"] is not None:
        topic, partition = OFFSETS_TOPIC, row["offsets_partition"]
        place["offset_is_pending_on"] = {"topic": topic, "partition": partition}
    try:
        seen = await ask("clusters", cluster, "partitions", topic, str(partition))
    except Refused as error:
        return place | {"held_up_by": None} | quoted(why=str(error))
    place["stalled_since"] = seen["lso_stalled_since"]
    held_up_by = _holder(seen, row["producer_id"])
    place["held_up_by"] = None if held_up_by is None else _entry(held_up_by)
    place |= quoted(why_not_judged=seen["why"])
    return place | shown(await _findings(ask, cluster, held_up_by, topic, partition, row["group"]), FINDINGS)


async def _findings(
    ask: Ask, cluster: str, held_up_by: Row | None, topic: str, partition: int, group: str
) -> list[Finding]:
    """Returns the findings about the partition, and the findings about the id of the transaction that holds the group
    up. Leaves out findings about the partition that concern other groups."""
    of_place = await open_findings(ask, cluster, topic=topic, partition=str(partition))
    found = {one["id"]: one for one in of_place if one["subject"]["group"] in (None, group)}
    if held_up_by is not None and held_up_by["transactional_id"] is not None:
        of_id = await open_findings(ask, cluster, transactional_id=held_up_by["transactional_id"])
        found |= {one["id"]: one for one in of_id}
    return list(found.values())


def _holder(seen: Row, producer_id: int | None) -> Row | None:
    """Returns the open transaction that the group waits for; None if that transaction is not known. `producer_id`: the
    producer id of the transaction that commits an offset of the group; None if the group waits for the transaction at
    the LSO."""
    if producer_id is None:
        blocker: Row | None = seen["blocker"]
        return blocker
    return next(
        (
            open_transaction
            for open_transaction in seen["open_transactions"]
            if open_transaction["producer_id"] == producer_id
        ),
        None,
    )


def _entry(row: Row) -> Fields:
    return name("transactional_id", row["transactional_id"]) | known(row, _OF_ENTRY) | quoted(why=row["why"])
