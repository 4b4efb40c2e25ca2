"""Makes the sections of docs/killed-and-frozen.md from measured rounds."""

from __future__ import annotations

from tests.harm.rounds import Round, Series
from tests.harm.starvation import Outcome, reported

_SECTION = "\n## "
_KAFKA = ", Kafka "
_HEAD = """# Processes that are killed or frozen

Written by `python -m tests.harm --report docs/killed-and-frozen.md` (part of `make soak`), on two cores, shared with
the broker and the clients. Every process of `txnscope watch` is watched by another one, which notices if the watched
process dies, or if its work stands still ([why and how](adr/0009-progress-keeps-the-lease.md)).

- **Killed**: SIGKILL, as the kernel sends it if memory runs out. **Frozen**: SIGSTOP, never continued.
- **Standstill**: the longest time in which some source was not read, or the service did not answer.
- The test restarted the supervisor a second after it had ended, as systemd or a container runtime would.
- While nothing has to be forked, nobody notices that a Python daemon or fork server is frozen ("not needed").
"""


def put(page: str, section: str) -> str:
    """Returns the page with the new section. The new section replaces a section of the same title, even if that section
    is about another version of Kafka. Other sections stay as they are; the text above them is renewed."""
    sections = {_title(part): part for part in page.split(_SECTION)[1:]}
    sections[_title(section)] = section
    return _SECTION.join([_HEAD, *sections.values()])


def _title(section: str) -> str:
    """Returns the title without the version of Kafka."""
    return section.partition("\n")[0].partition(_KAFKA)[0]


def of_series(series: Series, bar_s: float) -> str:
    exact = "exact" if series.is_exact else "NOT EXACT"
    return "".join(
        [
            f"{series.how.capitalize()} {series.when}{_KAFKA}{series.version}\n\n{len(series.rounds)} rounds: median"
            f" {series.median_s:.1f} s, longest {series.longest_s:.1f} s. Counts afterwards: {exact}. Lines of"
            f" tracebacks in the log: {series.tracebacks}.\n\n",
            f"| {series.how} | noticed after | standstill (bar {bar_s:.0f} s) |\n|---|---|---|\n",
            *map(_row, series.rounds),
        ]
    )


def _row(one: Round) -> str:
    gone = "not needed" if one.gone_s is None else f"{one.gone_s:.1f} s"
    return f"| {', '.join(one.kinds)} | {gone} | {one.stood_s:.1f} s |\n"


def of_starvation(outcome: Outcome, minutes: float) -> str:
    head = f"Half a core for {minutes:g} minutes\n\nAll processes are stopped for three quarters of every second.\n\n"
    return head + "".join(f"- {line}\n" for line in reported(outcome))
