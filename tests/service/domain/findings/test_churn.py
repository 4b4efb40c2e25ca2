"""Tests of churn. New transactional ids are churn if the application has abandoned its earlier ids, or if there are
very many new ids. A normal start is no churn."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from service.domain.findings import churn
from service.domain.findings.churn import MANY_PROCESSES, UNUSED_MS
from service.domain.findings.event_findings import Lookups, find_in_events
from service.domain.findings.events import Event, ReportWindow
from service.domain.findings.finding import Observation, Subject
from service.domain.findings.kinds import QUIET_MS, Kind, Severity
from service.domain.findings.settling import SKEW_MS, Settling
from service.domain.id_behaviour import IN_USE
from service.domain.transaction_log import states
from service.domain.transaction_log.causes import CauseCode
from tests.service.domain.findings.builders import NOW_MS, M, S, context, event


def born(sequence: int, name: str, ago_ms: int = 0) -> Event:
    return event(sequence, name, CauseCode.INITIALIZED, ago_ms, from_state=states.NEVER_SEEN, producer_epoch=0)


def one_by_one(names: Iterable[str], every_ms: int = 10 * S) -> list[Event]:
    """Returns the first event of each id, one every `every_ms`. The last event happens at NOW_MS."""
    names = list(names)
    return [born(n, name, (len(names) - 1 - n) * every_ms) for n, name in enumerate(names)]


def random_names(count: int) -> list[str]:
    return [f"etl-{n:04x}ab" for n in range(count)]


def streams(process: int, thread: int = 1) -> str:
    return f"shop-7b0c3a52-1c1e-4f0a-9f57-{process:012x}-{thread}"


def used_for(events: Iterable[Event], for_ms: int) -> dict[bytes, int]:
    """Returns the time of each id's last use: `for_ms` after the id's event."""
    return {e.transactional_id: e.at_ms + for_ms for e in events}


def find(new: list[Event], uses: dict[bytes, int]) -> list[Observation]:
    return churn.churn(churn.new_ids(new, churn.churn_times(new)), uses, context(), ReportWindow(), ())


def test_ids_made_up_at_every_start_are_churn_and_counted() -> None:
    new = one_by_one(random_names(6))
    (found,) = find(new, used_for(new, 5 * S))
    assert (found.subject, len(found.occurrences)) == (Subject(prefix="etl-"), 6)
    assert "Give each instance a transactional.id" in found.advice
    assert found.evidence[0].text == "etl-0000ab: first seen, producer id 7, used for 5 s"
    assert find(new[:5], used_for(new, 5 * S)) == [], "only four ids were given up"


def test_a_rolling_start_of_instances_that_go_on_working_is_no_churn() -> None:
    new = one_by_one(map(streams, range(12)), 60 * S)
    assert find(new, {e.transactional_id: NOW_MS + n * 100 for n, e in enumerate(new)}) == []
    assert find(new, {e.transactional_id: IN_USE for e in new}) == []
    new = one_by_one((f"pay-6f7d9c-{n:05x}f" for n in range(12)), 60 * S)
    assert find(new, {e.transactional_id: NOW_MS + n * 100 for n, e in enumerate(new)}) == []
    new = one_by_one((f"sink-0-{n}" for n in range(30)), 20 * S)
    assert find(new, {e.transactional_id: NOW_MS + n * 100 for n, e in enumerate(new)}) == []


def test_instances_without_transactions_prove_no_churn() -> None:
    new = one_by_one(map(streams, range(12)), 60 * S)
    assert find(new, {}) == [], "no id has a transaction"
    assert find(new, used_for(new[:1], 20 * M)) == [], "only one instance has work"
    until_ms = new[6].at_ms - S
    assert find(new, {e.transactional_id: until_ms for e in new[:6]}) == [], (
        "the work ended before the newer instances started"
    )


def test_a_simultaneous_start_and_a_replaced_thread_are_no_churn() -> None:
    at_once = one_by_one((streams(0, n) for n in range(5)), 600)
    assert find(at_once, used_for(at_once, 100)) == []
    at_once = one_by_one(map(streams, range(9)), 300)
    assert find(at_once, used_for(at_once, 100)) == []
    replaced = one_by_one((streams(0, n) for n in range(30)), 30 * S)
    assert find(replaced, used_for(replaced, 10 * S)) == []


def test_threads_of_a_process_that_works_are_in_use() -> None:
    new = one_by_one((streams(n // 4, n % 4) for n in range(40)), 15 * S)
    works = {e.transactional_id: NOW_MS + S for e in new[::4]}
    assert find(new, used_for(new, 5 * S) | works) == []


def test_streams_with_a_new_process_id_at_every_start_shall_keep_state_dir() -> None:
    new = [event._replace(timeout_ms=10_000) for event in one_by_one(map(streams, range(6)), 30 * S)]
    (found,) = find(new, used_for(new, 20 * S))
    assert found.advice.startswith("Keep state.dir of this Kafka Streams application on a disk")


def test_advice_covers_both_cases_where_ids_may_be_of_kafka_streams() -> None:
    """If the ids have the form of Kafka Streams, but not its transaction timeout, the advice covers both
    explanations."""
    new = one_by_one(map(streams, range(6)), 30 * S)
    (found,) = find(new, used_for(new, 20 * S))
    assert found.advice.startswith("Give each instance a transactional.id that stays the same over restarts. If this")
    assert "keep its state.dir" in found.advice


def test_several_instances_with_new_ids_at_every_start_are_churn() -> None:
    """Three instances crash together again and again. The newest three ids are in use."""
    new = [born(n, streams(n), (5 - n // 3) * 40 * S - n) for n in range(18)]
    uses = used_for(new[:15], 35 * S) | {e.transactional_id: IN_USE for e in new[15:]}
    assert [o.subject.prefix for o in find(new, uses)] == ["shop-"]


def test_an_id_left_open_by_a_crash_counts_after_its_timeout() -> None:
    new = one_by_one(random_names(13), 3 * M)
    left_open = {e.transactional_id: min(e.at_ms + 16 * M, IN_USE) for e in new}
    still_open = {one: IN_USE if at_ms > NOW_MS else at_ms for one, at_ms in left_open.items()}
    assert [o.subject.prefix for o in find(new, still_open)] == ["etl-"]
    assert find(new[-5:], still_open) == []


def test_a_new_deployment_after_long_work_is_no_churn() -> None:
    first = [born(n, streams(n), 50 * M - n * 20 * S) for n in range(6)]
    second = one_by_one(map(streams, range(10, 16)), 20 * S)
    uses = {e.transactional_id: NOW_MS - 2 * M for e in first} | {e.transactional_id: NOW_MS + S for e in second}
    assert find([*first, *second], uses) == []


def test_numbered_ids_are_churn_only_if_new_ones_keep_coming() -> None:
    new = one_by_one((f"pay-{n}" for n in range(100)), 0)
    assert find(new, used_for(new, 0)) == []
    new = one_by_one((f"sink-0-{n}" for n in range(30)), 20 * S)
    assert len(find(new, used_for(new, 10 * S))) == 1


def checkpoints(count: int, subtask: int = 0) -> tuple[list[Event], dict[bytes, int]]:
    """Returns the events of a sink's new ids, one every 20 s, and the time of each id's last use. An id is used until
    shortly after the next event. The newest id is still in use."""
    new = one_by_one((f"sink-{subtask}-{n}" for n in range(1, count + 1)), 20 * S)
    return new, {e.transactional_id: e.at_ms + 20 * S + 40 for e in new[:-1]} | {new[-1].transactional_id: IN_USE}


def test_ids_that_flink_numbers_by_checkpoint_have_severity_info() -> None:
    new, uses = checkpoints(30)
    (found,) = find(new, uses)
    assert (found.severity, found.subject) == (Severity.INFO, Subject(prefix="sink-"))
    assert "Apache Flink's naming strategy INCREMENTING" in found.title
    assert "some 30,000 ids are kept" in found.advice
    assert "Give each instance" not in found.advice


def test_an_application_with_the_same_prefix_as_flink_still_churns() -> None:
    new, uses = checkpoints(30)
    others = [e._replace(sequence=100 + n) for n, e in enumerate(one_by_one(f"sink-{n:04x}ab" for n in range(6)))]
    (found,) = find([*new, *others], uses | used_for(others, 5 * S))
    assert (found.severity, len(found.occurrences)) == (Severity.WARNING, 6)


def test_an_idle_flink_job_with_many_checkpoints_has_severity_info() -> None:
    new = one_by_one((f"sink-0-{n}" for n in range(1, MANY_PROCESSES + 1)), 500)
    (found,) = find(new, {})
    assert found.severity == Severity.INFO


def test_ids_numbered_from_0_are_not_taken_for_kafka_streams() -> None:
    """Spring numbers its producers from 0, after a prefix that may contain random.uuid. Kafka Streams numbers its
    threads from 1."""
    new = one_by_one((streams(n, 0) for n in range(6)), 30 * S)
    (found,) = find(new, used_for(new, 20 * S))
    assert "state.dir" not in found.advice


def test_ids_without_a_common_prefix_are_no_churn() -> None:
    new = one_by_one("abcdefghijkl"[: n + 1] for n in range(12))
    assert find(new, used_for(new, S)) == []


def test_very_many_new_ids_are_churn_at_once() -> None:
    """An application with one id per message is reported at once. The events of the ids would be deleted before the ids
    have been unused for long enough."""
    new = one_by_one((f"etl-{n:06x}ab" for n in range(MANY_PROCESSES)), 30)
    window = ReportWindow(NOW_MS - QUIET_MS, before_sequence=0)
    (found,) = churn.churn(new, {}, context(), window, ())
    assert len(found.occurrences) == MANY_PROCESSES
    assert churn.churn(new[1:], {}, context(), window, ()) == []


@pytest.mark.parametrize(("after_ms", "found"), [(UNUSED_MS + SKEW_MS - 1, 0), (UNUSED_MS + SKEW_MS, 1)])
def test_churn_is_reported_once_its_ids_had_the_time_to_be_used(after_ms: int, found: int) -> None:
    new = one_by_one(random_names(6))
    uses = used_for(new, 5 * S)
    now_ms = NOW_MS + after_ms
    here = context(until_ms=now_ms)
    here = here._replace(log=here.log._replace(settled_ms=now_ms))
    settling = Settling(now_ms, {e.sequence: e.at_ms for e in new}, NOW_MS, now_ms)
    lookups = Lookups(
        lambda _: {}, lambda ids: {transactional_id: uses[transactional_id] for transactional_id in ids}, lambda _: {}
    )
    reported, unsettled = find_in_events(new, lookups, settling, here)
    assert [o.kind for o in reported] == [Kind.CHURN] * found
    assert ((Kind.CHURN, Subject(prefix="etl-")) in unsettled) == (not found)


def test_ids_are_not_called_unused_before_their_partition_is_read() -> None:
    new = [e._replace(partition=9) for e in one_by_one(random_names(9))]
    asked: list[bytes] = []
    settling = Settling(NOW_MS + M, {}, NOW_MS - 10 * M, NOW_MS + 10 * M)
    lookups = Lookups(lambda _: {}, lambda ids: dict.fromkeys(asked, len(ids)), lambda _: {})
    assert not find_in_events(new, lookups, settling, context())[0]
