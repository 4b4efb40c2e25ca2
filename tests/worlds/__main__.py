"""`python -m tests.worlds`: draws many histories, counts wrong markers, and prints how often and why all is unknown."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.worlds.history import BLOCK, Tally, draw_block


def main() -> int:
    """0 if no verdict was wrong, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.worlds", description=__doc__)
    parser.add_argument("--histories", type=int, default=200_000)
    parser.add_argument("--first-seed", type=int, default=0)
    options = parser.parse_args()
    starts = range(options.first_seed, options.first_seed + options.histories, BLOCK)
    total, wrong = Tally(), []
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for tally, found in pool.map(draw_block, starts):
            total.verdicts.update(tally.verdicts)
            total.questions.update(tally.questions)
            wrong += found
    for line in wrong:
        sys.stdout.write(f"WRONG {line}\n")
    sys.stdout.write(f"{options.histories:,} histories, {len(wrong)} with a wrong marker\n")
    for kind in sorted({kind for kind, _ in total.verdicts}):
        _show(kind, total)
    return 1 if wrong else 0


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
