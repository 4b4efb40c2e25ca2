"""`python -m tests.matrix`: runs the scenarios on each version of Kafka, and records the results.

Each version is a separate run, which renews the version's record and docs/compatibility.md. So a matrix can be stopped,
and continued with the missing versions.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from typing import Final

from service.cli.doctor.examination import FOLDER
from tests.helpers import compatibility_document
from tests.helpers.brokers import EVERY_VERSION
from tests.helpers.paths import ROOT
from tests.matrix.recorder import RECORD

SCENARIOS: Final = (
    "test_kafka_versions",
    "test_causes*",
    "test_lab_*",
    "test_survival",
    "test_truth",
    "test_partitions_source",
)
"""Modules of tests/integration that the matrix runs on every version."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("--versions", default=",".join(EVERY_VERSION), help="divided by commas")
    parser.add_argument("--workers", type=int, default=1, help="number of processes that run tests side by side")
    options = parser.parse_args()
    versions = options.versions.split(",")
    unknown = [version for version in versions if version not in EVERY_VERSION]
    if unknown:
        parser.error(f"unknown versions: {', '.join(unknown)}; choose among {', '.join(EVERY_VERSION)}")
    codes = {}
    for version in versions:
        print(f"== Kafka {version}", flush=True)
        codes[version] = _run(version, options.workers)
        compatibility_document.main()
    for version, code in codes.items():
        print(f"Kafka {version}: {'passed' if code == 0 else f'pytest ended with {code}'}")
    return 1 if any(codes.values()) else 0


def _run(version: str, workers: int) -> int:
    folder = ROOT / "tests" / "integration"
    files = [str(path.relative_to(ROOT)) for name in SCENARIOS for path in sorted(folder.glob(f"{name}.py"))]
    side_by_side = ["--numprocesses", str(workers), "--dist", "loadfile", "--no-loadscope-reorder"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.matrix.recorder",
        *(side_by_side if workers > 1 else []),
        *files,
    ]
    record = {"TXNSCOPE_TEST_VERSIONS": version, RECORD: str(FOLDER / f"{version}.json")}
    return subprocess.run(command, cwd=ROOT, env=os.environ | record, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
