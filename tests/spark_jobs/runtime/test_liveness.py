"""Tests that a part without progress is reported, and that the lease is then not renewed. On a busy machine, a second
without enough processor time counts only in part."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from service.processes.identity import ProcessorTime
from service.processes.waiting import WorkingTime, touch
from spark_jobs.runtime import liveness
from spark_jobs.runtime.liveness import SOURCE_S, START_S, Liveness, Part


class Machine:
    """The clock of a machine, and the processor time of its processes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s, self.used = 0.0, ProcessorTime(0, 0)
        made = WorkingTime(list, lambda: self.now_s, self._used)
        monkeypatch.setattr(liveness, "WorkingTime", lambda _pids: made)

    def _used(self, _pids: Iterable[int]) -> ProcessorTime:
        return self.used

    def seconds(self, watch: Liveness, count: int, *working: Part, ran: int = 0, waited: int = 0) -> list[str]:
        """Returns the parts that are reported as stuck within `count` seconds. In each second, the parts in `working`
        make a step; threads run for `ran` ns, and wait for a processor for `waited` ns."""
        found: set[str] = set()
        for _ in range(count):
            self.now_s += 1
            self.used = ProcessorTime(self.used.ran_ns + ran, self.used.waited_ns + waited)
            for part in working:
                part.step()
            found |= {stuck_part.name for stuck_part in watch.check()}
        return sorted(found)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_only_a_part_without_a_step_within_its_limit_is_stuck(machine: Machine) -> None:
    watch = Liveness(list)
    with watch.part("log", SOURCE_S, holds_lease=True) as log, watch.part("partitions", SOURCE_S) as partitions:
        assert machine.seconds(watch, 60, log, partitions) == []
        assert machine.seconds(watch, int(SOURCE_S) - 1, partitions) == []
        assert machine.seconds(watch, 5, partitions) == ["log"]
        assert machine.seconds(watch, 60, log, partitions) == []


def test_a_start_may_take_longer_and_so_may_every_restart(machine: Machine) -> None:
    watch = Liveness(list)
    with watch.part("log", SOURCE_S) as log:
        assert machine.seconds(watch, int(START_S) - 1) == []
        machine.seconds(watch, 1, log)
        log.note_start()
        assert machine.seconds(watch, int(START_S) - 1) == []
        assert machine.seconds(watch, 5) == ["log"]


def test_a_part_that_has_ended_never_counts_as_stuck(machine: Machine) -> None:
    watch = Liveness(list)
    with watch.part("log", SOURCE_S):
        pass
    assert machine.seconds(watch, 1_000) == []


def test_a_lease_is_renewed_only_if_all_its_parts_made_progress(machine: Machine) -> None:
    watch = Liveness(list)
    with watch.part("log", SOURCE_S, holds_lease=True) as log, watch.part("groups", 120) as groups:
        assert watch.earns_renewal()
        machine.seconds(watch, 5, log)
        assert watch.earns_renewal()
        machine.seconds(watch, 5, groups)
        assert not watch.earns_renewal()
        machine.seconds(watch, 1, log)
        assert watch.earns_renewal()


def test_a_stuck_part_earns_one_renewal_and_slow_parts_one_per_step(machine: Machine) -> None:
    watch = Liveness(list)
    with (
        watch.part("log", SOURCE_S, holds_lease=True) as log,
        watch.part("partitions", SOURCE_S, holds_lease=True) as partitions,
    ):
        earned = 0
        for _ in range(5):  # the two parts never make a step in the same second
            machine.seconds(watch, 1, log)
            earned += watch.earns_renewal()
            machine.seconds(watch, 3)
            machine.seconds(watch, 1, partitions)
            earned += watch.earns_renewal()
        assert earned == 5
        machine.seconds(watch, 1, log, partitions)
        assert watch.earns_renewal()
        for _ in range(20):
            machine.seconds(watch, 1, log)
            assert not watch.earns_renewal()


def test_a_part_that_begins_again_has_time_for_its_first_step(machine: Machine) -> None:
    watch = Liveness(list)
    with watch.part("log", SOURCE_S, holds_lease=True) as log:
        machine.seconds(watch, 1, log)
        log.note_start()
        for _ in range(int(SOURCE_S)):
            assert watch.earns_renewal()
            machine.seconds(watch, 1)
        machine.seconds(watch, 1)
        assert not watch.earns_renewal()


def test_seconds_without_enough_processor_time_count_in_part(machine: Machine) -> None:
    """A second counts as one second if the thread got at least half of the processor time that it needed. Here the
    thread got a twentieth, so each second counts as a tenth of a second."""
    watch = Liveness(list)
    with watch.part("log", SOURCE_S) as log:
        machine.seconds(watch, 1, log)
        assert machine.seconds(watch, 200, ran=100_000_000, waited=1_900_000_000) == []
        assert machine.seconds(watch, 100, ran=100_000_000, waited=1_900_000_000) == ["log"]


def test_seconds_with_half_the_processor_time_count_in_full(machine: Machine) -> None:
    watch = Liveness(list)
    with watch.part("log", SOURCE_S) as log:
        machine.seconds(watch, 1, log)
        assert machine.seconds(watch, int(SOURCE_S) + 2, ran=500_000_000, waited=400_000_000) == ["log"]


def test_hours_in_which_the_process_was_stopped_count_one_second(machine: Machine) -> None:
    watch = Liveness(list)
    with watch.part("log", SOURCE_S) as log:
        machine.seconds(watch, 1, log)
        machine.now_s += 3_600
        assert machine.seconds(watch, 10) == []


def test_other_processes_report_by_a_file(machine: Machine, tmp_path: Path) -> None:
    watch = Liveness(list, tmp_path)
    with watch.part("log", SOURCE_S, holds_lease=True) as log, watch.part("groups", 120) as groups:
        assert (Path(log.pulse).parent, groups.pulse) == (tmp_path, "")
        machine.seconds(watch, 1, log)
        for turn in range(int(SOURCE_S) * 2):
            os.utime(log.pulse, (turn, turn))
            assert machine.seconds(watch, 1) == []
        touch(log.pulse)
        assert machine.seconds(watch, int(SOURCE_S) - 1) == []
        assert machine.seconds(watch, 5) == ["log"]


def test_a_missing_pulse_file_is_no_error(tmp_path: Path) -> None:
    touch("")
    touch(str(tmp_path / "gone" / "log.pulse"))
    assert list(tmp_path.iterdir()) == []
