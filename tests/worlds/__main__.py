"""`python -m tests.worlds`: draws many histories, counts wrong markers, and prints how often each decision was made,
and how often which question stayed open.

Most histories are judged by the function `verdict` alone, which is fast. Some are judged by the whole application
(`judged`), which takes a second per history. Then every small world (`enumerated`) is played. Then random histories of
an id are drawn, to check the causes of their ends (`causes`). A certain cause must never be wrong, and a likely cause
may be wrong only in the cases that docs/causes.md names.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from typing import Final

from tests.helpers.leftovers import Guard
from tests.worlds import causes
from tests.worlds.causes import CAUSES_BLOCK, draw_causes_block
from tests.worlds.enumerated import play_slice
from tests.worlds.history import BLOCK, Tally, draw_block
from tests.worlds.judged_history import JUDGED_BLOCK, draw_judged_block

SLICES: Final = 100
"""Number of parts into which the small worlds are divided."""

Played = tuple[int, Tally, list[str]]
"""Number of histories, their tally, and a line for each wrong history."""


def main() -> int:
    """Returns the exit code: 0 if no marker and no cause was wrong, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.worlds", description=__doc__)
    parser.add_argument("--histories", type=int, default=200_000)
    parser.add_argument(
        "--judged",
        type=int,
        default=2_000,
        help="number of histories that the whole application judges, not only the function `verdict`",
    )
    parser.add_argument(
        "--causes",
        type=int,
        default=200_000,
        help="number of random histories of an id, whose causes are compared with the truth",
    )
    parser.add_argument("--first-seed", type=int, default=0)
    options = parser.parse_args()
    logging.disable()
    first = options.first_seed
    wrong = 0
    guard = Guard()  # ends the pool's processes, even after SIGKILL
    try:
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            seeds = range(first, first + options.histories, BLOCK)
            wrong += _print_wrong("judged by the function `verdict` alone", pool.map(draw_block, seeds))
            seeds = range(first, first + options.judged, JUDGED_BLOCK)
            wrong += _print_wrong("judged by the whole application", pool.map(draw_judged_block, seeds))
            wrong += _print_wrong("enumerated: every small world", pool.map(play_slice, range(SLICES), repeat(SLICES)))
            lives = _lives(pool, range(first, first + options.causes, CAUSES_BLOCK))
            wrong += _print_causes(options.causes, *lives)
    finally:
        guard.end()
    return 1 if wrong else 0


def _lives(pool: ProcessPoolExecutor, seeds: Iterable[int]) -> tuple[causes.Tally, list[str]]:
    total, wrong = causes.Tally(), []
    for tally, found in pool.map(draw_causes_block, seeds):
        for (cause, confidence), truths in tally.truths.items():
            for truth, times in truths.items():
                total.add(cause, confidence, truth, times)
        wrong += found
    return total, wrong


def _print_causes(lives: int, total: causes.Tally, wrong: list[str]) -> int:
    """Prints how often each cause was right, and how often the true cause was another one. Returns the number of
    histories with a wrong cause."""
    for line in wrong:
        sys.stdout.write(f"WRONG {line}\n")
    sys.stdout.write(
        f"{lives:,} histories of an id, {len(wrong)} with a wrong cause that docs/causes.md does not name\n"
    )
    for (cause, confidence), truths in sorted(total.truths.items()):
        right = 100 * causes.share_right(total, cause, confidence)
        others = ", ".join(f"{truth} {n:,}" for truth, n in truths.most_common() if truth != cause)
        sys.stdout.write(f"{cause}, {confidence}: {truths.total():,}, right {right:.2f} %; {others}\n")
    return len(wrong)


def _print_wrong(how: str, parts: Iterable[Played]) -> int:
    """Prints the results of the histories. Returns the number of wrong histories."""
    histories, total, wrong = 0, Tally(), list[str]()
    for number, tally, found in parts:
        histories += number
        total.verdicts.update(tally.verdicts)
        total.questions.update(tally.questions)
        wrong += found
    for line in wrong:
        sys.stdout.write(f"WRONG {line}\n")
    sys.stdout.write(f"{histories:,} histories {how}, {len(wrong)} with a wrong marker, a flip or a false hang\n")
    for kind in sorted({kind for kind, _ in total.verdicts}):
        _show(kind, total)
    return len(wrong)


def _show(kind: str, total: Tally) -> None:
    verdicts = Counter({decision: n for (of, decision), n in total.verdicts.items() if of == kind})
    all_ = verdicts.total()
    shares = ", ".join(f"{decision} {n:,} ({100 * n / all_:.2f} %)" for decision, n in verdicts.most_common())
    sys.stdout.write(f"{kind}: {all_:,} verdicts: {shares}\n")
    for (of, question), n in total.questions.most_common():
        if of == kind:
            sys.stdout.write(f"  {n:,} unknown: {question}\n")


if __name__ == "__main__":
    sys.exit(main())
