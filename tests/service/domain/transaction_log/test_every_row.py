"""Tests the cause of every kind of end (docs/causes.md) on a whole log. The log is encoded as each kind of broker
writes it, and then read back.

The kinds of brokers differ in the record's value. A value of v0 has no tags, v1 contains the client's transaction
version, and from 4.3 on v1 also contains the previous producer id. The comment beside a record gives its expected
cause.
"""

from __future__ import annotations

import pytest

from service.domain.transaction_log import states
from service.domain.transaction_log.facts import NO_ID, LogRecord
from service.wire.batches import Batch, read_batches
from service.wire.records import read_records
from tests.helpers.builders import transaction_log
from tests.service.domain import golden
from tests.service.domain.annotated import annotated, judgement
from tests.service.domain.records import reported

V0, V1, NAMED = "v0", "v1", "v1 with producer ids"
TV2_BROKERS = (V1, NAMED)
ALL = (V0, V1, NAMED)

ROWS: dict[str, tuple[tuple[str, ...], str]] = {
    # transaction.version 0 or 1, or any client whose EndTxn is of version 4 or lower
    "a new id; initialized again": (ALL, "0 Empty(7,0) # initialized, certain\n9 Empty(7,1) # initialized, certain"),
    "old client commits and aborts": (
        ALL,
        """
        0 Empty(7,0)            # initialized, certain
        10 Ongoing(7,0)
        20 PrepareCommit(7,0)   # commit, likely
        23 CompleteCommit(7,0)
        30 Ongoing(7,0)
        40 PrepareAbort(7,0)    # client_abort, likely
        43 CompleteAbort(7,0)""",
    ),
    "old client, timeout": (
        ALL,
        """
        0 Empty(7,0)            # initialized, certain
        10 Ongoing(7,0)
        60011 PrepareAbort(7,1) # timeout, likely
        60014 CompleteAbort(7,1)""",
    ),
    "old client, InitProducerId while Ongoing": (
        ALL,
        """
        0 Empty(7,0)            # initialized, certain
        10 Ongoing(7,0)
        20 PrepareAbort(7,1)    # fenced, likely (at first fenced, ambiguous)
        23 CompleteAbort(7,1)
        120 Empty(7,2)          # initialized, certain""",
    ),
    "old client, fenced, and the append of the abort seems to have failed": (
        ALL,
        """
        10 Ongoing(7,0)
        20 PrepareAbort(7,1)    # fenced, likely (at first fenced, ambiguous)
        1020 PrepareAbort(7,1)
        1023 CompleteAbort(7,1)
        1120 Empty(7,2)         # initialized, certain""",
    ),
    "exhausted while idle": (
        (V0, V1),
        "0 Empty(7,32766) # initialized, certain\n10 Empty(9,0) # pid_rotated, likely",
    ),
    "exhausted while idle, and the record contains the old producer id": (
        (NAMED,),
        "0 Empty(7,32766) # initialized, certain\n10 Empty(9,0) # pid_rotated, certain",
    ),
    "old client fenced at the last epoch": (
        (V0, V1),
        """
        10 Ongoing(7,32766)
        20 PrepareAbort(7,32767)  # fenced, likely (at first fenced, ambiguous)
        23 CompleteAbort(7,32767)
        120 Empty(9,0)            # pid_rotated, likely""",
    ),
    "expiry and a new initialization": (
        ALL,
        "0 Empty(7,0) # initialized, certain\n9 tombstone # expired, certain\n20 Empty(9,0) # initialized, certain",
    ),
    # an old client on a cluster of transaction.version 2: its own ends have no tag, the coordinator's ends have one
    "old client on a TV2 cluster aborts": (
        TV2_BROKERS,
        """
        10 Ongoing(7,0)
        20 PrepareAbort(7,0)         # client_abort, likely
        23 CompleteAbort(7,0)
        30 Ongoing(7,0)""",
    ),
    "old client on a TV2 cluster, timeout": (
        TV2_BROKERS,
        """
        10 Ongoing(7,0)
        60011 PrepareAbort(7,1) ctv=2 # timeout, likely
        60014 CompleteAbort(7,1) ctv=2
        61000 Empty(7,2) ctv=2        # initialized, certain""",
    ),
    "old client on a TV2 cluster, fenced": (
        TV2_BROKERS,
        """
        10 Ongoing(7,0)
        20 PrepareAbort(7,1) ctv=2   # fenced, likely (at first fenced, ambiguous)
        23 CompleteAbort(7,1) ctv=2
        120 Empty(7,2) ctv=2         # initialized, certain
        130 Ongoing(7,2)""",
    ),
    "old client on a TV2 cluster of 4.0.0, fenced": (
        (V1,),
        """
        10 Ongoing(7,0)
        20 PrepareAbort(7,2) ctv=2   # fenced, likely (at first fenced, ambiguous)
        23 CompleteAbort(7,2) ctv=2
        120 Empty(7,3) ctv=2         # initialized, certain""",
    ),
    "client starts to speak TV2": (
        TV2_BROKERS,
        """
        10 Ongoing(7,4)
        20 PrepareCommit(7,4)        # commit, likely
        23 CompleteCommit(7,4)
        30 Empty(7,5)                # initialized, certain
        40 Ongoing(7,5) ctv=2
        50 PrepareCommit(7,6) ctv=2  # commit, certain
        53 CompleteCommit(7,6) ctv=2""",
    ),
    # TV2 clients: every end raises the epoch
    "TV2 client commits": (
        TV2_BROKERS,
        """
        10 Ongoing(7,0) ctv=2
        20 PrepareCommit(7,1) ctv=2  # commit, certain
        23 CompleteCommit(7,1) ctv=2
        30 Ongoing(7,1) ctv=2""",
    ),
    "TV2 client aborts and goes on": (
        TV2_BROKERS,
        """
        10 Ongoing(7,0) ctv=2
        20 PrepareAbort(7,1) ctv=2   # client_abort, likely (at first client_abort, ambiguous)
        23 CompleteAbort(7,1) ctv=2
        9000 Ongoing(7,1) ctv=2""",
    ),
    "TV2 client, timeout": (
        TV2_BROKERS,
        """
        10 Ongoing(7,0) ctv=2
        60011 PrepareAbort(7,1) ctv=2 # timeout, likely
        60014 CompleteAbort(7,1) ctv=2
        70000 Ongoing(7,1) ctv=2      # its late EndTxn(abort) was accepted and left no record""",
    ),
    "TV2 client requests a new epoch itself": (
        TV2_BROKERS,
        """
        10 Ongoing(7,0) ctv=2
        20 PrepareAbort(7,1) ctv=2   # client_abort, likely (at first client_abort, ambiguous)
        23 CompleteAbort(7,1) ctv=2
        120 Empty(7,1) ctv=2         # initialized, certain""",
    ),
    "old client on a TV2 cluster requests a new epoch itself": (
        TV2_BROKERS,
        """
        10 Ongoing(7,0)
        20 PrepareAbort(7,1) ctv=2   # client_abort, likely (at first fenced, ambiguous)
        23 CompleteAbort(7,1) ctv=2
        120 Empty(7,1) ctv=2         # initialized, certain""",
    ),
    "old client requests a new epoch itself, or is fenced by an instance that gave up": (
        ALL,
        """
        10 Ongoing(7,0)
        20 PrepareAbort(7,1)         # fenced, ambiguous
        23 CompleteAbort(7,1)
        8000 Empty(7,2)              # initialized, certain""",
    ),
    "TV2 transactions ended by the old protocol": (
        TV2_BROKERS,
        """
        10 Ongoing(7,0) ctv=2
        20 PrepareAbort(7,0)         # client_abort, likely
        23 CompleteAbort(7,0)
        30 Ongoing(7,0) ctv=2
        40 PrepareCommit(7,0)        # commit, likely
        43 CompleteCommit(7,0)""",
    ),
    "TV2 client fenced, or aborts and starts anew": (
        TV2_BROKERS,
        """
        10 Ongoing(7,0) ctv=2
        20 PrepareAbort(7,1) ctv=2   # fenced, ambiguous (at first client_abort, ambiguous)
        23 CompleteAbort(7,1) ctv=2
        120 Empty(7,2) ctv=2         # initialized, certain""",
    ),
    "TV2 client, nothing follows": (
        TV2_BROKERS,
        """
        10 Ongoing(7,0) ctv=2
        20 PrepareAbort(7,1) ctv=2   # client_abort, ambiguous
        23 CompleteAbort(7,1) ctv=2""",
    ),
    "TV2 client on 4.0.0, timeout": (
        (V1,),
        """
        10 Ongoing(7,0) ctv=2
        60011 PrepareAbort(7,2) ctv=2 # timeout, likely
        60014 CompleteAbort(7,2) ctv=2
        61000 Empty(7,3) ctv=2        # initialized, certain""",
    ),
    "TV2 client on 4.0.0, fenced": (
        (V1,),
        """
        10 Ongoing(7,0) ctv=2
        20 PrepareAbort(7,2) ctv=2   # fenced, likely (at first fenced, ambiguous)
        23 CompleteAbort(7,2) ctv=2
        120 Empty(7,3) ctv=2         # initialized, certain""",
    ),
    "TV2 client aborts nothing": (
        TV2_BROKERS,
        """
        10 Empty(7,0)                                     # initialized, certain
        20 PrepareAbort(7,1) partitions=0 start=20 ctv=2  # empty_abort, certain
        20 CompleteAbort(7,1) ctv=2
        30 PrepareAbort(7,2) partitions=0 start=30 ctv=2  # empty_abort, certain
        30 CompleteAbort(7,2) ctv=2""",
    ),
    "TV2 client commits at the last epoch": (
        (V1,),
        """
        10 Ongoing(7,32766) ctv=2
        20 PrepareCommit(7,32767) ctv=2  # commit, certain
        23 CompleteCommit(9,0) ctv=2     # pid_rotated, likely
        30 Ongoing(9,0) ctv=2""",
    ),
    "TV2 client commits at the last epoch, and the record contains the old producer id": (
        (NAMED,),
        """
        10 Ongoing(7,32766) ctv=2
        20 PrepareCommit(7,32767) ctv=2  # commit, certain
        23 CompleteCommit(9,0) ctv=2     # pid_rotated, certain
        30 Ongoing(9,0) ctv=2""",
    ),
    "TV2 client aborts at the last epoch and goes on": (
        (NAMED,),
        """
        10 Ongoing(7,32766) ctv=2
        20 PrepareAbort(7,32767) ctv=2   # client_abort, likely (at first client_abort, ambiguous)
        23 CompleteAbort(9,0) ctv=2      # pid_rotated, certain
        30 Ongoing(9,0) ctv=2""",
    ),
    "TV2 client fenced at the highest epoch, Kafka 4.3": (
        (NAMED,),
        """
        10 Ongoing(7,32766) ctv=2
        20 PrepareAbort(7,32767) ctv=2   # fenced, ambiguous (at first client_abort, ambiguous)
        23 CompleteAbort(9,0) ctv=2      # pid_rotated, certain
        120 Empty(9,1) ctv=2             # initialized, certain""",
    ),
    "TV2 client on Kafka before 4.3, timeout at the last epoch: no rotation": (
        (V1,),
        """
        10 Ongoing(7,32766) ctv=2
        60011 PrepareAbort(7,32767) ctv=2 # timeout, likely
        60014 CompleteAbort(7,32767) ctv=2
        61000 Empty(9,0) ctv=2            # pid_rotated, likely""",
    ),
    "epochs exhausted on Kafka before 4.3, and the new coordinator does not know the new producer id": (
        (V1,),
        """
        10 Ongoing(7,32766) ctv=2
        20 PrepareCommit(7,32767) ctv=2  # commit, certain
        900 CompleteCommit(7,32767) ctv=2
        1000 Empty(9,0) ctv=2            # pid_rotated, likely""",
    ),
    # administrators, recognised by the timeout that they leave
    "admin, clients 3.2 to 3.7.0": (
        (V0, V1),
        """
        10 Ongoing(7,0) timeout=60000
        20 PrepareAbort(7,1)          # admin, likely (at first fenced, ambiguous)
        23 CompleteAbort(7,1)
        120 Empty(7,2) timeout=1      # initialized, certain""",
    ),
    "admin, clients 3.7.1 and later, old client": (
        TV2_BROKERS,
        """
        10 Ongoing(7,0) timeout=120000
        20 PrepareAbort(7,1) ctv=2         # admin, likely (at first fenced, ambiguous)
        23 CompleteAbort(7,1) ctv=2
        120 Empty(7,2) ctv=2 timeout=30000 # initialized, certain""",
    ),
    "forced termination of a TV2 client": (
        TV2_BROKERS,
        """
        10 Ongoing(7,0) ctv=2 timeout=120000
        20 PrepareAbort(7,1) ctv=2         # admin, likely (at first client_abort, ambiguous)
        23 CompleteAbort(7,1) ctv=2
        120 Empty(7,2) ctv=2 timeout=30000 # initialized, certain""",
    ),
    "the admin API of a framework that starts the application at once": (
        ALL,
        """
        10 Ongoing(7,0) timeout=60000
        20 PrepareAbort(7,1)          # fenced, ambiguous
        23 CompleteAbort(7,1)
        120 Empty(7,2) timeout=30000  # initialized, certain
        420 Empty(7,3) timeout=60000  # initialized, certain""",
    ),
    "admin with the same timeout as the id": (
        ALL,
        """
        10 Ongoing(7,0) timeout=30000
        20 PrepareAbort(7,1)          # fenced, likely (at first fenced, ambiguous)
        23 CompleteAbort(7,1)
        120 Empty(7,2) timeout=30000  # initialized, certain""",
    ),
    # two-phase commit (KIP-939): the transaction never times out
    "2PC fenced after a month": (
        (NAMED,),
        """
        10 Ongoing(7,0) ctv=2 timeout=2147483647
        2592000010 PrepareAbort(7,1) ctv=2 # fenced, ambiguous (at first client_abort, ambiguous)
        2592000013 CompleteAbort(7,1) ctv=2
        2592000120 Empty(7,2) ctv=2        # initialized, certain""",
    ),
    "2PC recovered, then aborted": (
        (NAMED,),
        """
        10 Ongoing(7,100) ctv=2 timeout=2147483647
        500 PrepareAbort(7,102) ctv=2 # fenced, ambiguous (at first client_abort, ambiguous)
        503 CompleteAbort(7,102) ctv=2
        620 Empty(7,103) ctv=2        # initialized, certain""",
    ),
    "2PC recovered by an old client, which then aborts and goes on": (
        (NAMED,),
        """
        10 Ongoing(7,101) timeout=2147483647
        500 PrepareAbort(7,102) ctv=2 # client_abort, likely (at first client_abort, ambiguous)
        503 CompleteAbort(7,102) ctv=2
        620 Ongoing(7,102) ctv=2""",
    ),
    "2PC decided after a month": (
        (NAMED,),
        """
        10 Ongoing(7,0) ctv=2 timeout=2147483647
        2592000010 PrepareCommit(7,1) ctv=2 # commit, certain
        2592000013 CompleteCommit(7,1) ctv=2""",
    ),
}
CASES = [pytest.param(kind, text, id=f"{name} ({kind})") for name, (kinds, text) in ROWS.items() for kind in kinds]


@pytest.mark.parametrize(("kind", "text"), CASES)
def test_encoded_records_show_who_ended_a_transaction(kind: str, text: str) -> None:
    records, said = annotated(text)
    read = [golden._of(record) for batch in _batches(records, kind) for record in read_records(batch)]
    assert judgement(read) == said
    story = reported(read)
    assert [note for note in story.notes if "written again" not in note] == []
    assert story.counts.total() == sum(r.state == states.COMPLETE_ABORT for r in records) - _empty_aborts(read)


def _empty_aborts(records: list[LogRecord]) -> int:
    return sum(r.state == states.PREPARE_ABORT and not r.partition_count for r in records)


def _batches(records: list[LogRecord], kind: str) -> list[Batch]:
    data = b"".join(
        transaction_log.transition("id", r.offset, timestamp_ms=r.timestamp_ms, data=_value(before, r, kind))
        for before, r in zip([None, *records], records, strict=False)
    )
    return [batch for batch in read_batches(data) if isinstance(batch, Batch)]


def _value(before: LogRecord | None, record: LogRecord, kind: str) -> bytes | None:
    """Returns the encoded value of a record, or None for a tombstone. If `kind` is NAMED (brokers from 4.3 on), the
    value contains the previous producer id."""
    if record.state == states.EXPIRED:
        return None
    was = record.producer_id if before is None or before.producer_id == NO_ID else before.producer_id
    tags = transaction_log.tags(
        previous_producer_id=was if kind == NAMED else None,
        client_transaction_version=record.client_transaction_version or None,
    )
    return transaction_log.value(
        0 if kind == V0 else 1,
        producer_id=record.producer_id,
        producer_epoch=record.producer_epoch,
        timeout_ms=record.timeout_ms,
        status=record.state,
        topics=_topics(record),
        last_update_ms=record.last_update_ms,
        start_ms=record.start_ms,
        tagged=tags,
    )


def _topics(record: LogRecord) -> transaction_log.Topics | None:
    if record.state == states.EMPTY:
        return None
    return [("orders", list(range(record.partition_count)))] if record.partition_count else []
