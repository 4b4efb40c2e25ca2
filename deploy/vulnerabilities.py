"""`python -m deploy.vulnerabilities`: lists the packages of requirements.lock for which pip-audit finds known
vulnerabilities.

pip-audit reports success even if its source has no data about vulnerabilities. Many mirrors of the package index have
no such data. So this module reads pip-audit's JSON, and counts the packages that were checked.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

LOCK: Final = Path(__file__).parents[1] / "requirements.lock"

CLEAN, VULNERABLE, UNCHECKED = 0, 1, 3

_AT_MOST_S: Final = 600.0
_COMMAND: Final = ("--require-hashes", "--disable-pip", "--progress-spinner=off", "--format=json")


def pip_audit(lock: Path) -> str | None:
    """Returns pip-audit's JSON about a requirements file with hashes. Returns None if pip-audit prints no JSON, for
    example because its source cannot be reached, or if pip-audit does not end within _AT_MOST_S."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(lock), *_COMMAND]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_AT_MOST_S, check=False)
    except subprocess.TimeoutExpired:
        return None
    return ended.stdout if ended.stdout.startswith("{") else None


def run(lock: Path = LOCK, ask: Callable[[Path], str | None] = pip_audit) -> tuple[int, str]:
    """Returns the exit code (0 clean, 1 vulnerable, 3 not everything was checked) and what to print. If there is a
    vulnerability, the code is 1 even if not everything was checked."""
    answer = ask(lock)
    if answer is None:
        why = f"pip-audit printed no JSON, or did not end within {_AT_MOST_S:.0f} s"
        return UNCHECKED, f"audit: nothing was checked: {why}"
    packages = json.loads(answer)["dependencies"]
    checked = [package for package in packages if "skip_reason" not in package]
    vulnerable = [_line(one, bad) for one in checked for bad in one["vulns"]]
    if checked and len(checked) == len(packages):
        code = CLEAN
        found = f"{len(vulnerable)} known vulnerabilities" if vulnerable else "no known vulnerability"
        summary = f"audit: {len(checked)} packages, {found}"
    else:
        code = UNCHECKED
        summary = (
            f"audit: {len(packages) - len(checked)} of {len(packages)} packages were NOT checked: the package index"
            " in use has no data about their vulnerabilities; run `make audit` where the public index answers"
        )
    return VULNERABLE if vulnerable else code, "\n".join([*vulnerable, summary])


def _line(package: dict[str, Any], found: dict[str, Any]) -> str:
    fixed = ", ".join(found["fix_versions"]) or "no version yet"
    return f"{package['name']} {package['version']}: {found['id']}, fixed in {fixed}"


if __name__ == "__main__":
    code, text = run()
    sys.stdout.write(text + "\n")
    sys.exit(code)
