"""Derives the worlds (see `verdict.World`) in which an open entry may have been written, and the marker that follows
from the worlds that are left.

Pure: transaction log records, markers and samples in, a verdict with its proofs out. The judge, `resolve` and the
simulator of `tests/worlds` import it.
"""
