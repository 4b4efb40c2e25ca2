"""Derives the worlds (see `verdict.World`) in which an open entry may have been written, and the marker that follows
from them.

Pure: takes records of the transaction log, markers and samples, returns a verdict with its proofs. The judge, `resolve`
and the simulator of `tests/worlds` derive their verdicts with this package.
"""
