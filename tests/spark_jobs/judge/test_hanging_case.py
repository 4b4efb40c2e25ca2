"""Tests of the judge's case of an open entry: the records that its producer may still write, and the facts that survive
a restart."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.findings.confirmation import EndsKnown, Unowned
from service.domain.findings.context import Context
from service.domain.findings.finding import Finding, RoundResult
from service.domain.findings.hanging import subject_of
from service.domain.findings.kinds import Kind
from service.domain.findings.lifecycle import reconcile
from service.domain.findings.rules import Rules
from service.domain.partitions.open_entries import Owner
from service.domain.reasons.hanging import HasGrown
from service.domain.transaction_log import states
from service.domain.worlds.facts import EntryQuery
from service.domain.worlds.verdict import Decided, Verdict, World, undecided
from spark_jobs.judge.hanging_case import FACTS_TAKE_MS, GROWN_AGAIN_MS, HangingCase
from spark_jobs.judge.new_cases import continue_without_log, recall
from spark_jobs.judge.resolution import observed
from tests.helpers.builders import transaction_log
from tests.service.domain.findings.builders import with_record
from tests.service.domain.findings.test_open_entries import ENTRY, NOW_MS, OWNER
from tests.service.domain.findings.test_open_entries import KNOWN as KNOWN_LOG
from tests.service.domain.worlds.test_decision import READINGS, verdict

IDLE = with_record(OWNER, state=states.COMPLETE_COMMIT)._replace(partitions=())
UNOWNED = Unowned(NOW_MS, EndsKnown(NOW_MS, {}), ())

KNOWN = Context(KNOWN_LOG, Rules())


def new(owner: Owner | None = IDLE) -> HangingCase:
    return HangingCase(
        ENTRY, owner, subject_of(ENTRY, owner), "T", None, (), 0, 120, high_watermark=130, begun_ms=NOW_MS
    )


def unowned(owner: Owner | None = IDLE) -> HangingCase:
    case = new(owner)
    case.confirmation = UNOWNED
    return case


def facts_of(case: HangingCase, now_ms: int = NOW_MS) -> EntryQuery:
    asked = case.facts_to_read(now_ms)
    assert asked is not None
    return asked


def stored(case: HangingCase) -> Finding:
    """Returns the finding of the case as a round of the judge would store it."""
    observation = observed(case, KNOWN, "broker:9092", NOW_MS)
    (change,) = reconcile({}, RoundResult((observation,), frozenset({Kind.HANGING})), NOW_MS, "cluster")
    return change.finding


def test_the_next_transaction_may_add_a_partition_that_was_listed_before() -> None:
    case = new()
    case.apply_verdict(verdict(World.COMMIT), facts_of(case), NOW_MS)
    assert case.decision.was_listed
    assert case.may_be_added(KNOWN, NOW_MS)


def test_an_owner_read_before_the_second_step_names_the_subject() -> None:
    case = new(None)
    case.note_owner(None, NOW_MS)
    assert case.subject.transactional_id is None
    case.note_owner(IDLE, NOW_MS)
    assert case.subject == subject_of(ENTRY, IDLE)
    case.note_owner(None, NOW_MS)
    assert case.owner == IDLE, "a known owner is kept, because its id may have expired meanwhile"


def test_the_subject_stays_the_same_once_it_may_have_a_finding() -> None:
    case = unowned(None)
    case.note_owner(IDLE, NOW_MS)
    assert case.subject == subject_of(ENTRY, None)


def test_a_contradiction_is_reported_once() -> None:
    case = unowned()
    facts = facts_of(case)
    assert case.apply_verdict(verdict(World.COMMIT), facts, NOW_MS)
    assert not case.apply_verdict(verdict(World.NONE), facts, NOW_MS)
    assert case.apply_verdict(verdict(World.NONE), facts, NOW_MS)


def test_a_decision_survives_a_restart_before_its_facts_are_read_again() -> None:
    before = unowned()
    before.apply_verdict(verdict(World.COMMIT), facts_of(before), NOW_MS)
    case = new()
    recall(case, stored(before))
    assert case.decision.verdict.decision == Decided.COMMIT
    case.confirmation = UNOWNED
    assert case.facts_to_read(NOW_MS) is not None, "after a restart the facts are read once more"
    assert case.decision.verdict.decision == Decided.COMMIT


ENDED = transaction_log.value(producer_id=7, producer_epoch=4, status=states.PREPARE_COMMIT, topics=[("orders", [3])])
GROWTH = {
    "TV2, and the owner has the epoch of the entry": with_record(IDLE, client_transaction_version=2, offset=56),
    "an ended transaction listed the partition": with_record(IDLE, offset=57)._replace(
        ended_offset=56, ended_state=states.PREPARE_COMMIT, ended_value=ENDED
    ),
}


def decided_as_none() -> HangingCase:
    case = unowned()
    case.apply_verdict(verdict(World.NONE), facts_of(case), NOW_MS)
    assert case.reported.decision == Decided.NONE
    return case


@pytest.mark.parametrize("owner", GROWTH.values(), ids=GROWTH)
def test_no_marker_is_advised_if_a_transaction_may_have_written_since(owner: Owner) -> None:
    case = decided_as_none()
    case.note_owner(owner, NOW_MS + 1)
    assert case.reported == undecided(HasGrown())
    assert observed(case, KNOWN, "broker:9092", NOW_MS + 1).bootstrap is None
    case.apply_verdict(verdict(World.COMMIT, World.NONE), facts_of(case, NOW_MS + 2), NOW_MS + 2)
    assert case.reported.decision == Decided.UNKNOWN, "the earlier decision covered fewer records, so it does not count"


def test_a_marker_is_advised_again_once_the_facts_are_read_again() -> None:
    case = decided_as_none()
    case.note_owner(GROWTH["an ended transaction listed the partition"], NOW_MS + 1)
    case.apply_verdict(verdict(World.NONE), facts_of(case, NOW_MS + 2), NOW_MS + 2)
    assert case.reported.decision == Decided.NONE
    assert case.facts_to_read(NOW_MS + 60_000) is None


def test_transactions_on_other_partitions_do_not_withdraw_a_marker() -> None:
    case = decided_as_none()
    elsewhere = transaction_log.value(producer_id=7, producer_epoch=4, topics=[("other", [0])])
    for number in range(1, 4):
        ended = IDLE._replace(ended_offset=55 + number, ended_state=states.PREPARE_COMMIT, ended_value=elsewhere)
        case.note_owner(with_record(ended, offset=56 + number), NOW_MS + number)
        assert case.reported.decision == Decided.NONE
    assert case.facts_to_read(NOW_MS + 60_000) is None


@pytest.mark.parametrize(
    "owner",
    [
        OWNER._replace(is_left_behind=True),
        with_record(OWNER, client_transaction_version=2)._replace(partitions=(("other", 0),)),
    ],
    ids=["the owner is left behind, and lists the partition", "TV2, and the owner has the epoch of the entry"],
)
def test_no_marker_is_advised_while_an_open_transaction_may_write(owner: Owner) -> None:
    case = decided_as_none()
    case.note_owner(with_record(owner, offset=56), NOW_MS + 1)
    case.apply_verdict(verdict(World.NONE), facts_of(case, NOW_MS + 2), NOW_MS + 2)
    assert case.reported == undecided(HasGrown())


@pytest.mark.parametrize(("transaction_version", "is_safe"), [(0, True), (1, True), (2, False), (None, False)])
def test_a_client_without_a_transaction_may_use_the_newest_version(
    transaction_version: int | None, is_safe: bool
) -> None:
    """The record that InitProducerId wrote has the transaction version of the previous client. Under TV2, the first
    transaction of the new client may write to the entry without listing the partition."""
    case = unowned(with_record(IDLE, state=states.EMPTY))
    case.apply_verdict(verdict(World.NONE), facts_of(case), NOW_MS)
    context = KNOWN._replace(transaction_version=transaction_version)
    found = observed(case, context, "broker:9092", NOW_MS)
    assert found.decision == Decided.NONE
    assert (found.bootstrap is not None) is is_safe


def test_a_higher_epoch_of_the_entry_shows_who_can_still_write() -> None:
    """A later writer of the producer id has written to the entry, so the entry's newest record has a higher epoch."""
    raised = with_record(IDLE, producer_epoch=IDLE.producer_epoch + 1, client_transaction_version=2)
    case = unowned(raised)
    case.apply_verdict(verdict(World.NONE), facts_of(case), NOW_MS)
    assert observed(case, KNOWN, "broker:9092", NOW_MS).bootstrap is not None
    case.note_newest(ENTRY._replace(producer_epoch=raised.producer_epoch))
    assert observed(case, KNOWN, "broker:9092", NOW_MS).bootstrap is None


def test_a_transaction_that_no_coordinator_knows_writes_nothing_more() -> None:
    """Every broker was asked before the case began. No coordinator knows the transaction, so its producer can write
    nothing more."""
    case = unowned(with_record(OWNER, client_transaction_version=2)._replace(is_left_behind=True))
    case.apply_verdict(verdict(World.NONE), facts_of(case), NOW_MS)
    assert case.reported.decision == Decided.NONE


def test_a_marker_from_before_a_restart_is_withdrawn_for_a_new_owner() -> None:
    """After a restart, the confirmation steps have to wait until the partition answers. If a new owner appears before
    that, the marker in the stored finding is not advised any more."""
    orphan = unowned(None)
    orphan.apply_verdict(verdict(World.NONE), facts_of(orphan), NOW_MS)
    case = new(None)
    recall(case, stored(orphan))
    assert not case.is_reportable(NOW_MS), "the stored finding is not replaced before new facts are known"
    case.note_owner(IDLE, NOW_MS + 1)
    assert case.is_reportable(NOW_MS + 1)
    assert case.reported == undecided(HasGrown())


def test_a_marker_from_before_a_restart_stays_for_the_same_owner() -> None:
    case = new(None)
    case.subject = subject_of(ENTRY, IDLE)
    recall(case, stored(decided_as_none()))
    case.note_owner(IDLE, NOW_MS + 1)
    assert case.reported.decision == Decided.NONE
    assert not case.is_reportable(NOW_MS + 1)


def recalled(owner: Owner, *, is_owner_late: bool) -> HangingCase:
    """Returns the case of an entry after a restart, with the decision NONE from before the restart. `owner`: the
    owner's newest state after the restart. `is_owner_late`: True if the owner is read only after the case has begun."""
    case = new(None if is_owner_late else owner)
    case.subject = subject_of(ENTRY, owner)
    recall(case, stored(decided_as_none()))
    case.note_owner(owner, NOW_MS + 1)
    return case


@pytest.mark.parametrize("is_owner_late", [False, True], ids=["owner known at once", "owner read later"])
@pytest.mark.parametrize("owner", GROWTH.values(), ids=GROWTH)
def test_a_marker_is_withdrawn_if_the_entry_may_have_grown_during_a_restart(owner: Owner, is_owner_late: bool) -> None:
    case = recalled(owner, is_owner_late=is_owner_late)
    assert case.is_reportable(NOW_MS + 1)
    assert case.reported == undecided(HasGrown())
    case.confirmation = UNOWNED
    case.apply_verdict(verdict(World.COMMIT, World.NONE), facts_of(case, NOW_MS + 2), NOW_MS + 2)
    assert case.reported.decision == Decided.UNKNOWN, "the decision from before the restart covered fewer records"


@pytest.mark.parametrize("is_owner_late", [False, True], ids=["owner known at once", "owner read later"])
def test_a_transaction_elsewhere_during_a_restart_does_not_withdraw_a_marker(is_owner_late: bool) -> None:
    elsewhere = transaction_log.value(producer_id=7, producer_epoch=4, topics=[("other", [0])])
    ended = IDLE._replace(ended_offset=56, ended_state=states.PREPARE_COMMIT, ended_value=elsewhere)
    case = recalled(with_record(ended, offset=57), is_owner_late=is_owner_late)
    assert case.reported.decision == Decided.NONE
    case.confirmation = UNOWNED
    case.apply_verdict(verdict(World.COMMIT, World.NONE), facts_of(case, NOW_MS + 2), NOW_MS + 2)
    assert case.reported.decision == Decided.NONE, "facts that were lost during the restart do not withdraw it either"


def test_a_marker_is_withdrawn_if_the_owner_moved_to_another_log_partition() -> None:
    """Partitions were added to the transaction log during a restart. Offsets in two log partitions do not show which
    record is newer, so the owner's last ended transaction may be new."""
    moved = GROWTH["an ended transaction listed the partition"]._replace(log_partition=IDLE.log_partition + 1)
    case = recalled(with_record(moved._replace(ended_offset=3), offset=4), is_owner_late=False)
    assert case.reported == undecided(HasGrown())


@pytest.mark.parametrize("restarts", [1, 2])
@pytest.mark.parametrize(("owner", "is_safe"), [(with_record(IDLE, producer_epoch=5), True), (IDLE, False)])
def test_the_command_stays_withheld_after_a_restart_without_the_log(owner: Owner, is_safe: bool, restarts: int) -> None:
    """Without the log, nothing shows whether the owner wrote to the entry during the restart. An owner that could write
    to the entry before may have done so."""
    case = unowned(with_record(owner, client_transaction_version=2))
    case.apply_verdict(verdict(World.NONE), facts_of(case), NOW_MS)
    for _ in range(restarts):
        finding, case = stored(case), unowned(None)
        recall(case, finding)
        case.subject = finding.subject
        continue_without_log(case)
    found = observed(case, KNOWN, "broker:9092", NOW_MS)
    assert found.decision == Decided.NONE
    assert (found.bootstrap is not None) is is_safe


def test_the_facts_of_an_entry_with_a_newer_record_are_read_again() -> None:
    case = decided_as_none()
    case.note_newest(ENTRY._replace(last_timestamp_ms=ENTRY.last_timestamp_ms + 1))
    assert case.facts_to_read(NOW_MS + GROWN_AGAIN_MS - 1) is None
    asked = facts_of(case, NOW_MS + GROWN_AGAIN_MS)
    assert asked.newest_ms == ENTRY.last_timestamp_ms + 1
    case.apply_verdict(verdict(World.COMMIT, World.NONE), asked, NOW_MS + GROWN_AGAIN_MS)
    assert case.reported.decision == Decided.UNKNOWN


@given(st.lists(st.tuples(READINGS, st.booleans(), st.booleans(), st.booleans()), max_size=12))
def test_an_abort_never_follows_a_commit(readings: Sequence[tuple[Verdict, bool, bool, bool]]) -> None:
    """A case advises ABORT (if its decision is abort or none), COMMIT, or no marker. A case that once advised COMMIT
    never advises ABORT, whatever is read, even over restarts, without the transaction log, and if the entry grows. The
    reverse is true as well, as long as the entry does not grow and the log can be read."""
    case = unowned()
    markers = []
    for number, (found, is_restart, has_log, has_grown) in enumerate(readings):
        if is_restart or has_log != case.has_log:
            finding, case = stored(case), unowned()
            recall(case, finding)
            if not has_log:
                continue_without_log(case)
        if has_grown and has_log:
            case.note_owner(with_record(IDLE, client_transaction_version=2, offset=56 + number), NOW_MS)
        if (facts := case.facts_to_read(NOW_MS)) is not None:
            case.apply_verdict(found, facts, NOW_MS)
        markers.append({"commit": "COMMIT", "unknown": None}.get(stored(case).observation.decision or "", "ABORT"))
    advised = [marker for marker in markers if marker is not None]
    may_have_grown = any(has_grown or not has_log for _, _, has_log, has_grown in readings)
    assert advised == sorted(advised) if may_have_grown else len(set(advised)) <= 1


def test_an_entry_remembered_with_a_name_is_not_judged_as_an_orphan() -> None:
    case = unowned(None)
    assert case.facts_to_read(NOW_MS) is not None
    case.subject = subject_of(ENTRY, IDLE)
    assert case.facts_to_read(NOW_MS) is None


def test_an_orphan_is_judged_only_once_no_transaction_can_end_it() -> None:
    assert new(None).facts_to_read(NOW_MS) is None


@pytest.mark.parametrize(
    "owner",
    [
        None,
        with_record(IDLE, producer_epoch=5),
        with_record(IDLE, producer_id=8),
        with_record(IDLE, state=states.EXPIRED),
    ],
)
def test_a_superseded_producer_adds_no_partition(owner: Owner | None) -> None:
    assert not new(owner).may_be_added(KNOWN, NOW_MS)


def test_a_producer_past_its_timeout_adds_no_partition() -> None:
    assert not new().may_be_added(KNOWN, ENTRY.first_seen_ms + IDLE.record.timeout_ms + KNOWN_LOG.limits.scan_ms + 1)


@pytest.mark.parametrize(("stood_for_ms", "was_there_for_ms"), [(None, 0), (500, 500), (-1_000, 0)])
def test_an_entry_at_the_lso_is_as_old_as_the_stall(stood_for_ms: int | None, was_there_for_ms: int) -> None:
    case = new()
    case.stalled_since_ms = None if stood_for_ms is None else ENTRY.first_seen_ms - stood_for_ms
    assert case.there_since_ms == ENTRY.first_seen_ms - was_there_for_ms


def test_a_finding_waits_until_its_facts_are_read_or_refused() -> None:
    """A slow machine may need two seconds to read the facts. A finding that did not wait would name the owner by the
    producer id alone."""
    case = unowned()
    assert not case.is_reportable(NOW_MS + FACTS_TAKE_MS - 1)
    assert case.is_reportable(NOW_MS + FACTS_TAKE_MS)
    case.is_without_facts = True
    assert case.is_reportable(NOW_MS)
    case = unowned()
    case.apply_verdict(verdict(World.ABORT), facts_of(case), NOW_MS)
    assert case.is_reportable(NOW_MS)
