"""Holds measured figures and their bars (limits). Prints a line for each figure, and a table of all bars."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Figure(NamedTuple):
    """A measured figure. `bar` is None if the figure is only reported. With `at_least` the bar is a minimum (for a
    rate), otherwise a maximum (for a time or a size)."""

    name: str
    value: float
    unit: str
    bar: float | None = None
    at_least: bool = False

    @property
    def reached(self) -> bool:
        if self.bar is None:
            return True
        return self.value >= self.bar if self.at_least else self.value <= self.bar


def show(title: str, figures: Iterable[Figure]) -> None:
    """Prints a table of the figures. The column `ratio` is the value divided by the bar, for minimum and maximum bars
    alike."""
    print(f"\n{title}\n{'figure':58} {'measured':>12} {'bar':>12} {'ratio':>6}", flush=True)
    for figure in figures:
        line = f"{figure.name:58} {_amount(figure.value):>12} "
        if figure.bar is not None:
            verdict = "reached" if figure.reached else "MISSED"
            sign = "≥" if figure.at_least else "≤"
            line += f"{sign + ' ' + _amount(figure.bar):>12} {figure.value / figure.bar:6.2f}  {verdict}"
        else:
            line += f"{'':12} {'':6}"
        print(f"{line.rstrip()}  [{figure.unit}]", flush=True)


def _amount(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) < 100 else f"{value:.1f}"


def percentile(values: Iterable[float], share: float) -> float:
    """Returns a percentile by the nearest-rank method: the result is one of `values`. `share`: from 0 to 1."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(len(ordered) * share * 1000) // 1000) - 1)]
