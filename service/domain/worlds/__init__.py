"""Derives the worlds in which an open entry may have been written, and the marker that follows from those left.

Pure: transaction log records, markers and samples in, a verdict with its proofs out. The judge, `resolve` and the
simulator of `tests/worlds` import it.
"""
