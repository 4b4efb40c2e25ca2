"""Tests of the cause of an abort as derived from the records alone: from their tags, epochs and times, and from the
records that follow."""

from __future__ import annotations

import pytest

from service.domain.transaction_log.journal import NO_ABORT, judge
from tests.service.domain.records import judged, log, pairs, reported

T = 60_000
OLD, TV2 = "", "ctv=2"
# tags of the Ongoing and of the PrepareAbort; a v0 value has no tags
OLD_BROKER = (OLD, OLD)
OLD_CLIENT = (OLD, TV2)
TV2_CLIENT = (TV2, TV2)


def aborted(tags: tuple[str, str], bump: int, dur: int, then: str = "", *, epoch: int = 5, timeout: int = T) -> str:
    """Judges an abort `dur` ms after the start of its transaction, and the records in `then`, which follow the abort.
    Returns the cause and the confidence of the newest abort, which may be one in `then`."""
    after = epoch + bump
    return reported(f"""
        1000 Ongoing(7,{epoch}) timeout={timeout} {tags[0]}
        {1000 + dur} PrepareAbort(7,{after}) {tags[1]}
        {1003 + dur} CompleteAbort(7,{after}) {tags[1]}
        {then}""").abort


@pytest.mark.parametrize(
    ("tags", "bump", "dur", "cause"),
    [
        pytest.param(OLD_BROKER, 0, 500, "client_abort likely", id="old protocol: epoch stays"),
        pytest.param(
            OLD_BROKER, 0, T + 1, "client_abort likely", id="old protocol: epoch stays, even after the timeout"
        ),
        pytest.param(OLD_BROKER, 1, T + 1, "timeout likely", id="old protocol, after the timeout"),
        pytest.param(OLD_BROKER, 1, T, "fenced ambiguous", id="old protocol, exactly at the timeout"),
        pytest.param(OLD_BROKER, 1, 500, "fenced ambiguous", id="old protocol, coordinator, in time"),
        pytest.param(OLD_BROKER, 2, 500, "unattributed ambiguous", id="old protocol never bumps twice"),
        pytest.param(OLD_CLIENT, 1, T + 1, "timeout likely", id="old client on TV2, after the timeout"),
        pytest.param(OLD_CLIENT, 1, 500, "fenced ambiguous", id="old client on TV2, in time"),
        pytest.param(OLD_CLIENT, 2, T + 1, "timeout likely", id="old client on 4.0.0, after the timeout"),
        pytest.param(OLD_CLIENT, 2, 500, "fenced ambiguous", id="old client on 4.0.0, in time"),
        pytest.param(OLD_CLIENT, 0, 500, "unattributed ambiguous", id="TV2 coordinator always bumps"),
        pytest.param(TV2_CLIENT, 1, T + 1, "timeout likely", id="TV2, after the timeout: probable"),
        pytest.param(TV2_CLIENT, 1, T, "client_abort ambiguous", id="TV2, in time: any cause"),
        pytest.param(TV2_CLIENT, 2, T + 1, "timeout likely", id="4.0.0, after the timeout"),
        pytest.param(TV2_CLIENT, 2, 500, "fenced ambiguous", id="4.0.0, in time"),
        pytest.param(TV2_CLIENT, 0, 500, "unattributed ambiguous", id="TV2, but the epoch stays"),
        pytest.param(TV2_CLIENT, 3, 500, "unattributed ambiguous", id="records are missing"),
        pytest.param(TV2_CLIENT, -1, 500, "unattributed ambiguous", id="the epoch falls"),
        pytest.param((TV2, OLD), 1, 500, "client_abort ambiguous", id="TV2 transaction, cluster went back to v0"),
        pytest.param((TV2, OLD), 0, 500, "client_abort likely", id="TV2 transaction, ended by the old protocol"),
        pytest.param(TV2_CLIENT, 1, 2_592_000_000, "timeout likely", id="a month"),
    ],
)
def test_epochs_and_times_show_the_cause_of_an_abort(tags: tuple[str, str], bump: int, dur: int, cause: str) -> None:
    assert aborted(tags, bump, dur) == cause


@pytest.mark.parametrize("tags", [OLD_BROKER, OLD_CLIENT, TV2_CLIENT])
def test_a_two_phase_transaction_never_times_out(tags: tuple[str, str]) -> None:
    month = 2_592_000_000
    assert "timeout" not in aborted(tags, 1, month, timeout=2_147_483_647)


def test_an_old_client_is_fenced_or_forced_out_at_the_last_epoch() -> None:
    assert aborted(OLD_BROKER, 1, 500, epoch=32_766) == "fenced ambiguous"
    assert aborted(OLD_CLIENT, 1, T + 1, epoch=32_766) == "timeout likely"
    assert aborted(OLD_CLIENT, 1, 500, epoch=32_767 - 1) == "fenced ambiguous"
    assert (
        aborted(TV2_CLIENT, 0, 500, epoch=32_767) == "unattributed ambiguous"
    )  # brokers up to 4.2 write such records, because of a bug


SOON, LATE = 1600, 1503 + 3_001
A_FENCE = [
    # the records that follow, the cause after a TV2 client's epoch + 1, the cause after the coordinator's own abort
    pytest.param("", "client_abort ambiguous", "fenced ambiguous", id="nothing"),
    pytest.param(f"{SOON} Empty(7,7)", "fenced ambiguous", "fenced likely", id="Empty, same timeout"),
    pytest.param(f"{SOON} Empty(9,0)", "fenced ambiguous", "fenced likely", id="Empty under a new producer id"),
    pytest.param(f"{SOON} Empty(7,7) timeout=45000", "fenced ambiguous", "fenced likely", id="Empty, other timeout"),
    pytest.param(f"{SOON} Empty(7,7) timeout=30000", "admin likely", "admin likely", id="admin of 3.7.1 and later"),
    pytest.param(f"{SOON} Empty(7,7) timeout=1", "admin likely", "admin likely", id="admin of 3.2 to 3.7.0"),
    pytest.param(f"{SOON} Empty(7,6)", "client_abort likely", "client_abort likely", id="Empty for the same producer"),
    pytest.param(
        f"{LATE} Empty(7,6)", "client_abort likely", "fenced ambiguous", id="Empty for the same producer, but later"
    ),
    pytest.param(
        f"{SOON} Empty(7,7) timeout=30000\n{SOON + 300} Empty(7,8) timeout=60000",
        "fenced ambiguous",
        "fenced ambiguous",
        id="admin API, and the application starts at once",
    ),
    pytest.param(
        f"{SOON} Empty(7,7) timeout=45000\n{SOON + 300} Empty(7,8) timeout=60000",
        "fenced ambiguous",
        "fenced likely",
        id="a timeout that no admin API has, and the application starts at once",
    ),
    pytest.param(
        f"{SOON} Empty(7,7) timeout=30000\n{SOON + 10_000} Empty(7,8) timeout=60000",
        "admin likely",
        "admin likely",
        id="admin, and the application later",
    ),
    pytest.param(
        f"{SOON} Empty(7,7) timeout=30000\n{SOON + 300} Empty(7,8) timeout=1",
        "admin likely",
        "admin likely",
        id="two admins",
    ),
    pytest.param(
        f"{SOON} Empty(7,7) timeout=30000\n{SOON + 300} tombstone", "admin likely", "admin likely", id="admin, gone"
    ),
    pytest.param(
        f"{SOON} Empty(7,7) timeout=30000\n{SOON + 300} Ongoing(7,7)",
        "fenced ambiguous",
        "fenced ambiguous",
        id="an application with an administrator's timeout: the admin API begins no transaction",
    ),
    pytest.param(
        f"{SOON} Empty(7,7) timeout=30000\n{SOON + 300} Ongoing(7,6)",
        "admin likely",
        "admin likely",
        id="admin, and somebody else begins",
    ),
    pytest.param(
        f"{SOON} Empty(7,7) timeout=30000\n{SOON + 10_000} Ongoing(7,7)",
        "admin likely",
        "admin likely",
        id="an application with an administrator's timeout that begins later",
    ),
    pytest.param(f"{LATE} Empty(7,7)", "client_abort ambiguous", "fenced ambiguous", id="Empty too late for a fence"),
    pytest.param(f"{LATE} Empty(7,7) timeout=1", "client_abort ambiguous", "fenced ambiguous", id="admin much later"),
    pytest.param(
        f"{SOON} Empty(7,8)", "client_abort ambiguous", "fenced ambiguous", id="Empty, but not with the next epoch"
    ),
    pytest.param(f"{SOON} Ongoing(7,6)", "client_abort likely", "fenced ambiguous", id="goes on with the same epoch"),
    pytest.param(
        "999999 Ongoing(7,6)", "client_abort likely", "fenced ambiguous", id="goes on with the same epoch, much later"
    ),
    pytest.param(f"{SOON} Ongoing(7,6) start=1000", "client_abort likely", "fenced ambiguous", id="in the same ms"),
    pytest.param(f"{SOON} Ongoing(7,7)", "client_abort ambiguous", "fenced ambiguous", id="goes on as somebody else"),
    pytest.param(f"{SOON} Ongoing(9,6)", "client_abort ambiguous", "fenced ambiguous", id="goes on under another pid"),
    pytest.param(
        f"{SOON} PrepareAbort(7,7) partitions=0 start={SOON}\n{SOON} CompleteAbort(7,7)",
        "empty_abort certain",  # the cause of the newest abort
        "empty_abort certain",
        id="aborts again, without a transaction",
    ),
    pytest.param(f"{SOON} Unknown\n{SOON} Empty(7,7)", "client_abort ambiguous", "fenced ambiguous", id="undecodable"),
    pytest.param(
        f"{SOON} CompleteAbort(7,6)\n{SOON} Ongoing(7,6)", "client_abort likely", "fenced ambiguous", id="again"
    ),
]


@pytest.mark.parametrize(("then", "by_client", "by_coordinator"), A_FENCE)
def test_the_next_record_of_the_id_refines_the_cause(then: str, by_client: str, by_coordinator: str) -> None:
    assert aborted(TV2_CLIENT, 1, 500, then) == by_client
    assert aborted(OLD_CLIENT, 1, 500, then) == aborted(OLD_BROKER, 1, 500, then) == by_coordinator


def test_an_empty_abort_shows_that_the_client_lives_on() -> None:
    story = reported(f"""
        1000 Ongoing(7,5) ctv=2
        1500 PrepareAbort(7,6) ctv=2
        1503 CompleteAbort(7,6) ctv=2
        {SOON} PrepareAbort(7,7) partitions=0 start={SOON} ctv=2
        {SOON} CompleteAbort(7,7) ctv=2""")
    assert story.causes == ["PrepareAbort client_abort likely", "PrepareAbort empty_abort certain"]
    assert story.counts == {"client_abort": 1}


def test_the_empty_record_of_4_0_0_is_one_epoch_further() -> None:
    assert aborted(TV2_CLIENT, 2, 500, f"{SOON} Empty(7,8)") == "fenced likely"
    assert aborted(TV2_CLIENT, 2, 500, f"{SOON} Empty(7,8) timeout=30000") == "admin likely"


@pytest.mark.parametrize("timeout", [1, 30_000])
def test_an_admin_with_the_ids_own_timeout_looks_like_the_application(timeout: int) -> None:
    dur = min(500, timeout)
    then = f"{SOON} Empty(7,7) timeout={timeout}"
    assert aborted(OLD_BROKER, 1, dur, then, timeout=timeout) == "fenced likely"
    assert aborted(TV2_CLIENT, 1, dur, then, timeout=timeout) == "fenced ambiguous"


def test_an_unambiguous_cause_stays_whatever_record_follows() -> None:
    for then in (f"{SOON} Empty(7,6) timeout=30000", f"{SOON} Ongoing(7,5)", "999999 Empty(7,6)"):
        assert aborted(OLD_BROKER, 0, 500, then) == "client_abort likely"
    late = T + 1100
    # Ongoing: a late EndTxn(abort) was accepted
    for then in (f"{late} Empty(7,7) timeout=30000", f"{late} Ongoing(7,6)"):
        assert aborted(TV2_CLIENT, 1, T + 1, then) == "timeout likely"


@pytest.mark.parametrize("before", ["Empty(7,5)", "CompleteCommit(7,5)", "CompleteAbort(7,5)"])
def test_an_empty_abort_counts_as_no_transaction(before: str) -> None:
    story = reported(f"10 {before}\n20 PrepareAbort(7,6) partitions=0 start=20 ctv=2\n21 CompleteAbort(7,6) ctv=2")
    assert story.abort == "empty_abort certain"
    assert story.counts == reported(f"10 {before}").counts


def test_an_empty_abort_is_known_by_its_times_without_its_predecessor() -> None:
    assert reported("20 PrepareAbort(7,6) partitions=0 start=20").abort == "empty_abort certain"
    assert reported("10 Ongoing(7,5)\n20 PrepareAbort(7,6) partitions=0 start=10").abort == "empty_abort likely"


@pytest.mark.parametrize(
    "before",
    [
        pytest.param("", id="nothing seen"),
        pytest.param("10 Unknown", id="undecodable"),
        pytest.param("10 tombstone", id="tombstone"),
        pytest.param("10 Empty(7,5)", id="Empty"),
        pytest.param("10 CompleteCommit(7,5)", id="another transaction's end"),
        pytest.param("10 Ongoing(7,5) start=10", id="another transaction's begin"),
        pytest.param("10 Ongoing(6,5) start=80", id="another producer id"),
        pytest.param("80 PrepareCommit(7,5)", id="a commit whose append failed"),
        pytest.param("80 PrepareAbort(7,4)", id="an abort whose append failed"),
    ],
)
@pytest.mark.parametrize("epoch", [5, 6, 7])
def test_an_abort_without_its_ongoing_record_is_unattributed(before: str, epoch: int) -> None:
    story = reported(f"{before}\n90 PrepareAbort(7,{epoch}) start=80 ctv=2\n95 CompleteAbort(7,{epoch}) start=80 ctv=2")
    assert story.abort == "unattributed ambiguous"
    assert story.counts == {"unattributed": 1}


@pytest.mark.parametrize("between", ["", "25 Unknown", "25 Ongoing(7,9) start=24"])
def test_an_end_without_its_prepare_record_is_counted_without_a_cause(between: str) -> None:
    story = reported(f"10 Ongoing(7,5)\n20 PrepareAbort(7,5)\n{between}\n30 CompleteAbort(7,5) start=29")
    assert story.counts == {"unattributed": 1}
    assert story.last_abort.offset == -1  # no row belongs to this abort


@pytest.mark.parametrize(
    ("before", "after", "cause"),
    [
        pytest.param("10 CompleteCommit(7,5)", "Empty(7,6)", "initialized certain", id="re-init"),
        pytest.param(
            "10 CompleteCommit(7,5)",
            "Empty(9,0) prev=7",
            "pid_rotated certain",
            id="another pid, and the record contains the old one (4.3)",
        ),
        pytest.param(
            "10 CompleteCommit(7,5)", "Empty(9,0)", "initialized certain", id="epochs left: expired meanwhile"
        ),
        pytest.param("10 CompleteCommit(7,5)", "tombstone", "expired certain", id="tombstone"),
        pytest.param("10 Empty(7,32766)", "Empty(9,0) prev=7", "pid_rotated certain", id="4.3"),
        pytest.param("10 Empty(7,32766)", "Empty(9,0)", "pid_rotated likely", id="before 4.3"),
        pytest.param("10 CompleteAbort(7,32767)", "Empty(9,0)", "pid_rotated likely", id="after a fence"),
        pytest.param(
            "10 Empty(7,32766)",
            "Empty(9,0) prev=9",
            "initialized certain",
            id="the tag names the new producer id as the previous one",
        ),
        pytest.param(
            "",
            "Empty(9,0) prev=7",
            "pid_rotated certain",
            id="the record contains the old producer id, whose records are gone",
        ),
        pytest.param("10 tombstone", "Empty(9,0) prev=9", "initialized certain", id="initialized after it expired"),
        pytest.param("", "Empty(9,0)", "initialized certain", id="first seen"),
    ],
)
def test_a_record_of_an_idle_id_begins_rotates_or_expires_it(before: str, after: str, cause: str) -> None:
    row = reported(f"{before}\n20 {after}").rows[-1]
    assert f"{row.cause} {row.confidence}" == cause


@pytest.mark.parametrize("end", ["Commit", "Abort"])
@pytest.mark.parametrize(("tag", "confidence"), [("prev=7", "certain"), ("", "likely")])
def test_a_producer_id_may_rotate_at_the_end_of_a_transaction(end: str, tag: str, confidence: str) -> None:
    story = reported(f"""
        10 Ongoing(7,32766) ctv=2
        20 Prepare{end}(7,32767) ctv=2
        23 Complete{end}(9,0) {tag} ctv=2
        30 Ongoing(9,0) ctv=2""")
    assert story.causes[-1] == f"Complete{end} pid_rotated {confidence}"
    assert story.notes == []
    assert story.rows[2].marker_ms == 3
    assert story.counts == ({} if end == "Commit" else {"client_abort": 1})


def test_a_client_upgrade_initializes_without_a_fault() -> None:
    story = reported("""
        10 Ongoing(7,4)
        20 PrepareCommit(7,4)
        23 CompleteCommit(7,4)
        30 Empty(7,5)
        40 Ongoing(7,5) ctv=2
        50 PrepareCommit(7,6) ctv=2
        53 CompleteCommit(7,6) ctv=2""")
    assert (story.causes, story.counts, story.notes) == (["Empty initialized certain"], {}, [])


def test_an_epoch_bump_after_a_client_abort_is_an_initialization() -> None:
    story = reported("10 Ongoing(7,4)\n20 PrepareAbort(7,4)\n23 CompleteAbort(7,4)\n25 Empty(7,5)")
    assert story.causes == ["PrepareAbort client_abort likely", "Empty initialized certain"]


@pytest.mark.parametrize("number", [1, 2, 3], ids=["PrepareAbort", "CompleteAbort", "Empty"])
def test_a_repeated_append_changes_neither_cause_nor_count(number: int) -> None:
    lines = """
        10 Ongoing(7,5) ctv=2
        20 PrepareAbort(7,6) ctv=2
        23 CompleteAbort(7,6) ctv=2
        30 Empty(7,7) timeout=30000 ctv=2"""
    repeated = lines.strip().splitlines()[number]
    story = reported(lines.replace(repeated, f"{repeated}\n{repeated}"))
    assert story.causes == ["PrepareAbort admin likely", "Empty initialized certain"]
    assert story.counts == {"admin": 1}


@pytest.mark.parametrize(
    ("late", "abort"),
    [
        pytest.param(
            "9000 CompleteAbort(7,6) ctv=2\n9100 Empty(7,7) timeout=30000 ctv=2",
            "client_abort ambiguous",
            id="a repeated append settles nothing anew",
        ),
        pytest.param("60000 Ongoing(7,6) ctv=2", "client_abort likely", id="the client goes on"),
    ],
)
def test_a_record_after_a_counted_abort_changes_no_count(late: str, abort: str) -> None:
    begun = "10 Ongoing(7,5) ctv=2\n20 PrepareAbort(7,6) ctv=2\n23 CompleteAbort(7,6) ctv=2"
    steps = pairs(log(f"{begun}\n{late}"))
    for story in (judged(steps), judged(steps, settles_early=True)):
        assert (story.abort, story.counts) == (abort, {"client_abort": 1})


def test_a_commit_whose_append_failed_may_still_end_in_an_abort() -> None:
    story = reported("""
        10 Ongoing(7,5) ctv=2
        20 PrepareCommit(7,6) ctv=2
        60100 PrepareAbort(7,6) ctv=2
        60103 CompleteAbort(7,6) ctv=2""")
    assert story.counts == {"unattributed": 1}
    (note,) = story.notes
    assert note.startswith("PrepareAbort: Kafka allows no PrepareAbort after PrepareCommit")


def test_aborts_before_the_start_of_counting_are_not_counted() -> None:
    steps = pairs(
        log("""
        10 Ongoing(7,5)
        20 PrepareAbort(7,6)
        23 CompleteAbort(7,6)
        30 Empty(7,7)          # decides the cause of an end that is not counted
        40 Ongoing(7,7)
        50 PrepareAbort(7,8)
        53 CompleteAbort(7,8)
        60 Empty(7,9)""")
    )
    last_abort = NO_ABORT
    counted: list[tuple[str, int]] = []
    for before, after in steps:
        step = judge(last_abort, before, after, counts=after.offset > 2)
        last_abort = step.last_abort
        counted += step.aborts
    assert counted == [("fenced", 53)]
