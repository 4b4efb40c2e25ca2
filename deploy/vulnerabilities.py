"""`python -m deploy.vulnerabilities`: the packages of requirements.lock with known vulnerabilities, by pip-audit.

pip-audit also reports success if its source knows none of the packages: a mirror of the package index serves files, but
often no vulnerabilities. So this module reads pip-audit's JSON, and counts the packages that were checked.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

LOCK: Final = Path(__file__).parents[1] / "requirements.lock"

CLEAN, VULNERABLE, UNCHECKED = 0, 1, 3

_AT_MOST_S: Final = 600.0
_COMMAND: Final = ("--require-hashes", "--disable-pip", "--progress-spinner=off", "--format=json")


class Audit(NamedTuple):
    """The result of pip-audit. `checked`, `unchecked`: numbers of packages; `vulnerable`: a line for each
    vulnerability."""

    checked: int
    unchecked: int
    vulnerable: tuple[str, ...]

    @classmethod
    def of(cls, dependencies: Iterable[dict[str, Any]]) -> Audit:
        """Reads `dependencies` of pip-audit's JSON."""
        known = list(dependencies)
        checked = [one for one in known if "skip_reason" not in one]
        return cls(
            len(checked), len(known) - len(checked), tuple(_line(one, bad) for one in checked for bad in one["vulns"])
        )

    def report(self) -> tuple[int, str]:
        """Returns the exit code and the text. The code of a vulnerability precedes that of packages that were not
        checked."""
        lines = list(self.vulnerable)
        if self.unchecked or not self.checked:
            lines.append(
                f"audit: {self.unchecked} of {self.checked + self.unchecked} packages were NOT checked: the package"
                " index in use has no vulnerabilities of them; run `make audit` where the public index answers"
            )
        else:
            found = f"{len(self.vulnerable)} known vulnerabilities" if self.vulnerable else "no known vulnerability"
            lines.append(f"audit: {self.checked} packages, {found}")
        code = VULNERABLE if self.vulnerable else UNCHECKED if self.unchecked or not self.checked else CLEAN
        return code, "\n".join(lines)


def pip_audit(lock: Path) -> str | None:
    """Returns pip-audit's JSON about a requirements file with hashes; None if its source could not be reached."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(lock), *_COMMAND]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_AT_MOST_S, check=False)
    except subprocess.TimeoutExpired:
        return None
    return ended.stdout if ended.stdout.startswith("{") else None


def run(lock: Path = LOCK, ask: Callable[[Path], str | None] = pip_audit) -> tuple[int, str]:
    """Returns the exit code (0 clean, 1 vulnerable, 3 not everything was checked) and what to print."""
    answer = ask(lock)
    if answer is None:
        return UNCHECKED, "audit: nothing was checked: the source of vulnerabilities does not answer"
    return Audit.of(json.loads(answer)["dependencies"]).report()


def _line(package: dict[str, Any], found: dict[str, Any]) -> str:
    fixed = ", ".join(found["fix_versions"]) or "no version yet"
    return f"{package['name']} {package['version']}: {found['id']}, fixed in {fixed}"


if __name__ == "__main__":
    code, text = run()
    sys.stdout.write(text + "\n")
    sys.exit(code)
