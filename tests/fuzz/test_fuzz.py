"""Runs the fuzzer for a short time (`make fuzz` runs it for long), and tests its inputs."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter

import pytest

from service.wire import errors
from tests.fuzz.mutate import make
from tests.fuzz.pieces import take_apart
from tests.fuzz.seeds import seeds
from tests.helpers.waiting import LIMIT_S
from tests.service.wire.dumps import segments

INPUTS = 2_000


@pytest.mark.parametrize("seed", [1, 2])
def test_mutated_logs_give_records_or_rejects_and_nothing_else(seed: int) -> None:
    """The fuzzer runs in processes of its own, with bounded memory."""
    arguments = ["--inputs", str(INPUTS), "--seed", str(seed)]
    run = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    found = re.match(r"([\d,]+) inputs, ([\d.]+)% with a right checksum", run.stdout)
    assert found is not None
    assert int(found[1].replace(",", "")) == INPUTS
    assert float(found[2]) >= 80
    reasons = {reason for reason, _ in re.findall(r"(\w+) ([\d,]+)[,;]", run.stdout)}
    assert reasons >= {error.reason for error in errors.DecodeError.__subclasses__()} | {"record"}


def test_inputs_are_repeatable_and_surround_the_mutated_batch_by_good_ones() -> None:
    for number in range(200):
        one = make(7, number)
        assert one == make(7, number)
        assert min(one.good) < one.bad[0] < one.bad[1] <= max(one.good)


def test_a_batch_is_unchanged_after_splitting_and_joining() -> None:
    """Mutations have to start from the bytes that real brokers write."""
    for log in segments("*/__transaction_state-*"):
        data = log.read_bytes()
        first = data[: 12 + int.from_bytes(data[8:12], "big")]
        assert take_apart(first).encode() == first


def test_the_seeds_cover_every_kind_of_record_and_batch() -> None:
    found: Counter[str] = Counter()
    for seed in seeds():
        found[f"codec {seed.codec}"] += 1
        found[f"records {min(len(seed.records), 2)}"] += 1
        for record in seed.records:
            if record.value is None:
                found["tombstone"] += 1
                continue
            fields = {piece.name: piece.data for piece in record.value}
            found[f"version {fields['version'].hex()}"] += 1
            found[f"status {fields.get('status', b'').hex()}"] += 1
            found.update(f"tag {piece.data.hex()}" for piece in record.value if piece.name == "tag")
    wanted = [f"codec {codec}" for codec in range(5)] + [f"records {count}" for count in range(3)] + ["tombstone"]
    wanted += ["version 0000", "version 0001"] + [f"status {status:02}" for status in range(6)]
    wanted += [f"tag {tag:02}" for tag in range(4)]
    assert not [kind for kind in wanted if not found[kind]]
