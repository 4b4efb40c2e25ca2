"""A long run reports how far it is."""

from __future__ import annotations

from tests.helpers.progress import Progress

TESTS = ["tests/a.py::one", "tests/a.py::two", "tests/b.py::C::one", "tests/c.py::one"]


def test_the_line_has_tests_done_and_the_files_that_run_longest_first() -> None:
    progress = Progress()
    progress.collect(TESTS)
    progress.collect(TESTS)  # of another worker
    assert progress.line(0) == "0 of 4 tests done, 3 files not started; running: none"
    progress.start(TESTS[2], 10)
    progress.start(TESTS[0], 0)
    progress.finish(TESTS[0])
    assert progress.line(95) == "1 of 4 tests done, 1 files not started; running: a.py (1 min 35 s), b.py (1 min 25 s)"


def test_a_file_runs_until_its_last_test_ends() -> None:
    progress = Progress()
    progress.collect(TESTS)
    for test in TESTS[:2]:
        progress.start(test, 0)
        progress.finish(test)
    assert progress.line(1) == "2 of 4 tests done, 2 files not started; running: none"
