"""Tests of whole histories: logs of scenarios that were recorded on brokers 4.3.1 and 3.9.2, and logs that are written
in the tests."""

from __future__ import annotations

import pytest

from service.domain.transaction_log import states
from tests.service.domain import golden
from tests.service.domain.records import reported

INIT = "Empty initialized certain"
CLIENT = "PrepareAbort client_abort likely"
TV2_CLIENT = CLIENT
NO_WITNESS = "PrepareAbort client_abort ambiguous"
TIMEOUT = "PrepareAbort timeout likely"
FENCED = "PrepareAbort fenced likely"
EXPIRED = "tombstone expired certain"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

BOTH = {
    "a-ship-1": [INIT, CLIENT],
    "a-shop-1": [INIT, CLIENT, CLIENT],
    "c-late-1": [INIT, CLIENT],
    "c-late-guarded": [INIT, CLIENT],
    "d2-gone-1": [INIT, CLIENT, EXPIRED],
    "f-old": [INIT, TIMEOUT],
    "f-new": [INIT, TIMEOUT],
    "g-shared-old": [INIT, FENCED, *[INIT] * 7],  # then idle instances fence each other in turns
    "i-done": [INIT, EXPIRED, INIT, EXPIRED],
    "i-idle": [INIT, EXPIRED, INIT, EXPIRED],
    "l-abort-1": [INIT, CLIENT],  # the administrator's marker leaves no record
    "m-timeout": [INIT, TIMEOUT],
    **{f"n-rdkafka-{codec}": [INIT, CLIENT] for codec in CODECS},
    "p-unknown-version": [],
    "q-force-1": [INIT, "PrepareAbort admin likely", INIT],
}
STORIES = {
    "4.3.1": BOTH
    | {
        "a-raw-1": [INIT, TV2_CLIENT],
        "c-late-tv2": [INIT, NO_WITNESS],
        "c2-never-tv2": [INIT, NO_WITNESS],
        "g-shared-tv2": [INIT, "PrepareAbort fenced ambiguous", *[INIT] * 7],
        "i-busy": [INIT, NO_WITNESS, EXPIRED],
        "j-commit": [INIT, INIT, "CompleteCommit pid_rotated certain"],  # the second record is planted
        "j-fence": [INIT, INIT, INIT, FENCED, "CompleteAbort pid_rotated certain", INIT],
        "j-idle": [INIT, INIT, "Empty pid_rotated certain"],
        "j-timeout": [INIT, INIT, TIMEOUT, "CompleteAbort pid_rotated certain", INIT],
        **{f"n-raw-{codec}": [INIT, TV2_CLIENT] for codec in CODECS},
        "r-brave-1": [INIT, TIMEOUT],  # a TV2 client at transaction.version 1
        "r-tv0-1": [INIT, CLIENT, TIMEOUT],
        "r-tv1-2": [INIT, CLIENT, TIMEOUT],
        "r-tv2-0": [INIT, TV2_CLIENT, TIMEOUT],
        "r-tv2-3": [INIT, TV2_CLIENT, TIMEOUT],
    },
    "3.9.2": BOTH
    | {
        "a-raw-1": [INIT, CLIENT],
        "i-busy": [INIT, CLIENT, EXPIRED],
        "j-fence": [INIT, INIT, INIT, FENCED, "Empty pid_rotated likely"],
        "j-idle": [INIT, INIT, "Empty pid_rotated likely"],
        "j-old-timeout": [INIT, INIT, TIMEOUT, "Empty pid_rotated likely"],
        **{f"n-raw-{codec}": [INIT, CLIENT] for codec in CODECS},
    },
}


@pytest.mark.parametrize("version", STORIES)
def test_logs_of_real_brokers_have_the_expected_causes(version: str) -> None:
    """An id that STORIES does not list was initialized once, and all its transactions were committed."""
    logs = golden.logs(version)
    assert set(STORIES[version]) <= set(logs)
    for name, records in logs.items():
        story = reported(records)
        assert story.causes == STORIES[version].get(name, [INIT]), name
        assert sum(story.counts.values()) == sum(r.state == states.COMPLETE_ABORT for r in records), name
        assert story.notes == [], name


def test_an_id_for_every_start_leaves_zombies_that_time_out() -> None:
    story = reported("""
        0 Empty(40,0) timeout=1500
        10 Ongoing(40,0)
        1812 PrepareAbort(40,1) ctv=2
        1815 CompleteAbort(40,1) ctv=2""")
    assert story.causes == [INIT, TIMEOUT]
    assert story.rows[2].duration_ms == 1802


def test_a_commit_that_waits_for_a_frozen_leader_has_slow_markers() -> None:
    story = reported("""
        0 Empty(7,0) timeout=4000
        10 Ongoing(7,0)
        500 PrepareCommit(7,0)
        9514 CompleteCommit(7,0) update=501""")
    assert (story.causes, story.counts) == ([INIT], {})
    assert [(row.to_state, row.marker_ms) for row in story.notable[1:]] == [(states.COMPLETE_COMMIT, 9014)]


@pytest.mark.parametrize(
    ("log", "causes", "counts"),
    [
        # KAFKA-20734: no record of this log shows that a marker is missing
        pytest.param(
            "0 Empty(7,0)\n10 Ongoing(7,0) partitions=2\n100 PrepareCommit(7,0) partitions=2\n700 CompleteCommit(7,0)",
            [INIT],
            {},
            id="k2: a commit whose participant was skipped",
        ),
        pytest.param(
            """
            0 Empty(7,0)
            10 Ongoing(7,0) ctv=2
            500 PrepareAbort(7,2) ctv=2
            503 CompleteAbort(7,2) ctv=2
            620 Empty(7,3) ctv=2
            700 Ongoing(7,3) ctv=2""",
            [INIT, FENCED, INIT],
            {"fenced": 1},
            id="fenced on 4.0.0",
        ),
        pytest.param(
            """
            0 Empty(7,0) timeout=1000
            10 Ongoing(7,0) ctv=2
            1060 PrepareAbort(7,1) ctv=2
            1063 CompleteAbort(7,1) ctv=2
            4000 Ongoing(7,1) ctv=2      # its EndTxn(abort) was accepted and wrote no record
            4100 PrepareCommit(7,2) ctv=2
            4103 CompleteCommit(7,2) ctv=2""",
            [INIT, TIMEOUT],
            {"timeout": 1},
            id="a TV2 client whose transaction timed out goes on after its late abort",
        ),
    ],
)
def test_a_whole_history_has_the_expected_causes_and_counts(
    log: str, causes: list[str], counts: dict[str, int]
) -> None:
    story = reported(log)
    assert (story.causes, story.counts, story.notes) == (causes, counts, [])
    assert sum(row.to_state == states.COMPLETE_COMMIT for row in story.notable) == 0, "an ordinary commit has no row"


def test_one_id_lives_through_upgrade_and_downgrade_of_the_cluster() -> None:
    story = reported("""
        0 Empty(7,0)
        10 Ongoing(7,0)
        20 PrepareAbort(7,0)
        23 CompleteAbort(7,0)
        30 Empty(7,1)                # transaction.version 2: the client begins to use it
        40 Ongoing(7,1) ctv=2
        50 PrepareAbort(7,2) ctv=2
        53 CompleteAbort(7,2) ctv=2
        60 Ongoing(7,2) ctv=2        # transaction.version 0 again: values have no tags
        70 PrepareAbort(7,3)
        73 CompleteAbort(7,3)
        80 Empty(7,4)""")
    assert story.causes == [INIT, CLIENT, INIT, TV2_CLIENT, "PrepareAbort fenced ambiguous", INIT]
