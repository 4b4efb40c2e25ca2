"""Draws random histories of one transactional.id. Clients and brokers follow Kafka's protocol, and are of all versions.
The histories have second instances, administrators, frameworks and recoveries, duplicates of EndTxn that arrive late,
appends and requests whose answer is lost, clocks that jump, and several actions within one millisecond. A client begins
no transaction before its EndTxn is answered."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.service.domain.coordinator import BROKERS, LAST_CLIENT_EPOCH, Coordinator, Instance

TIMEOUTS_MS = (*[60_000] * 12, *[900_000] * 4, 120_000, 45_000, 30_000, 15_000, 1_000, 1, 2_147_483_647)


def a_life(rng: Random, steps: int, *, skewed: bool = True) -> Coordinator:
    """Draws a history of `steps` steps. With `skewed`, the clocks of coordinators differ, and some acknowledgements of
    appends are lost."""
    broker = rng.choice(BROKERS)
    coordinator = Coordinator(rng, broker, broker.versions[0], skewed=skewed)
    timeout_ms = rng.choice(TIMEOUTS_MS)
    instances = [Instance(rng.choice([True, True, False]), timeout_ms) for _ in range(2)]
    coordinator.init(instances[0])
    for _ in range(steps):
        _step(rng, coordinator, instances)
    return coordinator


def _step(rng: Random, coordinator: Coordinator, instances: list[Instance]) -> None:
    coordinator.wait(rng.choice([0, 1, 50, 300, 300, 2_000, 9_000, 70_000]))
    instance, other = instances if rng.random() < 0.9 else instances[::-1]
    if instance.epoch < 0:
        coordinator.init(instance, gives_up=rng.random() < 0.05)
        return
    if rng.random() < 0.2:
        coordinator.deliver_late()
    deed = rng.choices(list(_DEEDS), list(_DEEDS.values()))[0]
    deed(rng, coordinator, instance, other)


def _commit(rng: Random, coordinator: Coordinator, instance: Instance, _: Instance) -> None:
    _transact(rng, coordinator, instance, commit=True)


def _abort(rng: Random, coordinator: Coordinator, instance: Instance, _: Instance) -> None:
    _transact(rng, coordinator, instance, commit=False)


def _transact(rng: Random, coordinator: Coordinator, instance: Instance, *, commit: bool) -> None:
    coordinator.add(instance)
    coordinator.wait(rng.choice([0, 0, 1, 50, 300, 2_000, 9_000]))
    coordinator.end(instance, commit=commit)


def _add(_: Random, coordinator: Coordinator, instance: Instance, __: Instance) -> None:
    coordinator.add(instance)


def _end(rng: Random, coordinator: Coordinator, instance: Instance, _: Instance) -> None:
    coordinator.end(instance, commit=rng.random() < 0.5)


def _fence(rng: Random, coordinator: Coordinator, instance: Instance, other: Instance) -> None:
    coordinator.init(rng.choice([instance, other]), gives_up=rng.random() < 0.05)


def _start_anew(rng: Random, coordinator: Coordinator, instance: Instance, _: Instance) -> None:
    instance.modern, instance.timeout_ms = rng.choice([True, False]), rng.choice(TIMEOUTS_MS)
    coordinator.init(instance)


def _administrate(rng: Random, coordinator: Coordinator, instance: Instance, _: Instance) -> None:
    """Fences the id as an administrator, mostly during a transaction. Then waits, mostly for 20 s or more, because the
    application seldom returns at once."""
    if rng.random() < 0.9:
        coordinator.add(instance)
        coordinator.wait(rng.choice([300, 2_000, 9_000]))
    timeout_ms = rng.choice([*[30_000] * 12, 1, 45_000, coordinator.memory.timeout_ms])
    coordinator.init(Instance(False, max(timeout_ms, 1)), is_admin=True, gives_up=rng.random() < 0.05)
    coordinator.wait(rng.choice([300, 20_000, 60_000, 60_000]))


def _ask_itself(rng: Random, coordinator: Coordinator, instance: Instance, other: Instance) -> None:
    """Requests a new epoch after an error, as KIP-360 allows. The requester may be an instance that was fenced long
    ago."""
    asks, chance = rng.choice([instance, instance, other]), rng.random()
    coordinator.init_own(asks, gives_up=chance < 0.1, misses_answer=chance > 0.9)


def _recover(rng: Random, coordinator: Coordinator, instance: Instance, _: Instance) -> None:
    coordinator.add(instance)
    coordinator.recover(instance, commit=rng.random() < 0.7)


def _configure_anew(rng: Random, coordinator: Coordinator, instance: Instance, _: Instance) -> None:
    """Restarts a task of Kafka Connect. The framework fences the id through the admin API, and then the task starts."""
    coordinator.init(Instance(False, rng.choice([30_000, 30_000, 45_000])))
    coordinator.wait(rng.choice([50, 300, 300, 2_000]))
    coordinator.init(instance)


def _seldom(rng: Random, coordinator: Coordinator, _: Instance, __: Instance) -> None:
    what = rng.choice(["switch", "switch", "expire", "use up", "use up", "lose", "lose", "move"])
    if what == "switch":
        coordinator.version = rng.choice(coordinator.broker.versions)
    elif what == "expire":
        coordinator.expire()
    elif what == "use up":
        coordinator.use_up_epochs(rng.choice([32_764, 32_765, LAST_CLIENT_EPOCH]))
    elif what == "move":
        coordinator.move(rng.choice([0, 0, 40, -40, -3_000, 15_000, -3_600_000]))
    elif coordinator.skewed:
        coordinator.loses = True


_DEEDS: dict[Callable[[Random, Coordinator, Instance, Instance], None], int] = {
    _commit: 10,
    _abort: 8,
    _add: 8,
    _end: 4,
    _fence: 4,
    _start_anew: 2,
    _administrate: 1,
    _ask_itself: 1,
    _recover: 1,
    _configure_anew: 1,
    _seldom: 2,
}
