"""Tests sequences of steps on the model. In some of them, a simple rule, such as to take the last decision of the id,
would lead to the wrong marker."""

from __future__ import annotations

import pytest

from service.domain.reasons.hanging import ForeignRecords, ForeignSign, RecordsGone, UnlistedWriter
from service.domain.worlds.verdict import Decided, Verdict, World
from tests.worlds.cluster import JUDGED, OTHER, Answered, Cluster, Protocol, Txn
from tests.worlds.observer import Observer, open_entries, verdict, verdict_without_owner

PROTOCOLS = list(Protocol)


class Story:
    """A cluster that skips markers, and whose steps a test chooses one by one. Every request succeeds. The clocks of
    coordinator, leader and client are wrong by the same amount."""

    def __init__(self, protocol: Protocol, seed: int = 1) -> None:
        self.cluster = Cluster(Answered(seed), protocol, can_skip=True)
        self.observer = Observer(self.cluster)

    def watch(self) -> Story:
        self.observer.start()
        return self.look()

    def look(self) -> Story:
        """Takes four rounds of samples. Everything that exists when it is called existed before the last round."""
        for _ in range(4):
            self.observer.sample_log()
            self.observer.sample_partition()
        return self

    def init(self) -> Story:
        assert self.cluster.init_producer()
        return self

    def begin(self, *partitions: str) -> Txn:
        """Begins a transaction, adds the partitions to it, and writes to JUDGED if it is one of them."""
        txn = self.cluster.begin()
        assert txn is not None
        for partition in partitions:
            assert self.cluster.add(partition)
            if partition == JUDGED:
                assert self.cluster.write(txn.producer_id, txn.epoch, txn)
        self.cluster.wait(50)
        return txn

    def end(self, *, is_commit: bool) -> Story:
        assert self.cluster.end(is_commit=is_commit)
        self.cluster.send_markers()
        self.cluster.wait(50)
        return self

    def end_without_marker(self, *, is_commit: bool) -> Story:
        """Begins and ends a transaction. Its marker is skipped, because the partition has no leader."""
        self.begin(JUDGED)
        self.cluster.lose_leader()
        self.end(is_commit=is_commit)
        self.cluster.elect_leader()
        return self

    def end_by_old_request(self, *, is_commit: bool) -> Story:
        """Ends the open transaction while the partition has no leader. The marker is skipped, and the epoch stays."""
        self.cluster.lose_leader()
        assert self.cluster.end(is_commit=is_commit, by_old_request=True)
        self.cluster.send_markers()
        self.cluster.elect_leader()
        return self

    def write_late(self) -> Story:
        """Writes a batch that belongs to no transaction, under the id's newest epoch."""
        assert self.cluster.write(self.cluster.producer_id, self.cluster.epoch, None)
        return self

    def expire_and_clean(self) -> None:
        self.cluster.expire()
        for record in self.cluster.log:
            record.is_removed = True

    def copy(self, epoch: int, age_ms: int, sequence: int) -> None:
        """Appends a batch of another cluster, under the producer id that this cluster will assign next."""
        assert self.cluster.write(self.cluster.next_producer_id, epoch, None)
        copied = self.cluster.data[-1]
        copied.is_foreign, copied.sequence, copied.timestamp_ms = True, sequence, copied.timestamp_ms - age_ms

    def judged_without_owner(self) -> Verdict:
        ((_, batches),) = open_entries(self.cluster).items()
        return verdict_without_owner(self.cluster, batches)

    def judged(self, markers_from: int = 0) -> Verdict:
        self.observer.is_running = True
        ((producer_id, batches),) = open_entries(self.cluster).items()
        return verdict(self.cluster, self.observer, producer_id, batches, markers_from)


def foreign_sign(found: Verdict) -> ForeignSign:
    """Asserts that the decision is UNKNOWN because the entry comes from another cluster. Returns the sign of its
    origin."""
    assert found.decision == Decided.UNKNOWN
    assert isinstance(found.open_question, ForeignRecords)
    return found.open_question.sign


def _skipped_commit(protocol: Protocol, *, is_watched: bool) -> Story:
    """Returns a story with a transaction that commits while the partition has no leader, so that the marker is
    skipped."""
    story = Story(protocol).init()
    if is_watched:
        story.watch()
    story.begin(JUDGED, OTHER)
    story.look()
    story.cluster.lose_leader()
    story.end(is_commit=True)
    return story


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("is_watched", [True, False])
def test_a_skipped_commit_is_committed(protocol: Protocol, is_watched: bool) -> None:
    story = _skipped_commit(protocol, is_watched=is_watched)
    story.cluster.elect_leader()
    found = story.look().judged()
    assert found.possible == {World.COMMIT}
    assert found.decision == Decided.COMMIT


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("is_watched", [True, False])
def test_a_later_timed_out_transaction_does_not_hide_the_skipped_commit(protocol: Protocol, is_watched: bool) -> None:
    """During the outage, the next transaction lists the partition, but cannot write to it. The ABORT marker of this
    transaction is skipped, too."""
    story = _skipped_commit(protocol, is_watched=is_watched)
    assert story.cluster.begin() is not None
    assert story.cluster.add(JUDGED)
    story.look()
    story.cluster.wait(60_000)
    story.cluster.time_out()
    story.cluster.send_markers()
    story.cluster.elect_leader()
    found = story.look().judged()
    # under TV2 the epoch proves the order; under the old protocol only a sample from before the outage proves it
    is_known = is_watched or protocol is Protocol.TV2
    assert found.decision == (World.COMMIT if is_known else Decided.UNKNOWN)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_later_commit_elsewhere_changes_nothing(protocol: Protocol) -> None:
    story = _skipped_commit(protocol, is_watched=False)
    story.cluster.elect_leader()
    story.begin(OTHER)
    story.end(is_commit=True)
    assert story.look().judged().decision == Decided.COMMIT


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_remains_of_a_later_commit_are_not_taken_for_the_earlier_abort(protocol: Protocol) -> None:
    """Transaction N aborts, and its marker is written. N+1 commits, and its marker is skipped. Of N+1, compaction
    leaves only CompleteCommit."""
    story = Story(protocol).init()
    story.begin(JUDGED)
    story.end(is_commit=False)
    story.end_without_marker(is_commit=True)
    for record in story.cluster.log[-3:-1]:
        record.is_removed = True
    found = story.judged()
    assert World.COMMIT in found.possible
    assert found.decision in (Decided.UNKNOWN, World.COMMIT)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_on_a_cleaned_log_a_producer_id_without_records_may_have_committed(protocol: Protocol) -> None:
    story = _skipped_commit(protocol, is_watched=False)
    story.cluster.elect_leader()
    story.expire_and_clean()
    found = story.judged()
    assert found.decision == Decided.UNKNOWN
    assert isinstance(found.open_question, RecordsGone)


def test_an_orphan_belongs_to_nothing_if_the_whole_log_was_read() -> None:
    story = Story(Protocol.OLD).init()
    story.cluster.write(77, 0, None)
    assert story.judged().possible == {World.NONE}


def test_an_orphan_belongs_to_nothing_if_no_sign_shows_that_it_was_copied() -> None:
    story = Story(Protocol.OLD)
    story.cluster.write(77, 0, None)
    assert story.judged_without_owner().possible == {World.NONE}


def test_an_orphan_after_an_abort_by_hand_belongs_to_nothing() -> None:
    story = Story(Protocol.OLD)
    story.cluster.write(77, 0, None)
    story.cluster.append_marker(77, 0, is_commit=False)
    story.cluster.write(77, 0, None)
    assert story.judged_without_owner().possible == {World.NONE}


def test_an_orphan_of_a_later_leader_epoch_was_copied() -> None:
    story = Story(Protocol.OLD)
    story.cluster.write(77, 0, None)
    story.cluster.data[-1].leader_epoch = 9
    found = story.judged_without_owner()
    assert foreign_sign(found) == ForeignSign.LEADER_EPOCH


def test_an_orphan_that_begins_in_the_middle_of_its_sequence_was_copied() -> None:
    story = Story(Protocol.OLD)
    story.copy(0, 0, 5)
    found = story.judged_without_owner()
    assert foreign_sign(found) == ForeignSign.SEQUENCE


def test_an_orphan_behind_a_commit_of_its_producer_id_was_copied() -> None:
    """The producer id belongs to no transactional.id, but has a COMMIT marker. A coordinator writes COMMIT only for a
    transactional.id in its log."""
    story = Story(Protocol.OLD)
    story.cluster.write(77, 0, None)
    story.cluster.append_marker(77, 0, is_commit=True)
    story.cluster.write(77, 0, None)
    found = story.judged_without_owner()
    assert foreign_sign(found) == ForeignSign.COMMITTED


def test_an_orphan_after_a_sample_belongs_to_nothing_despite_compaction() -> None:
    story = Story(Protocol.OLD).init()
    story.expire_and_clean()
    story.watch()
    story.cluster.write(77, 0, None)
    assert story.look().judged().possible == {World.NONE}


@pytest.mark.parametrize("is_expired", [True, False])
def test_a_late_write_after_its_marker_belongs_to_nothing(is_expired: bool) -> None:
    story = Story(Protocol.OLD).init()
    story.begin(JUDGED)
    story.end(is_commit=True)
    txn = story.begin(JUDGED)
    story.end(is_commit=False)
    assert story.cluster.write(txn.producer_id, txn.epoch, txn)
    if is_expired:
        story.cluster.expire()
    assert story.judged().possible == {World.NONE}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("is_expired", [True, False])
def test_records_on_a_partition_never_added_belong_to_nothing(protocol: Protocol, is_expired: bool) -> None:
    story = Story(protocol).init()
    story.begin(OTHER)
    story.end(is_commit=True)
    story.write_late()
    if is_expired:
        story.cluster.expire()
    assert story.judged().possible == {World.NONE}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_skipped_abort_loses_nothing(protocol: Protocol) -> None:
    story = Story(protocol).init()
    story.end_without_marker(is_commit=False)
    found = story.judged()
    assert (found.decision, World.COMMIT in found.possible) == (Decided.ABORT, False)


def test_equal_markers_far_apart_are_of_two_transactions() -> None:
    """Two commits under one epoch leave two equal markers. Two copies of one marker would be closer in time."""
    story = Story(Protocol.OLD).init()
    for _ in range(2):
        story.begin(JUDGED)
        story.end(is_commit=True)
    assert story.write_late().judged().possible == {World.NONE}


def test_a_marker_that_may_be_a_copy_proves_nothing() -> None:
    """The coordinator moves while it sends the marker of the first commit, and the new coordinator sends the marker
    again. So the second marker on the partition may be a copy of the first one, and the marker of the second commit may
    have been skipped."""
    story = Story(Protocol.OLD).init()
    story.begin(JUDGED)
    story.cluster.end(is_commit=True)
    txn = story.cluster.txn
    assert txn is not None
    story.cluster.append_marker(txn.producer_id, txn.epoch, is_commit=True)
    story.cluster.move_coordinator()
    story.cluster.send_markers()
    story.end_without_marker(is_commit=True)
    assert World.COMMIT in story.judged().possible


def test_records_written_right_after_a_marker_belong_to_nothing() -> None:
    """The newest sample without the late record read the transaction log before PrepareCommit, but the partition only
    after the marker. This sample must prove nothing."""
    story = Story(Protocol.OLD).watch().init()
    for _ in range(2):
        story.look()
        story.begin(JUDGED)
        story.look()
        story.observer.sample_log()
        story.end(is_commit=True)
        story.observer.sample_partition()
    assert story.write_late().look().judged().possible == {World.NONE}


def test_an_offset_range_that_was_not_read_may_contain_a_marker() -> None:
    """If the COMMIT marker was read, a late write after the marker is no part of the committed transaction. If the
    marker was not read, the late write may be a part of the transaction."""
    story = Story(Protocol.OLD).init()
    story.begin(JUDGED)
    story.end(is_commit=True)
    assert story.write_late().judged(markers_from=1).possible == {World.NONE}
    assert story.judged(markers_from=2).possible == {World.COMMIT, World.NONE}


def test_a_marker_of_an_older_epoch_proves_that_newer_ones_were_read() -> None:
    """At the first start, with a long partition, a skipped COMMIT can be proven without reading the whole partition."""
    story = Story(Protocol.TV2).init()
    story.begin(JUDGED)
    story.end(is_commit=True)
    story.end_without_marker(is_commit=True)
    assert story.judged(markers_from=1).possible == {World.COMMIT}
    assert story.judged(markers_from=2).possible == {World.COMMIT, World.NONE}


def _two_under_one_epoch(*, first_commits: bool, second_commits: bool) -> Story:
    """Returns a story of TV2 with two transactions under one epoch. EndTxn of the old protocol ends the first
    transaction, so the epoch stays. The marker of the first transaction is skipped. The second transaction therefore
    writes to the partition without listing it. EndTxn of TV2 ends the second transaction."""
    story = Story(Protocol.TV2).init()
    story.begin(JUDGED, OTHER)
    story.end_by_old_request(is_commit=first_commits)
    second = story.begin(OTHER, JUDGED)
    assert second.listed == {OTHER}
    return story.end(is_commit=second_commits)


def test_a_transaction_may_have_written_to_a_partition_it_did_not_list() -> None:
    found = _two_under_one_epoch(first_commits=False, second_commits=True).judged()
    assert found.decision == Decided.UNKNOWN
    assert found.open_question == UnlistedWriter(is_committed=True, holds_committed=False)


def test_committed_records_before_those_of_an_aborted_one_are_reported() -> None:
    found = _two_under_one_epoch(first_commits=True, second_commits=False).judged()
    assert found.decision == Decided.UNKNOWN
    assert found.holds_committed
    assert "holds records of a committed transaction" in str(found.open_question)


def test_an_open_unlisted_transaction_may_still_commit() -> None:
    story = Story(Protocol.TV2).init()
    story.begin(JUDGED)
    story.end_by_old_request(is_commit=False)
    assert story.judged().decision == Decided.ABORT
    story.begin(OTHER, JUDGED)
    found = story.judged()
    assert found.open_question == UnlistedWriter(is_committed=None, holds_committed=False)
    assert found.overrules


def test_a_client_may_have_begun_again_after_a_commit_of_the_entrys_epoch() -> None:
    """Under TV2, the leader does not add the partition to the next transaction while the entry is open. So if the next
    transaction has written only to this partition, it is not in the transaction log yet."""
    story = Story(Protocol.TV2).init()
    story.begin(JUDGED)
    story.end_by_old_request(is_commit=True)
    assert story.judged().possible == {World.COMMIT}
    assert not story.begin(JUDGED).listed
    assert story.judged().possible == {World.COMMIT, World.NONE}


def test_a_new_coordinators_watermark_hides_no_marker() -> None:
    """Two transactions commit. The marker of the first is skipped, and the marker of the second ends the records of
    both. Then the coordinator moves. The high watermark that the new coordinator shows is still below both
    decisions."""
    story = Story(Protocol.OLD).init().end_without_marker(is_commit=True)
    story.begin(JUDGED)
    story.end(is_commit=True)
    story.cluster.move_coordinator(log_watermark_lags=5)
    found = story.watch().write_late().look().judged()
    assert World.NONE in found.possible
    assert found.decision == Decided.UNKNOWN


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_recreated_topic_has_no_records_of_earlier_commits(protocol: Protocol) -> None:
    story = Story(protocol).init()
    story.begin(JUDGED)
    story.end(is_commit=True)
    story.cluster.data.clear()
    story.cluster.wait(60_000)
    story.write_late()
    found = story.judged()
    assert not found.holds_committed
    assert World.NONE in found.possible


def test_a_single_batch_belongs_to_a_transaction_that_lists_the_partition() -> None:
    """Under TV2, the leader adds the partition to the transaction unless the partition has an open entry. So the only
    batch of an entry can only belong to a transaction that lists the partition."""
    story = Story(Protocol.TV2).init()
    story.begin(OTHER)
    assert story.cluster.end(is_commit=True, by_old_request=True)
    story.cluster.send_markers()
    assert story.write_late().judged().possible == {World.NONE}


def test_a_client_of_the_old_protocol_lists_its_partitions() -> None:
    story = Story(Protocol.OLD).init()
    story.begin(JUDGED)
    story.cluster.lose_leader()
    story.end(is_commit=False)
    story.cluster.elect_leader()
    story.write_late()
    story.begin(OTHER)
    story.end(is_commit=True)
    assert World.COMMIT not in story.judged().possible


def test_a_lost_commit_marker_has_to_be_written_again() -> None:
    """A leader from an unclean election lacks the COMMIT marker, so a COMMIT has to be written."""
    story = Story(Protocol.TV2).init()
    story.begin(JUDGED)
    story.end(is_commit=True)
    story.cluster.lose_markers()
    assert story.judged().decision == Decided.COMMIT


@pytest.mark.parametrize(
    ("epoch", "age_ms", "sequence", "sign"),
    [(3, 0, 0, ForeignSign.EPOCH), (0, 3_600_000, 0, ForeignSign.OLDER), (0, 0, 5, ForeignSign.SEQUENCE)],
)
def test_records_copied_from_another_cluster_have_no_owner(
    epoch: int, age_ms: int, sequence: int, sign: ForeignSign
) -> None:
    """The records are copies from another cluster. Later, this cluster assigns their producer id to one of its ids."""
    story = Story(Protocol.OLD)
    story.copy(epoch, age_ms, sequence)
    found = story.init().judged()
    assert foreign_sign(found) == sign


@pytest.mark.parametrize("protocol", [Protocol.OLD, Protocol.TV2])
def test_copied_records_are_recognised_after_compaction(protocol: Protocol) -> None:
    """Compaction leaves only the record by which the id got the epoch: the record of InitProducerId (old protocol), or
    the end of the previous transaction (TV2)."""
    story = Story(protocol)
    story.copy(1, 3_600_000, 0)
    story.init()
    if protocol is Protocol.OLD:
        story.init()
    else:
        story.begin(OTHER)
        story.end(is_commit=True)
    story.cluster.clean(len(story.cluster.log))
    found = story.judged()
    assert foreign_sign(found) == ForeignSign.OLDER


def test_records_older_than_their_producer_id_have_no_owner() -> None:
    """Samples prove that the records are older than the assignment of the producer id, whatever the timestamps are."""
    story = Story(Protocol.OLD).watch()
    story.copy(0, 0, 0)
    found = story.look().init().judged()
    assert foreign_sign(found) == ForeignSign.ORDER


def test_an_old_timestamp_alone_does_not_prove_a_copied_record() -> None:
    """A record with an old timestamp need not be a copied one. The id may have listed the partition, or samples may
    show that the record is new."""
    listed = Story(Protocol.OLD).init()
    listed.begin(JUDGED)
    listed.end(is_commit=False)
    listed.write_late()
    listed.cluster.data[-1].timestamp_ms -= 3_600_000
    assert listed.judged().possible == {World.NONE}
    seen = Story(Protocol.OLD).init().watch()
    seen.write_late()
    seen.cluster.data[-1].timestamp_ms -= 3_600_000
    assert seen.look().judged().possible == {World.NONE}
