"""A cluster whose brokers list no transaction log: recognised by open transactions, kept until the log appears."""

from __future__ import annotations

from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import NoTransactionLog, TransactionsSeen
from service.domain.source_state import SourceName
from service.domain.transaction_log import states
from service.domain.transaction_log.facts import LogBatch
from service.store.queries import clusters
from service.store.queries.clusters import StatusRow
from service.store.queries.pipeline import APPEARS_WITHIN_MS
from service.views.partitions import judged as judged_partitions
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS, batch, entry, read
from tests.service.store.looks import Watched, described, look
from tests.service.store.looks import entry as open_entry

OPEN = NoTransactionLog(TransactionsSeen.OPEN)
LISTED = NoTransactionLog(TransactionsSeen.LISTED)


def nothing_listed(cluster: Cluster, now_ms: int, trouble: Reason | None = None) -> StatusRow:
    """Stores that the brokers list no log at that time. Returns what is known of the log then."""
    cluster.writer.apply(LogBatch((), (), (), trouble), now_ms)
    with cluster.engine.connect() as connection:
        return clusters.statuses(connection, cluster.id)[SourceName.TRANSACTION_LOG]


def unread(cluster: Cluster) -> Reason | None:
    with cluster.engine.connect() as connection:
        return judged_partitions.log_unread_reason(connection, cluster.id)


def test_no_log_and_no_transaction_is_no_trouble(cluster: Cluster) -> None:
    assert nothing_listed(cluster, NOW_MS) == (SourceName.TRANSACTION_LOG, NOW_MS, None)
    assert unread(cluster) is None


def test_an_open_transaction_shows_that_there_will_be_no_log(cluster: Cluster) -> None:
    watched = Watched(cluster)
    watched.see(look(NOW_MS), described(NOW_MS, open_entry()))
    early_ms = NOW_MS + APPEARS_WITHIN_MS - 1
    assert nothing_listed(cluster, early_ms).error is None, "the first transaction has just created it"
    assert nothing_listed(cluster, early_ms + 1) == (SourceName.TRANSACTION_LOG, early_ms + 1, OPEN)
    assert unread(cluster) == OPEN
    watched.see(look(NOW_MS + 60_000, lso=110))
    assert watched.entries() == []
    assert nothing_listed(cluster, NOW_MS + 60_000).error == OPEN, "a sign does not end with its transaction"


def test_what_coordinators_list_is_kept_too_and_ends_when_the_log_appears(cluster: Cluster) -> None:
    assert nothing_listed(cluster, NOW_MS, LISTED) == (SourceName.TRANSACTION_LOG, NOW_MS, LISTED)
    assert nothing_listed(cluster, NOW_MS + 1_000) == (SourceName.TRANSACTION_LOG, NOW_MS + 1_000, LISTED)
    cluster.start({0: 0})
    cluster.writer.apply(batch([entry(0, states.ONGOING)], read(0, 1)), NOW_MS + 2_000)
    with cluster.engine.connect() as connection:
        assert clusters.statuses(connection, cluster.id)[SourceName.TRANSACTION_LOG].error is None
    assert unread(cluster) is None


def test_a_log_that_was_read_before_is_not_missing(cluster: Cluster) -> None:
    cluster.start({0: 0})
    watched = Watched(cluster)
    watched.see(look(NOW_MS), described(NOW_MS, open_entry()))
    assert nothing_listed(cluster, NOW_MS + 2 * APPEARS_WITHIN_MS).error is None
