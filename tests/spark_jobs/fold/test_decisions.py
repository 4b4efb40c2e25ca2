"""The decisions of coordinators, out of the bytes of the transaction log and to the driver."""

from __future__ import annotations

import pyarrow as pa

from service.domain.transaction_log import states
from service.domain.transaction_log.facts import Decided, Participants, RangeRead
from service.wire.columns import Chunk, decode
from spark_jobs.fold.rows import batches_from_rows, reads_to_rows, rows_of
from spark_jobs.fold.transitions import decisions
from tests.helpers.builders.transaction_log import transition, value

OPEN = (states.ONGOING, states.PREPARE_COMMIT, states.PREPARE_ABORT)
PLACES = [("orders", [0, 3]), ("pay", [1])]
READ = RangeRead(2, "topic", 0, 0, 9, 1, 2, 0, 9, 1_000, 9, 900, None)


def test_each_decision_with_its_partitions_arrives_and_no_other_record() -> None:
    log = b"".join(
        transition(b"pay", n, timestamp_ms=n, data=value(status=state, topics=PLACES if state in OPEN else None))
        for n, state in enumerate((0, 1, 2, 4, 1, 3, 5))
    )
    columns = decode([Chunk(2, 0, 9, log)])
    rows = [rows_of("decided", decisions(columns, {2})), rows_of("decided", decisions(columns, {1}))]
    (found,) = batches_from_rows(pa.Table.from_batches([*rows, reads_to_rows([READ])]))
    participants = (Participants("orders", (0, 3)), Participants("pay", (1,)))
    assert [one._replace(start_ms=0) for one in found.decided] == [
        Decided(2, offset, b"pay", state, 4001, 7, 0, offset, participants)
        for offset, state in ((2, states.PREPARE_COMMIT), (5, states.PREPARE_ABORT))
    ]
